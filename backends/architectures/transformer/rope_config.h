// Rotary position embedding in a config: its base, how much of a head rotates, and its scaling.
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_

#include <cstdint>

#include "backends/checkpoint/config.h"
#include "backends/checkpoint/load_options.h"
#include "backends/spec/model_spec.h"

namespace longstream {

// What RoPE needs to know of the rest of the config.
struct RopeShape {
  int32_t head_dim = 0;
  double default_theta = 10000.0;
  double default_partial = 1.0;  // of partial_rotary_factor
  int64_t max_position_embeddings = 0;
  // Positions that a session may have, unless YaRN states more. The kinds that transformers makes
  // depend on the current length (dynamic, longrope) depend on this number instead: a cached key is
  // not rotated again.
  int64_t context_limit = 0;
};

struct RopeOfLayers {
  RopeSpec full;    // of full attention
  RopeSpec window;  // of window attention; the same unless the config has one for each layer type
  // What YaRN extends original_max_position_embeddings to where the config states both; else 0.
  int64_t extended_length = 0;
};

// rope_theta, partial_rotary_factor, original_max_position_embeddings, and the dictionary
// rope_parameters, which was once called rope_scaling: one for all layers, or one for each type of
// layer. The option rope_scaling stands in place of the dictionary of full attention, and of that
// of window attention where they are one. Throws BackendError.
RopeOfLayers ReadRope(const Config& config, const LoadOptions& options, const RopeShape& shape);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_ROPE_CONFIG_H_
