// The spec of a model: its sizes, the form of its blocks and its layers, as data.
//
// A backend turns a config.json (and load-time overrides) into a ModelSpec. Weights and the forward
// pass read the spec and know no model family. Equations: docs/models.md.
#ifndef LONGSTREAM_BACKENDS_SPEC_MODEL_SPEC_H_
#define LONGSTREAM_BACKENDS_SPEC_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/spec/tensor_names.h"
#include "kernels/ops/experts/route.h"
#include "kernels/ops/gemm/activation.h"

namespace longstream {

// The kind of a layer's mixer, the part that reads other tokens than its own.
// backends/model/mixers/mixers.cc says which mixer serves a kind.
enum class MixerKind {
  kFull,       // attention over all tokens, paged
  kWindow,     // attention over the last `window` tokens, in a ring
  kLightning,  // linear RNN with a fixed decay per head
  kGatedRnn,   // linear RNN with a data-dependent decay per key element
};

// How an attention layer, or the queries and keys of an RNN layer, encode positions.
enum class PositionKind {
  kNone,         // NoPE
  kRope,         // rotation by the absolute position
  kRerope,       // distance clipped at rerope_window (kFull only)
  kLeakyRerope,  // distance slowed by leaky_factor from rerope_window on (kFull only)
  kChunkedRope,  // rotation by position mod chunk_size; q and k also see a learned chunk embedding
  kAlibi,        // a score loses the head's slope times the distance (kFull only)
};

// Position-dependent factor on the query of an attention layer
// (kernels/ops/attention/logit_scale.h).
enum class LogitScaleKind {
  kNone,
  kLogNAlways,       // ln(max(n, 16)) / ln(N); n: visible keys, N = training_length
  kLogNExtrapolate,  // max(1, ln(n) / ln(N))
  kHype,             // ln(p + a) / ln(a), a = logit_scale_base
};

// Norm of queries and keys before they rotate. kAllHeads and kEachHead are for attention only.
enum class QkNorm {
  kNone,
  kHead,      // RMSNorm per head, all with the same weights
  kAllHeads,  // RMSNorm over all heads together
  kEachHead,  // LayerNorm per head, each with weights of its own
};

// Rotary position embedding of a layer: pair i of a head rotates by p * inv_freq[i]. The config's
// scaling of RoPE is applied when the model loads, so a layer only sees numbers.
struct RopeSpec {
  double theta = 10000.0;
  // The first `rotated` elements of a head rotate; 0: all of them.
  int32_t rotated = 0;
  // In the checkpoint, a pair is elements 2 i and 2 i + 1, not i and i + rotated / 2.
  bool neighbours = false;
  // [rotated / 2]; empty: theta^(-2 i / rotated).
  std::vector<double> inv_freq{};
  // The attention factor: it multiplies the rotated elements of queries and keys.
  float magnitude = 1.0f;

  bool operator==(const RopeSpec&) const = default;
};

// The kind of the part that follows the mixer of a layer (backends/model/feed_forward).
enum class FeedForwardKind {
  kGated,  // an MLP with a gate: W_down (act(W_gate h) * (W_up h))
  kPlain,  // an MLP without a gate: W_down act(W_gate h)
  kNone,
  kExperts,  // a mixture of experts, each an MLP with a gate
};

// The mixtures of experts of a model (kernels/ops/experts/route.h).
struct ExpertsSpec {
  int64_t num_experts = 0;   // E, without the shared expert
  int64_t num_chosen = 0;    // k
  int64_t width = 0;         // ff of an expert
  int64_t shared_width = 0;  // ff of the shared expert
  SharedExpert shared = SharedExpert::kNone;
  RouterScore score = RouterScore::kSoftmax;
  bool normalise = false;
  bool choice_bias = false;
  float scale = 1.0f;

