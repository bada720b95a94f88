// Reads the options of model_open.
#include "backends/checkpoint/load_options.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;
constexpr int64_t kMaxLayers = 1 << 16;
constexpr int64_t kMaxPositions = int64_t{1} << 40;

constexpr std::string_view kKnown[] = {
    "weights",      "cache",       "packed_cache", "rerope_window", "leaky_rerope_factor",
    "window",       "full_layers", "logn",         "context_limit", "training_length",
    "rope_scaling", "ignore_keys",
};

std::string KnownOptions() {
  std::string names;
  for (const std::string_view name : kKnown) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

// Returns nullopt for "auto", or one of `types`. `expected` lists all accepted names for the error.
std::optional<DType> ReadType(const Config& options, std::string_view key,
                              std::initializer_list<DType> types, const std::string& expected) {
  const std::string name = options.FindString(key).value_or("auto");
  if (name == "auto") return std::nullopt;
  for (const DType type : types) {
    if (name == NameOf(type)) return type;
  }
  options.Invalid(key, "must be " + expected + ", found " + options.Found(key));
}

}  // namespace

LoadOptions::LoadOptions(const char* json) {
  const Config options(json == nullptr ? "{}" : json, "options");
  for (const std::string& key : options.Keys()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) {
      options.Invalid(key, "is no option, expected one of " + KnownOptions());
    }
  }
  weights_ =
      ReadType(options, "weights", {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI4},
               "auto, f32, f16, bf16, int8 or int4");
  cache_ = ReadType(options, "cache", {DType::kF32, DType::kF16, DType::kBF16, DType::kI8},
                    "auto, f32, f16, bf16 or int8");
  packed_cache_ = options.FindString("packed_cache").value_or(packed_cache_);
  if (packed_cache_.empty()) {
    options.Invalid("packed_cache",
                    "must be auto, off or a directory, found " + options.Found("packed_cache"));
  }
  rerope_window_ = options.FindInteger("rerope_window", 1, kMaxWindow);
  leaky_rerope_factor_ = options.FindNumber("leaky_rerope_factor", 1.0, 1e9);
  window_ = options.FindInteger("window", 1, kMaxWindow);
  full_layers_ = options.FindIntegers("full_layers", 0, kMaxLayers);
  if (full_layers_ && std::adjacent_find(full_layers_->begin(), full_layers_->end(),
                                         std::greater_equal<>()) != full_layers_->end()) {
    options.Invalid("full_layers", "must rise, found " + options.Found("full_layers"));
  }
  logn_ = options.FindString("logn");
  if (logn_ && *logn_ != "always" && *logn_ != "extrapolate") {
    options.Invalid("logn", "must be always or extrapolate, found " + options.Found("logn"));
  }
  context_limit_ = options.FindInteger("context_limit", 1, kMaxPositions);
  training_length_ = options.FindInteger("training_length", 2, kMaxPositions);
  rope_scaling_ = options.FindObject("rope_scaling");
  ignore_keys_ = options.FindStrings("ignore_keys").value_or(ignore_keys_);
}

std::span<const std::string_view> LoadOptions::Known() { return kKnown; }

void LoadOptions::RefuseOverridesBut(std::initializer_list<std::string_view> served,
                                     std::string_view backend, std::string_view hint) const {
  const struct {
    std::string_view name;
    bool given;
  } overrides[] = {
      {"rerope_window", rerope_window_.has_value()},
      {"leaky_rerope_factor", leaky_rerope_factor_.has_value()},
      {"window", window_.has_value()},
      {"full_layers", full_layers_.has_value()},
      {"logn", logn_.has_value()},
      {"training_length", training_length_.has_value()},
      {"rope_scaling", rope_scaling_.has_value()},
  };
  for (const auto& override : overrides) {
    if (!override.given || std::find(served.begin(), served.end(), override.name) != served.end()) {
      continue;
    }
    throw BackendError(LS_UNIMPLEMENTED, "options: " + std::string(override.name) +
                                             " is not served by the backend " +
                                             std::string(backend) + ": " + std::string(hint));
  }
}

}  // namespace longstream
