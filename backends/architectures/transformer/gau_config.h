// The keys of a config whose block_type is gau: gated attention units (docs/checkpoints.md).
#ifndef LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_
#define LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_

#include <cstdint>

#include "backends/checkpoint/config.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/tensor_names.h"

namespace longstream {

// A unit: one head of queries and keys of width s = gau_key_dim, whose values are e = gau_expansion
// wide. Full attention with RoPE, which is not set. Keys of heads and of an MLP are refused where
// they contradict it. Throws BackendError.
MixerSpec ReadGauMixer(const Config& config, int64_t width);

// Norms are behind the layers; that of the last one is the model's.
TensorNames GauNames();

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_ARCHITECTURES_TRANSFORMER_GAU_CONFIG_H_
