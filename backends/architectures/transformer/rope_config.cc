// Rotary position embedding in a config.
#include "backends/architectures/transformer/rope_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "backends/architectures/transformer/rope_scaling.h"

namespace longstream {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e9;
constexpr int64_t kMaxPositions = int64_t{1} << 40;
constexpr const char* kKinds = "default, linear, dynamic, ntk, yarn, llama3 or longrope";

// The keys that the config states beside the dictionary. theta and partial count if the dictionary
// does not have them; original_length counts even if it does.
struct TopKeys {
  std::optional<double> theta;
  std::string found_theta;
  std::optional<double> partial;
  std::optional<int64_t> original_length;

  explicit TopKeys(const Config& config)
      : theta(config.FindNumber("rope_theta", 1.0, kMaxTheta)),
        found_theta(config.Found("rope_theta")),
        partial(config.FindNumber("partial_rotary_factor", 0.0, 1.0)),
        original_length(config.FindInteger("original_max_position_embeddings", 1, kMaxPositions)) {}
};

// Reads one dictionary into a RopeSpec.
class RopeReader {
 public:
  RopeReader(const Config& rope, const TopKeys& top, const RopeShape& shape)
      : rope_(rope), top_(top), shape_(shape) {}

  RopeSpec Read() {
    const std::string kind = Kind();
    const RopeBase base = Base();
    RopeSpec spec = Scaled(kind, base);
    rope_.RefuseUnknown("RoPE of the kind " + kind);
    return spec;
  }

  int64_t extended_length() const { return extended_length_; }

 private:
  std::string Kind() const {
    const std::optional<std::string> type = rope_.FindString("type");
    const std::optional<std::string> rope_type = rope_.FindString("rope_type");
    if (type && rope_type && *type != *rope_type) {
      rope_.Invalid("type", "= " + rope_.Found("type") +
                                " disagrees with rope_type = " + rope_.Found("rope_type"));
    }
    kind_key_ = rope_type ? "rope_type" : "type";
    const std::string kind = rope_type ? *rope_type : type.value_or("default");
    return kind == "su" ? "longrope" : kind;  // su is Phi-3's first name for longrope
  }

  RopeBase Base() const {
    const std::optional<double> theta = rope_.FindNumber("rope_theta", 1.0, kMaxTheta);
    if (theta && top_.theta && *theta != *top_.theta) {
      rope_.Invalid("rope_theta", "= " + rope_.Found("rope_theta") +
                                      " disagrees with rope_theta = " + top_.found_theta);
    }
    const double partial = rope_.FindNumber("partial_rotary_factor", 0.0, 1.0)
                               .value_or(top_.partial.value_or(shape_.default_partial));
    const auto rotated = static_cast<int32_t>(shape_.head_dim * partial);
    if (rotated < 2 || rotated % 2 != 0) {
      rope_.Unsupported("partial_rotary_factor", "must rotate an even number of each head's " +
                                                     std::to_string(shape_.head_dim) +
                                                     " elements, found " + std::to_string(rotated));
    }
    return {theta.value_or(top_.theta.value_or(shape_.default_theta)), rotated};
  }

  RopeSpec Scaled(const std::string& kind, const RopeBase& base) {
    if (kind == "default") {
      if (base.rotated < shape_.head_dim) return {.theta = base.theta, .rotated = base.rotated};
      return {.theta = base.theta};
    }
    if (kind == "linear") return LinearRope(base, Factor());
    if (kind == "ntk" || kind == "dynamic") return Ntk(kind, base);
    if (kind == "yarn") return Yarn(base);
    if (kind == "llama3") return Llama3(base);
    if (kind == "longrope") return Long(base);
    rope_.Unsupported(kind_key_,
                      std::string("must be ") + kKinds + ", found " + rope_.Found(kind_key_));
  }

  double Factor() const { return rope_.Number("factor", 1.0, kMaxFactor); }

  // The length at which the scaling starts. The key beside the dictionary takes precedence over the
  // key in the dictionary.
  int64_t OriginalLength() const {
    const std::optional<int64_t> inner =
        rope_.FindInteger("original_max_position_embeddings", 1, kMaxPositions);
    return top_.original_length.value_or(inner.value_or(shape_.max_position_embeddings));
  }

  RopeSpec Ntk(const std::string& kind, const RopeBase& base) const {
    if (base.rotated == 2) {
      rope_.Unsupported(kind_key_, "must not be " + kind + " where 2 elements of a head rotate");
    }
    const double factor = Factor();
    if (kind == "ntk") return NtkRope(base, factor);
    const double stretch =
        static_cast<double>(std::max(shape_.context_limit, shape_.max_position_embeddings)) /
        static_cast<double>(shape_.max_position_embeddings);
    return NtkRope(base, factor * stretch - (factor - 1.0));
  }

