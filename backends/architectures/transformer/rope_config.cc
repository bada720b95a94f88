// Rotary position embedding in a config.
#include "backends/architectures/transformer/rope_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "backends/architectures/transformer/rope_scaling.h"
#include "backends/architectures/transformer/transformer_plan.h"

namespace longstream {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e9;
constexpr const char* kKinds = "default, linear, dynamic, ntk, yarn, llama3 or longrope";

constexpr const char* kPartial = "partial_rotary_factor";

// The major release of transformers that wrote the config, if the config names one.
std::optional<int> MajorRelease(const Config& config) {
  if (!config.IsString("transformers_version")) return std::nullopt;
  const std::string release = config.String("transformers_version");
  int major = 0;
  const char* const end = release.data() + release.size();
  const auto [rest, error] = std::from_chars(release.data(), end, major);
  const bool is_release = error == std::errc() && major >= 0 && (rest == end || *rest == '.');
  return is_release ? std::optional<int>(major) : std::nullopt;
}

// The keys that the config states beside the dictionary. theta and partial count if the dictionary
// does not have them; original_length counts even if it does.
struct TopKeys {
  const Config& config;
  std::optional<double> theta{};
  std::string found_theta{};
  std::optional<int64_t> original_length{};
  std::optional<double> partial{};  // in place of the config's partial_rotary_factor
};

// Reads one dictionary into a RopeSpec.
class RopeReader {
 public:
  RopeReader(const Config& rope, const TopKeys& top, const RopeShape& shape)
      : rope_(rope), top_(top), shape_(shape), defaults_(shape.defaults) {}

  RopeSpec Read() {
    const std::string kind = Kind();
    const RopeBase base = Base(kind);
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
    const bool is_early_name = kind == "su" || (kind == "yarn" && defaults_.yarn_is_longrope);
    return is_early_name ? "longrope" : kind;
  }

  RopeBase Base(const std::string& kind) const {
    const std::optional<double> theta = rope_.FindNumber("rope_theta", 1.0, kMaxTheta);
    if (theta && top_.theta && *theta != *top_.theta) {
      rope_.Invalid("rope_theta", "= " + rope_.Found("rope_theta") +
                                      " disagrees with rope_theta = " + top_.found_theta);
    }
    const auto rotated = static_cast<int32_t>(shape_.head_dim * Partial(kind));
    if (rotated < 2 || rotated % 2 != 0) {
      rope_.Unsupported(kPartial, "must rotate an even number of each head's " +
                                      std::to_string(shape_.head_dim) + " elements, found " +
                                      std::to_string(rotated));
    }
    if (theta || top_.theta) return {theta ? *theta : *top_.theta, rotated};
    return {DefaultTheta(), rotated};
  }

  // The part of each head that rotates.
  double Partial(const std::string& kind) const {
    if (top_.partial) return rope_.FindNumber(kPartial, 0.0, 1.0).value_or(*top_.partial);
    if (!defaults_.rotates_parts && kind == "default") {
      for (const Config* config : {&rope_, &top_.config}) {
        if (config->IsNumber(kPartial, 1.0)) config->Has(kPartial);
      }
      return 1.0;
    }
    const std::optional<double> inner = rope_.FindNumber(kPartial, 0.0, 1.0);
    const std::optional<double> outer = top_.config.FindNumber(kPartial, 0.0, 1.0);
    const double absent = top_.config.IsNull(kPartial) ? 1.0 : defaults_.partial_rotary_factor;
    const double partial = inner ? *inner : outer.value_or(absent);
    if (!defaults_.rotates_parts && partial != 1.0) {
      const Config& stated = inner ? rope_ : top_.config;
      stated.Unsupported(kPartial, "must be 1 beside RoPE of the kind " + kind +
                                       " in a family that rotates whole heads, found " +
                                       stated.Found(kPartial));
    }
    return partial;
  }

