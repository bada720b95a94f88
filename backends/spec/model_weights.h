// The weights of a model as its decoder reads them: packed projections and small f32 vectors.
#ifndef LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_
#define LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/core/matrix.h"

namespace longstream {

// A norm as wide as the model.
struct NormWeights {
  const float* weight = nullptr;  // [d]; nullptr: there is no norm
  const float* bias = nullptr;    // [d]; nullptr: none
};

// Several projections of the same input are packed as one, their outputs side by side in the order
// given here. An absent part (no gate, say) has width 0. Pointers borrow from
// ModelWeights::storage.
struct LayerWeights {
  // Of a branch's input and of its output.
  NormWeights mixer_norm;
  NormWeights mixer_post_norm;
  NormWeights mlp_norm;
  NormWeights mlp_post_norm;
  NormWeights stream_norm;  // of the residual stream behind the layer

  // Attention and lightning: rows q [H*D] | k [H_kv*D] | v [H_kv*D] | gate [H*D].
  // Gated RNN:               rows q [H*Dk] | k [H*Dk] | v [H*Dv] | f [H*Dk], bias on f.
  // kChunkedRope layers:     rows q | k here, v in `value`, because v sees the plain input.
  // Gated attention unit:    rows u [e] | v [e] | z [s].
  PackedWeight mixer_in;
  const float* mixer_in_bias = nullptr;  // [mixer_in.n] or nullptr
  PackedWeight value;                    // [H_kv*D, d], kChunkedRope layers only
  const float* value_bias = nullptr;

  // Of a gated attention unit, [s]: q = q_scale * z + q_offset, k likewise.
  const float* q_scale = nullptr;
  const float* q_offset = nullptr;
  const float* k_scale = nullptr;
  const float* k_offset = nullptr;

  const float* q_norm = nullptr;        // [D], or [H*D] where each head has its own
  const float* k_norm = nullptr;        // [D], or [H_kv*D]
  const float* output_norm = nullptr;   // [H*Dv]
  const float* log_decay = nullptr;     // [H] ln gamma_h, lightning
  const float* alibi_slopes = nullptr;  // [H] m_h, kAlibi layers only

  PackedWeight mixer_out;  // o_proj [d, H*Dv]
  const float* mixer_out_bias = nullptr;

  PackedWeight mlp_gate;                 // [ff, d]
  PackedWeight mlp_up;                   // [ff, d]; n 0: the MLP has no gate, and mlp_gate alone
  PackedWeight mlp_down;                 // [d, ff]
  const float* mlp_gate_bias = nullptr;  // [ff]; all of an MLP or none
  const float* mlp_up_bias = nullptr;    // [ff]
  const float* mlp_down_bias = nullptr;  // [d]
};

// Memory, of a host or a device, with what frees it.
using OwnedMemory = std::unique_ptr<void, std::function<void(void*)>>;

struct ModelWeights {
  PackedWeight embedding;  // [vocabulary, d]
  PackedWeight head;       // [vocabulary, d]; the same bytes as embedding where tied
  NormWeights embedding_norm;
  NormWeights final_norm;
  Matrix chunk_embedding;            // [num_chunks, d] f32; data nullptr where not chunked
  std::vector<LayerWeights> layers;  // [L]

  uint64_t num_parameters = 0;
  uint64_t bytes = 0;        // of all storage
  uint64_t fingerprint = 0;  // over the bytes of the checkpoint's tensors, their names and types

  // Owner of everything above.
  std::vector<OwnedMemory> storage;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_
