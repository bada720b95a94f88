// Causal softmax attention of a step's rows over the keys and values of their sequences.
//
//   x_j       = scale * q[t, h] . K_j
//   s_j       = c tanh(x_j / c) - m_h (p(t) - j)        first(t) <= j <= p(t)
//   out[t, h] = sum_j softmax_j(s_j) V_j
//
//   p(t)      the position of row t
//   first(t)  max(0, p(t) - window + 1), or 0 if there is no window
//   K_j, V_j  key and value of position j, of K/V head h / (H / H_kv). A value is value_slices * D
//             wide (batch_layout.h)
//   c         the softcap (Gemma 2); without one, s_j uses x_j in place of c tanh(x_j / c)
//   m_h       the slope of ALiBi (Press et al., Train Short, Test Long); 0 if there are no slopes
//
// A view says where the keys and values lie. Window, softcap and slopes belong to the call. Every
// library serves these combinations and fails the stream with kUnsupported for any other:
//
//   view          window                softcap   slopes
//   PagedKeys     none                  any       any
//   RingKeys      1 to the ring's slots any       none
//   FarNearKeys   none                  any       none
//
// A library computes the keys in fixed blocks of absolute positions. It merges the blocks by
// log-sum-exp in the order of their positions. So a row's bits depend on its own history alone.
//
// A library sums products in f32. Over bf16 keys and values it may round the factors that it
// multiplies with them to bf16 (nearest, ties to even):
//   - Softmax weights: in prefill rows, or in all rows.
//   - Queries, or queries times `scale`: in prefill rows. In decode rows they keep at least 17
//   bits.
//
// Over int8 pages a library may round queries and weights to integers, in decode and prefill rows
// alike. It then sums the products exactly.
//   - It rounds queries times `scale` to multiples of 1/32639 of the largest number of their head.
//   - It multiplies weights by the scales of their values, in blocks of at most 64 keys. It rounds
//     the results of a block to multiples of 1/32767 or 1/65535 of the largest of them. If all of
//     them are below 2^-100, they may become zeros.
#ifndef LONGSTREAM_KERNELS_OPS_ATTENTION_ATTENTION_H_
#define LONGSTREAM_KERNELS_OPS_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <variant>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// The widest head D that attention serves. A value may have any number of slices of width D. The
// limit bounds the scratch that an implementation keeps on chip: about 1 MiB of a CPU thread's
// stack.
inline constexpr int32_t kMaxHeadDim = 256;

// All tokens of a sequence, in pages. RopeCacheWrite has already stored the step's own tokens.
struct PagedKeys {
  PagedCache cache;
};

// The last tokens of a sequence. The tokens of earlier steps are in the ring, the step's own tokens
// are in k and v. So a piece of a prefill may be longer than the ring. RingWrite stores the step's
// rows after the attention.
struct RingKeys {
  RingCache ring;
  Matrix k;  // [T, H_kv * D] of the ring's type, rotated
  Matrix v;  // [T, H_kv * value_slices * D] of the ring's type
};

// All tokens of a sequence. Relative distances from `near_window` on are clipped (ReRoPE) or slowed
// (Leaky ReRoPE; Su 2023). A token has two keys and one value; its distance decides which key
// counts:
//
//   x_j = scale * q_far[t, h] . far_j   if p(t) - j >= near_window; rotated slowly or not
//   x_j = scale * q[t, h] . near_j      if p(t) - j <  near_window; rotated
struct FarNearKeys {
  int32_t near_window = 0;  // REQUIRES: near_window <= near.slots
  Matrix q_far;             // [T, H * D]
  PagedCache far;           // far keys and the values of all tokens, also of this step
  RingCache near;    // near keys of earlier steps, no values; the pages' type, or bf16 for int8
  Matrix near_rows;  // [T, H_kv * D] near keys of this step, of the ring's type
};

using KeyView = std::variant<PagedKeys, RingKeys, FarNearKeys>;

// The op needs a workspace of AttentionWorkspace bytes.
struct AttentionArgs {
  BatchLayout batch;
  int32_t num_heads = 0;  // H, a multiple of H_kv
  int32_t window = 0;     // the number of last tokens that a row sees, its own included; 0: all
  float scale = 1.0f;     // > 0, such as 1 / sqrt(D)
  float softcap = 0.0f;   // c; 0: none
  const float* alibi_slopes = nullptr;  // [H] m; nullptr: no slopes
  Matrix q;                             // [T, H * D]
  KeyView keys;
  // At least the largest position in the batch. Not read if there is a window.
  int64_t max_position = 0;
  Matrix out;  // [T, H * value_slices * D]
};
using AttentionFunction = void (*)(Stream& stream, const AttentionArgs& args);

// Whether the call has one of the combinations above.
constexpr bool ServesCombination(const AttentionArgs& args) {
  if (const auto* keys = std::get_if<RingKeys>(&args.keys)) {
    return 0 < args.window && args.window <= keys->ring.slots && args.alibi_slopes == nullptr;
  }
  return args.window == 0 &&
         (args.alibi_slopes == nullptr || std::holds_alternative<PagedKeys>(args.keys));
}

// A library cuts a decode row into parts, one task each, and merges their results in order. The
// length of the parts depends on the row's position alone, and each library chooses its own. A part
// has at least kMinAttentionSplit tokens, so that the merge costs little. A row has at most
// kMaxAttentionSplits parts, so that the workspace is bounded. A device with more processors than
// K/V heads cuts finer than one with a few threads.
inline constexpr int64_t kMinAttentionSplit = 128;
inline constexpr int64_t kMaxAttentionSplits = 32;

// The most parts that a row has if it sees tokens up to `reach` positions back.
constexpr int64_t AttentionSplits(int64_t reach) {
  const int64_t splits = reach / kMinAttentionSplit + 1;
  return splits < kMaxAttentionSplits ? splits : kMaxAttentionSplits;
}

// The number of tokens of a part on a CPU, except in very long rows. A CPU cuts a row at position p
// at absolute multiples of AttentionSplit(p). The parts are so short that a row of some thousand
// tokens gives every thread several parts. A part has all K/V heads, which lie side by side in a
// page.
inline constexpr int64_t kAttentionSplit = 512;

constexpr int64_t AttentionSplit(int64_t position) {
  int64_t split = kAttentionSplit;
  while (position / split >= kMaxAttentionSplits) split *= 2;
  return split;
}

// Workspace in bytes for decode rows of `out_heads` = H * value_slices heads of width D. Each part
// stores its weighted sum of values, its largest score and its sum of weights. `reach` is
// window - 1, or max_position if there is no window. Prefill rows need no workspace.
constexpr size_t AttentionWorkspace(int64_t decode_rows, int64_t out_heads, int64_t head_dim,
                                    int64_t reach) {
  return static_cast<size_t>(decode_rows * out_heads * AttentionSplits(reach) * (head_dim + 2)) *
         sizeof(float);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ATTENTION_ATTENTION_H_
