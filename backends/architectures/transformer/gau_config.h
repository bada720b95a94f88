// The keys of a config whose block_type is gau: gated attention units (docs/checkpoints.md).
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_

#include <cstdint>

#include "backends/checkpoint/config.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/tensor_names.h"

namespace longstream {

// A unit has one head of queries and keys, s = gau_key_dim wide, with values e = gau_expansion
// wide. It has full attention with RoPE; the RopeSpec is not set. Refuses keys of heads and of an
// MLP that contradict this. Throws BackendError.
MixerSpec ReadGauMixer(const Config& config, int64_t width);

// The names of the tensors. Each layer has a norm behind it; the last of these norms is the model's
// final norm.
TensorNames GauNames();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_
