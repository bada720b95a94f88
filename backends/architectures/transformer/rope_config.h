// Rotary position embedding in a config: its base, how much of a head rotates, and its scaling.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_

#include <cstdint>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// The values that RoPE needs from the rest of the config.
struct RopeShape {
  int32_t head_dim = 0;
  double default_theta = 10000.0;
  double default_partial = 1.0;  // the value of an absent partial_rotary_factor
  int64_t max_position_embeddings = 0;
  // Positions that a session may have, unless YaRN states more. transformers lets some kinds
  // (dynamic, longrope) depend on the current length. Here they depend on this number, because
  // cached keys are not rotated again.
  int64_t context_limit = 0;
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
// attention too if both layer types have the same RoPE. Throws BackendError.
RopeOfLayers ReadRope(const Config& config, const LoadOptions& options, const RopeShape& shape);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