  // The base if the config states none.
  double DefaultTheta() const {
    const Config& config = top_.config;
    if (defaults_.theta_before_5 == 0.0) return defaults_.theta;
    const std::optional<int> release = MajorRelease(config);
    if (release && *release >= 5) return defaults_.theta;
    std::ostringstream problem;
    if (!release) {
      problem << "is absent and counts as " << defaults_.theta
              << ", as in transformers from release 5 on; earlier releases take "
              << defaults_.theta_before_5;
    } else {
      problem << "is absent and counts as " << defaults_.theta_before_5
              << ", because the file names release " << config.Found("transformers_version")
              << " of transformers; from release 5 on it is " << defaults_.theta;
    }
    config.Warn("rope_theta", problem.str());
    return release ? defaults_.theta_before_5 : defaults_.theta;
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

  // The class's own value takes precedence over the key in the dictionary, too.
  int64_t LengthOfClass() const {
    const char* key = "original_max_position_embeddings";
    const std::optional<int64_t> inner = rope_.FindInteger(key, 1, kMaxPositions);
    if (inner && *inner != defaults_.original_length) {
      rope_.Unsupported(key, "must stand beside the dictionary in this family, found " +
                                 rope_.Found(key) + " in it alone");
    }
    return defaults_.original_length;
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
    // In transformers an absent key means true, and null means false.
    scaling.truncate = rope_.FindBool("truncate").value_or(!rope_.IsNull("truncate"));
    // transformers reads this key beside the dictionaries of the layer types.
    if (defaults_.dictionary == RopeDictionary::kByLayerType) {
      RequireTrue(rope_, "truncate");
      scaling.truncate = true;
    }
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
    const int64_t length =
        top_.original_length || defaults_.original_length == 0 ? OriginalLength() : LengthOfClass();
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
  const RopeDefaults& defaults_;
  mutable const char* kind_key_ = "rope_type";
  int64_t extended_length_ = 0;
};

// RoPE's dictionaries: rope_parameters, or rope_scaling by its older name.
struct Dictionaries {
  std::optional<Config> parameters;
  std::optional<Config> scaling;

  explicit Dictionaries(const Config& config)
      : parameters(config.FindObject("rope_parameters")),
        scaling(config.FindObject("rope_scaling")) {
    if (!parameters || !scaling) return;
    config.Invalid("rope_scaling", "must be absent beside rope_parameters, its new name, found " +
                                       config.Found("rope_scaling"));
  }
};

bool HasLayerTypes(const Config& rope) {
  const bool full = rope.Has("full_attention");
  return rope.Has("sliding_attention") || full;
}

class LayersReader {
 public:
  LayersReader(const Config& config, const RopeShape& shape) : config_(config), shape_(shape) {}

  RopeOfLayers Read() {
    const Dictionaries found(config_);
    if (shape_.defaults.dictionary == RopeDictionary::kByLayerType) return ByLayerType(found);
    TopKeys top = Beside();
    top.original_length = config_.FindInteger("original_max_position_embeddings", 1, kMaxPositions);
    const std::optional<Config>& rope = found.parameters ? found.parameters : found.scaling;
    if (!rope || !HasLayerTypes(*rope)) {
      layers_.full = layers_.window = ReadOne(rope, top, shape_);
      return layers_;
    }
    if (shape_.defaults.dictionary == RopeDictionary::kOne) {
      const char* key = found.parameters ? "rope_parameters" : "rope_scaling";
      config_.Unsupported(
          key, "must be one dictionary for all layers in this family, found " + config_.Found(key));
    }
    layers_.window = ReadOne(rope->FindObject("sliding_attention"), top, shape_);
    layers_.extended_length = 0;
    layers_.full = ReadOne(rope->FindObject("full_attention"), top, shape_);
    rope->RefuseUnknown("RoPE by layer type");
    return layers_;
  }

  // Reads the option rope_scaling. The values that it does not state come from the config, which
  // gave `layers`.
  RopeOfLayers ReadOption(const Config& option, const RopeOfLayers& layers) {
    layers_ = layers;
    TopKeys top = Beside();
    top.theta = layers.full.theta;
    if (option.Has("rope_theta")) top.theta.reset();
    if (!option.Has("original_max_position_embeddings")) {
      top.original_length =
          config_.FindInteger("original_max_position_embeddings", 1, kMaxPositions);
    }
    const int32_t rotated = layers.full.rotated > 0 ? layers.full.rotated : shape_.head_dim;
    // The conversion back to an integer truncates. With + 0.5 it gives `rotated` again.
    top.partial = (rotated + 0.5) / shape_.head_dim;
    layers_.extended_length = 0;
    RopeShape shape = shape_;
    shape.defaults = {};
    layers_.full = ReadOne(option, top, shape);
    const bool one =
        shape_.defaults.dictionary != RopeDictionary::kByLayerType && layers.full == layers.window;
    if (one) layers_.window = layers_.full;
    return layers_;
  }

 private:
  TopKeys Beside() const {
    return {.config = config_,
            .theta = config_.FindNumber("rope_theta", 1.0, kMaxTheta),
            .found_theta = config_.Found("rope_theta")};
  }

  RopeSpec ReadOne(const std::optional<Config>& rope, const TopKeys& top, const RopeShape& shape) {
    const Config silent("{}", config_.file());
    RopeReader reader(rope ? *rope : silent, top, shape);
    RopeSpec spec = reader.Read();
    layers_.extended_length = std::max(layers_.extended_length, reader.extended_length());
    return spec;
  }

  // A dictionary for all layers counts for full attention alone if it is called rope_scaling.
  RopeOfLayers ByLayerType(const Dictionaries& found) {
    std::optional<Config> full = found.scaling;
    if (full && full->Has("type") && !full->Has("rope_type") &&
        full->Found("type") != "\"default\"") {
      full->Unsupported("type",
                        "must be called rope_type in this family, because releases of "
                        "transformers differ in whether it counts, found " +
                            full->Found("type"));
    }
    std::optional<Config> window;
    if (found.parameters && !found.parameters->Keys().empty()) {
      const Config& rope = *found.parameters;
      if (!HasLayerTypes(rope)) {
        config_.Unsupported(
            "rope_parameters",
            "must hold full_attention and sliding_attention in this family, found " +
                config_.Found("rope_parameters"));
      }
      full = rope.FindObject("full_attention");
      window = rope.FindObject("sliding_attention");
      rope.RefuseUnknown("RoPE by layer type");
    }
    const TopKeys top = Beside();
    const RopeDefaults& defaults = shape_.defaults;
    RopeShape of_windows = shape_;
    of_windows.defaults.theta = defaults.window_theta;
    // Before release 5 the base of full attention was that of windows, too.
    const bool is_early = MajorRelease(config_).value_or(5) < 5 && !top.theta && !found.parameters;
    if (is_early && defaults.theta_before_5 != 0.0) {
      of_windows.defaults.theta = defaults.theta_before_5;
    }
    of_windows.defaults.theta_before_5 = 0.0;
    TopKeys beside_windows = {.config = config_};
    if (!defaults.window_theta_key.empty()) {
      beside_windows.theta = config_.FindNumber(defaults.window_theta_key, 1.0, kMaxTheta);
      if (window && window->Has("rope_theta")) beside_windows.theta.reset();
    } else if (top.theta.value_or(defaults.window_theta) != defaults.window_theta &&
               !(window && window->Has("rope_theta"))) {
      std::ostringstream problem;
      problem << "must be " << defaults.window_theta
              << " or stand in rope_parameters for each layer type, because releases of "
                 "transformers differ in whether it counts in windows, found "
              << top.found_theta;
      config_.Unsupported("rope_theta", problem.str());
    }
    layers_.window = ReadOne(window, beside_windows, of_windows);
    layers_.extended_length = 0;
    layers_.full = ReadOne(full, top, shape_);
    return layers_;
  }

  const Config& config_;
  const RopeShape& shape_;
  RopeOfLayers layers_;
};

}  // namespace

RopeOfLayers ReadRope(const Config& config, const LoadOptions& options, const RopeShape& shape) {
  RopeOfLayers layers = LayersReader(config, shape).Read();
  if (!options.rope_scaling()) return layers;
  return LayersReader(config, shape).ReadOption(*options.rope_scaling(), layers);
}

}  // namespace longstream
