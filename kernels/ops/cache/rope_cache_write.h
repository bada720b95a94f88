// The op between a mixer's projection and its attention or recurrence. It norms and rotates heads,
// scales queries, and writes keys and values to the memory where they will be read.
//
//   q'     = q_scale[t] * (QNorm(q) rotated by rope_q)
//   q_far' = q_scale[t] * (QNorm(q) rotated by rope_q_far)
//   k'     = KNorm(k) rotated by rope_k, rounded to the destination's type
//   v'     = v, rounded to the destination's type
//   near'  = k' (as rounded) rotated by rope_near, rounded again
//
// A row x of int8 pages has the scale s = max_d |x_d| / 127, rounded to bf16. Its numbers are
// x_d / s (an f32 division), rounded to integers of at most 127; if s is 0, they are zeros. All
// roundings are to the nearest, ties to even. If an x_d is not finite, attention must notice it.
// Then the scale is NaN (0x7fc0) and the numbers are zeros. Every library writes the same bytes for
// the same row.
//
// Rotation has the half-split form of Llama and Qwen checkpoints: element i pairs with i + D / 2.
// near' is made from the rounded k', so that a ring rebuilt from the pages has the same bits.
#ifndef LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_
#define LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"

namespace longstream {

// q_out may be q itself; k_out and v_out of f32 may be k and v.
struct RopeCacheWriteArgs {
  BatchLayout batch;
  int32_t num_heads = 0;     // H
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D of queries and keys
  int32_t value_dim = 0;     // REQUIRES: paged.value_slices * D if values go to pages
  Matrix q;                  // [T, H * D]
  Matrix k;                  // [T, H_kv * D]
  Matrix v;                  // [T, H_kv * value_dim]
  Norm q_norm;               // of size D, applied to each head; or disabled
  Norm k_norm;
  const float* rope_q = nullptr;      // [T, D] from RopeTable; nullptr: no rotation
  const float* rope_q_far = nullptr;  // [T, D]; only read for q_far_out; nullptr: no rotation
  const float* rope_k = nullptr;      // [T, D]; nullptr: no rotation
  const float* rope_near = nullptr;   // [T, D]; only read for near_out
  const float* q_scale = nullptr;     // [T] from LogitScale; nullptr: 1
  Matrix q_out;                       // [T, H * D]
  Matrix q_far_out{};                 // [T, H * D]; data nullptr: not written
  // Keys and values go to the pages if paged.keys is set, else to the rows below.
  PagedCache paged{};
  Matrix k_out{};     // [T, H_kv * D] of the cache's type
  Matrix v_out{};     // [T, H_kv * value_dim] of the cache's type; data nullptr: not written
  Matrix near_out{};  // [T, H_kv * D] of the pages' type (bf16 for int8); data nullptr: none
};
using RopeCacheWriteFunction = void (*)(Stream& stream, const RopeCacheWriteArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_
