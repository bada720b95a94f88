// A model's weights in the form that its decoder reads: packed projections and small f32 vectors.
#ifndef LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_
#define LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/core/matrix.h"
#include "kernels/ops/experts/routes.h"

namespace longstream {

// A norm as wide as the model.
struct NormWeights {
  const float* weight = nullptr;  // [d]; nullptr: there is no norm
  const float* bias = nullptr;    // [d]; nullptr: none
};

// Weights of a mixer. Each kind uses some of them, as its file in backends/model/mixers says; the
// others stay empty.
//
// Projections of the same input are packed as one matrix. Their outputs lie side by side, in the
// order given here. An absent part (such as the gate) has width 0.
struct MixerWeights {
  // Attention and lightning: rows q [H*D] | k [H_kv*D] | v [H_kv*D] | gate [H*D].
  // Gated RNN:               rows q [H*Dk] | k [H*Dk] | v [H*Dv] | f [H*Dk], bias on f.
  // kChunkedRope layers:     rows q | k here, v in `value`, because v sees the plain input.
  // Gated attention unit:    rows u [e] | v [e] | z [s].
  PackedWeight in;
  const float* in_bias = nullptr;  // [in.n] or nullptr
  PackedWeight value;              // [H_kv*D, d], kChunkedRope layers only
  const float* value_bias = nullptr;

  // A gated attention unit only, [s]: q = q_scale * z + q_offset, k likewise.
  const float* q_scale = nullptr;
  const float* q_offset = nullptr;
  const float* k_scale = nullptr;
  const float* k_offset = nullptr;

  const float* q_norm = nullptr;        // [D], or [H*D] where each head has its own
  const float* k_norm = nullptr;        // [D], or [H_kv*D]
  const float* output_norm = nullptr;   // [H*Dv]
  const float* log_decay = nullptr;     // [H] ln gamma_h, lightning
  const float* alibi_slopes = nullptr;  // [H] m_h, kAlibi layers only

  PackedWeight out;  // o_proj [d, H*Dv]
  const float* out_bias = nullptr;
};

// Weights of an MLP.
struct MlpWeights {
  PackedWeight gate;                 // [ff, d]
  PackedWeight up;                   // [ff, d]; n 0: no gate, the MLP uses `gate` only
  PackedWeight down;                 // [d, ff]
  const float* gate_bias = nullptr;  // [ff]; an MLP has all three biases or none
  const float* up_bias = nullptr;    // [ff]
  const float* down_bias = nullptr;  // [d]
};

// Weights of a mixture of experts.
struct ExpertsWeights {
  PackedWeight router;                 // [E, d], or [E + 1, d] with SharedExpert::kGated; f32
  const float* choice_bias = nullptr;  // [E]; nullptr: none
  std::vector<Expert> experts;         // [N]: E experts, then the shared one
};

// Pointers borrow from ModelWeights::storage.
struct LayerWeights {
  // Norms of the input and of the output of each branch.
  NormWeights mixer_norm;
  NormWeights mixer_post_norm;
  NormWeights mlp_norm;
  NormWeights mlp_post_norm;
  NormWeights stream_norm;  // of the residual stream, behind the layer

  MixerWeights mixer;
  MlpWeights mlp;          // kGated and kPlain
  ExpertsWeights experts;  // kExperts
};

// Memory of a host or a device, with the function that frees it.
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
  uint64_t fingerprint = 0;  // hash of the bytes, names and types of the checkpoint's tensors

  // Owns all memory above.
  std::vector<OwnedMemory> storage;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_MODEL_WEIGHTS_H_