  RopeSpec Yarn(const RopeBase& base) {
    const int64_t length = OriginalLength();
    YarnScaling scaling;
    scaling.original_length = static_cast<double>(length);
    const double implied =
        static_cast<double>(shape_.max_position_embeddings) / scaling.original_length;
    scaling.factor = rope_.FindNumber("factor", 1.0, kMaxFactor).value_or(implied);
    scaling.beta_fast = rope_.FindNumber("beta_fast", 1e-9, 1e9).value_or(32.0);
    scaling.beta_slow = rope_.FindNumber("beta_slow", 1e-9, 1e9).value_or(1.0);
    scaling.truncate = rope_.FindBool("truncate").value_or(true);
    rope_.FindBool("finetuned");  // whether the model was trained with this scaling; no effect
    const double mscale = rope_.FindNumber("mscale", 0.0, 1e6).value_or(0.0);
    const double all = rope_.FindNumber("mscale_all_dim", 0.0, 1e6).value_or(0.0);
    const double magnitude = mscale != 0.0 && all != 0.0 ? YarnMagnitude(scaling.factor, mscale) /
                                                               YarnMagnitude(scaling.factor, all)
                                                         : YarnMagnitude(scaling.factor);
    scaling.attention_factor = AttentionFactor().value_or(magnitude);
    if (base.theta <= 1.0) rope_.Invalid("rope_theta", "must be above 1 for yarn, found 1");
    if (top_.original_length || rope_.Has("original_max_position_embeddings")) {
      extended_length_ = static_cast<int64_t>(
          std::min(scaling.factor * scaling.original_length, double{kMaxPositions}));
    }
    return YarnRope(base, scaling);
  }

  RopeSpec Llama3(const RopeBase& base) const {
    const Llama3Scaling scaling = {.factor = Factor(),
                                   .low_freq_factor = rope_.Number("low_freq_factor", 1e-9, 1e9),
                                   .high_freq_factor = rope_.Number("high_freq_factor", 1e-9, 1e9),
                                   .original_length = static_cast<double>(OriginalLength())};
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      rope_.Invalid("high_freq_factor",
                    "must be above low_freq_factor = " + rope_.Found("low_freq_factor") +
                        ", found " + rope_.Found("high_freq_factor"));
    }
    return Llama3Rope(base, scaling);
  }

  RopeSpec Long(const RopeBase& base) const {
    const int64_t length = OriginalLength();
    const std::vector<double> shorter = Factors("short_factor", base.rotated / 2);
    const std::vector<double> longer = Factors("long_factor", base.rotated / 2);
    const double implied =
        static_cast<double>(shape_.max_position_embeddings) / static_cast<double>(length);
    const double factor = rope_.FindNumber("factor", 1e-9, kMaxFactor).value_or(implied);
    const std::optional<double> stated = AttentionFactor();
    if (!stated && factor > 1.0 && length == 1) {
      rope_.Invalid("original_max_position_embeddings", "must be at least 2, found 1");
    }
    const double magnitude =
        factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(length));
    return LongRope(base, shape_.context_limit > length ? longer : shorter,
                    stated.value_or(magnitude));
  }

  std::optional<double> AttentionFactor() const {
    return rope_.FindNumber("attention_factor", 1e-6, 1e6);
  }

  std::vector<double> Factors(const char* key, int32_t count) const {
    std::vector<double> factors = rope_.Numbers(key, 1e-9, kMaxFactor);
    if (factors.size() != static_cast<size_t>(count)) {
      rope_.Invalid(key, "must have " + std::to_string(count) +
                             " items, one for each pair of elements that rotates, found " +
                             std::to_string(factors.size()));
    }
    return factors;
  }

  const Config& rope_;
  const TopKeys& top_;
  const RopeShape& shape_;
  mutable const char* kind_key_ = "rope_type";
  int64_t extended_length_ = 0;
};

// The dictionary rope_parameters, or under its older name rope_scaling.
std::optional<Config> FindDictionary(const Config& config) {
  std::optional<Config> parameters = config.FindObject("rope_parameters");
  std::optional<Config> scaling = config.FindObject("rope_scaling");
  if (parameters && scaling) {
    config.Invalid("rope_scaling", "must be absent beside rope_parameters, its new name, found " +
                                       config.Found("rope_scaling"));
  }
  return parameters ? parameters : scaling;
}

}  // namespace

RopeOfLayers ReadRope(const Config& config, const LoadOptions& options, const RopeShape& shape) {
  RopeOfLayers layers;
  const TopKeys top(config);
  const auto read = [&](const std::optional<Config>& rope, const TopKeys& beside) {
    const Config silent("{}", config.file());
    RopeReader reader(rope ? *rope : silent, beside, shape);
    RopeSpec spec = reader.Read();
    layers.extended_length = std::max(layers.extended_length, reader.extended_length());
    return spec;
  };
  const std::optional<Config> rope = FindDictionary(config);
  const bool by_type = rope && (rope->Has("full_attention") || rope->Has("sliding_attention"));
  if (by_type) {
    layers.window = read(rope->FindObject("sliding_attention"), top);
    layers.extended_length = 0;
    layers.full = read(rope->FindObject("full_attention"), top);
    rope->RefuseUnknown("RoPE by layer type");
  } else {
    layers.full = layers.window = read(rope, top);
  }
  if (options.rope_scaling()) {
    const Config& option = *options.rope_scaling();
    const bool one = layers.full == layers.window;
    // Values that the option does not state come from the config.
    TopKeys beside = top;
    beside.theta = layers.full.theta;
    if (option.Has("rope_theta")) beside.theta.reset();
    if (option.Has("original_max_position_embeddings")) beside.original_length.reset();
    const int32_t rotated = layers.full.rotated > 0 ? layers.full.rotated : shape.head_dim;
    // The conversion back to an integer truncates. With + 0.5 it gives `rotated` again.
    beside.partial = (rotated + 0.5) / shape.head_dim;
    layers.extended_length = 0;
    layers.full = read(option, beside);
    if (one) layers.window = layers.full;
  }
  return layers;
}

}  // namespace longstream
