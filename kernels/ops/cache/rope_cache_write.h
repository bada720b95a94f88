// What stands between a mixer's projection and its attention or recurrence: per-head norm,
// rotation, query scale, and the write of keys and values to where they will be read.
//
//   q'    = q_scale[t] * (QNorm(q) rotated by rope_q);  q_far likewise, rotated by rope_q_far
//   k'    = KNorm(k) rotated by rope_k, rounded to the destination's type
//   v'    = v, rounded likewise
//   near' = k' (as rounded) rotated by rope_near, rounded again
//
// A row x of int8 pages has the scale s = max_d |x_d| / 127, rounded to bf16, and the numbers x_d /
// s (an f32 division), rounded to integers of at most 127; zeros where s is 0. All roundings are to
// the nearest, ties to even. What is not finite must show: a row with such a number has the scale
// NaN, 0x7fc0, and zeros. Every library writes the same bytes of the same row.
//
// Rotation is the half-split form of Llama and Qwen checkpoints: element i pairs with i + D / 2.
// near' is made from the rounded k', so that a ring rebuilt from the pages has the same bits.
#ifndef LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_
#define LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/norm.h"
#include "kernels/core/stream.h"

namespace longstream {

// q_out may be q itself, and f32 k_out and v_out may be k and v.
struct RopeCacheWriteArgs {
  BatchLayout batch;
  int32_t num_heads = 0;     // H
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D of queries and keys
  int32_t value_dim = 0;     // of a value; REQUIRES: paged.value_slices * D if it goes to pages
  Matrix q;                  // [T, H * D]
  Matrix k;                  // [T, H_kv * D]
  Matrix v;                  // [T, H_kv * value_dim]
  Norm q_norm;               // size D, per head; or disabled
  Norm k_norm;
  const float* rope_q = nullptr;      // [T, D] from RopeTable; nullptr: no rotation
  const float* rope_q_far = nullptr;  // [T, D]; read where q_far is wanted; nullptr: no rotation
  const float* rope_k = nullptr;      // [T, D]; nullptr: no rotation
  const float* rope_near = nullptr;   // [T, D]; read where near_out is wanted
  const float* q_scale = nullptr;     // [T] from LogitScale; nullptr: 1
  Matrix q_out;                       // [T, H * D]
  Matrix q_far_out{};                 // [T, H * D]; data nullptr: not wanted
  // Keys and values go to the pages if paged.keys is set, else to the rows below.
  PagedCache paged{};
  Matrix k_out{};     // [T, H_kv * D] of the cache's type
  Matrix v_out{};     // [T, H_kv * value_dim] of the cache's type; data nullptr: not wanted
  Matrix near_out{};  // [T, H_kv * D] of the pages' type, bf16 beside int8; data nullptr: none
};
using RopeCacheWriteFunction = void (*)(Stream& stream, const RopeCacheWriteArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_CACHE_ROPE_CACHE_WRITE_H_
