// The architectures of GGUF files that are served. Each is one row of a table.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_ARCHITECTURES_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_ARCHITECTURES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "backends/checkpoint/gguf/config_writer.h"
#include "backends/checkpoint/gguf/gguf_metadata.h"
#include "backends/checkpoint/gguf/gguf_names.h"

namespace longstream {

// The model whose config is being written.
struct ConfigOfModel {
  GgufMetadata& metadata;
  ConfigWriter& config;
  std::string_view& model_type;  // GgufArchitecture::model_type, unless the function changes it
  // RoPE's scaling, which is written as rope_scaling behind the other keys.
  ConfigWriter& rope;
  int64_t num_layers;
  int64_t num_heads;
  int64_t width;
  int64_t head_dim;

  bool HasTensor(std::string_view name) const {
    return metadata.model().FindTensor(name) != nullptr;
  }
};

struct GgufArchitecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // of the config
  // Adds the keys that the common part does not (gguf_config.cc).
  void (*config)(const ConfigOfModel& model);
  std::span<const GgufName> names{};  // of a layer's tensors, where they differ from Llama's
  bool interleaved = false;           // q and k: GgufConversion::interleaved_heads
  bool norms_plus_one = false;        // all norms: GgufConversion::plus_one
  bool layer_norm = false;            // LayerNorm, not RMSNorm
  bool rotates_parts = false;         // rope.dimension_count may be less than a head
  bool long_rope = false;             // reads rope_factors_long and rope_factors_short
};

// nullptr: there is none of this name.
const GgufArchitecture* FindGgufArchitecture(std::string_view name);
std::span<const GgufArchitecture> GgufArchitectures();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_ARCHITECTURES_H_
