// Rotary position embedding in a config: its base, how much of a head rotates, and its scaling.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_

#include <cstdint>
#include <string_view>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// The layers to which a config's dictionary of RoPE applies.
enum class RopeDictionary {
  kAny,         // to all layers, or it holds a dictionary for each layer type
  kOne,         // to all layers; others are refused
  kByLayerType  // rope_parameters: to each layer type; rope_scaling: to full attention
};

// How a family's class reads the keys of RoPE, and the values that it gives to absent keys.
struct RopeDefaults {
  double theta = 10000.0;
  // Of a config that names a release of transformers before 5; 0: the same.
  double theta_before_5 = 0.0;
  double partial_rotary_factor = 1.0;
  // Whether the class reads partial_rotary_factor if the kind is default. If not, the key is
  // unknown, and other kinds must rotate whole heads.
  bool rotates_parts = true;
  int64_t original_length = 0;    // of longrope, before the dictionary's; 0: none
  bool yarn_is_longrope = false;  // the kind yarn is an early name of longrope
  RopeDictionary dictionary = RopeDictionary::kAny;
  // Of window attention with kByLayerType: its base, and the key that states it ("": none).
  double window_theta = 10000.0;
  std::string_view window_theta_key{};
};

// The values that RoPE needs from the rest of the config.
struct RopeShape {
  int32_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  // Positions that a session may have, unless YaRN states more. transformers lets some kinds
  // (dynamic, longrope) depend on the current length. Here they depend on this number, because
  // cached keys are not rotated again.
  int64_t context_limit = 0;
  RopeDefaults defaults{};
};

struct RopeOfLayers {
  RopeSpec full;    // of full attention
  RopeSpec window;  // of window attention; differs only if the config has a RoPE per layer type
  // The length to which YaRN extends original_max_position_embeddings if the config states both;
  // else 0.
  int64_t extended_length = 0;
};

// Reads rope_theta, partial_rotary_factor, original_max_position_embeddings, and the dictionary
// rope_parameters (older name: rope_scaling), which is one for all layers or one per layer type.
// The option rope_scaling replaces the dictionary of full attention; it replaces that of window
// attention too if both layer types have the same RoPE and the dictionary is not kByLayerType.
// Throws BackendError.
RopeOfLayers ReadRope(const Config& config, const LoadOptions& options, const RopeShape& shape);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
