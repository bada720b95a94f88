// The options of model_open: types of weights and caches, and overrides of a config.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_LOAD_OPTIONS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_LOAD_OPTIONS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/config.h"
#include "kernels/core/dtype.h"

namespace longstream {

// Read-only after the constructor. Only one thread may read rope_scaling, which records the keys
// read.
class LoadOptions {
 public:
  // No options: the config and the checkpoint decide everything.
  LoadOptions() = default;
  // Parses a JSON object; nullptr means {}. BackendError(LS_INVALID_ARGUMENT): not a JSON object,
  // an unknown option (the sentence lists the known ones), or a value outside its range.
  explicit LoadOptions(const char* json);
  // The names of all options.
  static std::span<const std::string_view> Known();

  // "weights": auto, f32, f16, bf16, int8, int4. nullopt: the types in the checkpoint.
  std::optional<DType> weights() const { return weights_; }
  // "cache": auto, f32, f16, bf16, int8: the type of cached keys and values. int8 applies only to
  // keys and values in pages. auto means f32 if the weights are f32, else bf16. `weights` is the
  // type of the loaded projections (ModelWeights::layers[0].mixer.in.type).
  DType CacheType(DType weights) const {
    return cache_.value_or(weights == DType::kF32 ? DType::kF32 : DType::kBF16);
  }

  // "packed_cache": auto, off or the directory that keeps packed weights (packed_cache.h).
  const std::string& packed_cache() const { return packed_cache_; }

  // Overrides of the config; nullopt: not given.
  std::optional<int64_t> rerope_window() const { return rerope_window_; }
  std::optional<double> leaky_rerope_factor() const { return leaky_rerope_factor_; }
  std::optional<int64_t> window() const { return window_; }
  // 0-based indices of the layers that stay full attention, in rising order.
  const std::optional<std::vector<int64_t>>& full_layers() const { return full_layers_; }
  const std::optional<std::string>& logn() const { return logn_; }  // "always", "extrapolate"
  std::optional<int64_t> context_limit() const { return context_limit_; }
  std::optional<int64_t> training_length() const { return training_length_; }
  // Replaces the config's rope_scaling (backends/architectures/transformer/rope_config.h).
  const std::optional<Config>& rope_scaling() const { return rope_scaling_; }

  // Keys of config.json that count as absent (Config::Remove).
  const std::vector<std::string>& ignore_keys() const { return ignore_keys_; }

  // Throws LS_UNIMPLEMENTED for a given override that is not in `served`. Every backend serves
  // context_limit. The sentence contains `backend` and `hint` (what to do instead).
  void RefuseOverridesBut(std::initializer_list<std::string_view> served, std::string_view backend,
                          std::string_view hint) const;

 private:
  std::optional<DType> weights_;
  std::optional<DType> cache_;
  std::string packed_cache_ = "auto";
  std::optional<int64_t> rerope_window_;
  std::optional<double> leaky_rerope_factor_;
  std::optional<int64_t> window_;
  std::optional<std::vector<int64_t>> full_layers_;
  std::optional<std::string> logn_;
  std::optional<int64_t> context_limit_;
  std::optional<int64_t> training_length_;
  std::optional<Config> rope_scaling_;
  std::vector<std::string> ignore_keys_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_LOAD_OPTIONS_H_
