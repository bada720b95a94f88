// Linear attention as a recurrence over a state matrix per head. Decode rows use it token by token;
// prefill pieces compute the rows of a block in parallel.
//
//   S_t = diag(f_t) S_(t-1) + k_t^T v_t,   out_t = scale * q_t S_t          S: [Dk, Dv] f32
//
// The decay is fixed (lightning attention): f_t = exp(log_decay[h]), the same for the whole head.
// Or it depends on the data (gated RNN): f_t = sigmoid(gate_t), one for each key element.
//
// The rows between two grid lines are a block. Let g be the last grid line at or before t. The op
// computes
//
//   out_t = scale * ( (q_t * F(g, t)) S_g + sum_(g <= j <= t) (q_t * F(j + 1, t) . k_j) v_j )
//
// S_g is the state after all tokens before g, and F(a, b) = prod_(a <= i <= b) f_i. Every F is the
// exponential of a sum of logarithms of decays, and none exceeds 1. The cache keeps the rows since
// g. When a block is complete, its rows are folded into the state. Blocks are cut at absolute
// positions, so the bits of a state and of a row do not depend on how the tokens were divided into
// steps. The bits of a row may depend on whether it is a decode or a prefill row.
#ifndef LONGSTREAM_KERNELS_OPS_RECURRENCE_LINEAR_RECURRENCE_H_
#define LONGSTREAM_KERNELS_OPS_RECURRENCE_LINEAR_RECURRENCE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// The most tokens between two grid lines.
inline constexpr int32_t kMaxRecurrenceGrid = 64;

// The op reads and updates the cache. After the call, the cache is in the state after the step's
// last row.
struct LinearRecurrenceArgs {
  BatchLayout batch;
  Matrix q;                          // [T, H * Dk] f32, normed and rotated
  Matrix k;                          // [T, H_kv * Dk] f32
  Matrix v;                          // [T, H_kv * Dv] f32
  const float* log_decay = nullptr;  // [H] ln of the fixed decay, <= 0; nullptr: gates are given
  Matrix gate{};                     // [T, H * Dk] gate logits, f = sigmoid(gate)
  float scale = 1.0f;
  RecurrentCache cache;
  Matrix out;  // [T, H * Dv]
};
using LinearRecurrenceFunction = void (*)(Stream& stream, const LinearRecurrenceArgs& args);

// Workspace in bytes for T rows. Each row and head stores its decayed query, its log-gates or
// decayed key, and its scores with the keys of its block; each block and head stores its decay.
constexpr size_t LinearRecurrenceWorkspace(int64_t rows, int64_t heads, int64_t grid,
                                           int64_t key_dim) {
  return static_cast<size_t>((rows * (2 * key_dim + grid) + rows / grid * key_dim) * heads) *
         sizeof(float);
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_RECURRENCE_LINEAR_RECURRENCE_H_