  // N and K of Routes.
  int64_t all_experts() const { return num_experts + (shared == SharedExpert::kNone ? 0 : 1); }
  int64_t per_row() const { return num_chosen + (shared == SharedExpert::kNone ? 0 : 1); }
  // Logits of the router.
  int64_t num_logits() const { return num_experts + (shared == SharedExpert::kGated ? 1 : 0); }
};

// One layer: its mixer, and the kind of its feed-forward part.
struct MixerSpec {
  MixerKind kind = MixerKind::kFull;
  FeedForwardKind feed_forward = FeedForwardKind::kGated;
  // kFull and kWindow: a gated attention unit, which makes queries and keys of one projection and
  // gates its output with another.
  bool gau = false;
  PositionKind position = PositionKind::kRope;
  int32_t num_heads = 0;     // H
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D; Dk of an RNN layer
  int32_t value_dim = 0;     // width of a value; D unless kGatedRnn or gau, there a multiple of D
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool output_bias = false;
  RopeSpec rope;
  int32_t window = 0;         // kWindow: keys visible, the current one included
  int32_t rerope_window = 0;  // w of ReRoPE and Leaky ReRoPE
  double leaky_factor = 0.0;  // k of Leaky ReRoPE
  LogitScaleKind logit_scale = LogitScaleKind::kNone;
  double logit_scale_base = 0.0;  // a of kHype, N of log n
  double qkv_clip = 0.0;  // q, k and v of attention are clipped to this magnitude; 0: no clipping
  bool norm_before_clip = false;  // kAllHeads: q and k are normed before they are clipped
  double alibi_max = 8.0;         // -log2 of the flattest slope of kAlibi
  double softcap = 0.0;           // of attention scores; 0: none
  double score_scale = 0.0;       // factor on q . k (attention) or q S (RNN): 1 / sqrt(D), ...
  bool output_gate = false;       // y = W_o(o * sigmoid(W_g x)): o_gate (attention), z_proj (RNN)
  bool output_norm = false;       // RMSNorm over all heads of o before gate and W_o (RNN)

  // An attention layer stores a value as this many heads of width D.
  int32_t value_slices() const { return value_dim / head_dim; }
  bool rerope() const {
    return position == PositionKind::kRerope || position == PositionKind::kLeakyRerope;
  }
  // Whether queries and keys rotate.
  bool rotates() const {
    return position != PositionKind::kNone && position != PositionKind::kAlibi;
  }
};

struct ModelSpec {
  std::string architecture;  // model_type, for people
  int64_t vocabulary = 0;
  int64_t width = 0;      // d
  int64_t mlp_width = 0;  // ff of kGated and kPlain; 0 without an MLP
  ExpertsSpec experts;    // of kExperts
  float norm_eps = 1e-6f;
  bool tied_head = false;
  bool mlp_bias = false;  // on gate, up and down
  Activation activation = Activation::kSilu;
  bool layer_norm = false;      // the residual stream has LayerNorm, not RMSNorm
  bool norm_bias = false;       // these norms add a bias
  bool parallel = false;        // attention and MLP of a layer take the same normed input
  bool norms_less_one = false;  // norms multiply by 1 + the stored weight
  float embedding_multiplier = 1.0f;
  float residual_multiplier = 1.0f;  // factor on each branch
  float logit_multiplier = 1.0f;     // factor on the head's output
  float logit_softcap = 0.0f;        // of the logits; 0: none
  int64_t context_limit = 0;         // positions are 0 ... context_limit - 1
  int64_t training_length = 0;       // N; 0: not stated
  int64_t chunk_size = 0;            // C of kChunkedRope
  int64_t num_chunks = 0;            // rows of model.chunk_embed.weight
  TensorNames names;                 // of the checkpoint
  std::vector<MixerSpec> layers;     // [L]

  bool chunked() const { return chunk_size > 0; }
  bool has_experts() const {
    for (const MixerSpec& layer : layers) {
      if (layer.feed_forward == FeedForwardKind::kExperts) return true;
    }
    return false;
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_MODEL_SPEC_H_
