// Flash attention over pages and rings: the core of attention over every view of keys.
//
// Per row and head an online softmax (Dao 2022) over blocks of keys at absolute positions: running
// maximum m, sum l of weights and weighted sum of values, all f32, in registers. A row's bits
// depend on its own position and keys alone, not on the rows it is computed with.
//
//   decode   a block per K/V head and part of the keys that the row sees, which all query heads
//            that share the head visit together: keys and values are read once. Its warps take a
//            part of each block of keys; a second kernel merges the parts of the row in order
//   prefill  a block per K/V head and tile of (position, query head) pairs; each warp takes some
//            of the rows and all keys that they see
//
// Where values have slices (batch_layout.h) there is a block for each, which computes the scores
// anew.
//
// bf16 keys and values go through the tensor cores, others through f32 FMAs (attention_product).
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream::cuda {

// No window. A position fits in an int, and so does its sum with this.
inline constexpr int32_t kUnbounded = 1 << 30;

// Where the keys or values of a layer lie: in pages, or in rings and, from the first position of
// the step on, in rows of the step.
struct KeyStore {
  const std::byte* data = nullptr;  // pages, or the ring of slot 0
  bool paged = false;
  int32_t num_heads = 0;    // H_kv, or that times the slices of a value
  int32_t cycle = 0;        // tokens of a page, slots of a ring
  int64_t slot_stride = 0;  // bytes from one sequence's ring to the next
  Matrix rows;              // [T, num_heads * D] of the ring's type

  static KeyStore Keys(const PagedCache& cache) {
    return {static_cast<const std::byte*>(cache.keys),
            true,
            cache.num_kv_heads,
            cache.page_tokens,
            0,
            {}};
  }
  static KeyStore Values(const PagedCache& cache) {
    return {static_cast<const std::byte*>(cache.values),
            true,
            cache.num_value_heads(),
            cache.page_tokens,
            0,
            {}};
  }
  static KeyStore Keys(const RingCache& ring, const Matrix& rows) {
    return {ring.keys, false, ring.num_kv_heads, ring.slots, ring.slot_stride, rows};
  }
  static KeyStore Values(const RingCache& ring, const Matrix& rows) {
    return {ring.values, false, ring.num_value_heads(), ring.slots, ring.slot_stride, rows};
  }
};

// Keys j with front <= p - j <= back, and the queries that a row at position p compares them with.
struct KeyRange {
  Matrix q;  // [T, H * D]
  KeyStore keys;
  int32_t front = 0;
  int32_t back = kUnbounded;
};

struct Attention {
  BatchLayout batch;
  DType type = DType::kF32;  // of keys and values
  int32_t num_heads = 0;     // H
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D
  int32_t value_slices = 1;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  // Disjoint; visited one after the other. A block of keys that the border crosses is visited for
  // each.
  int32_t num_ranges = 1;
  KeyRange ranges[2];
  KeyStore values;
  const float* alibi_slopes = nullptr;  // [H]: a score loses alibi_slopes[h] * (p - j)
  int64_t max_position = kUnbounded;
  Matrix out;  // [T, H * value_slices * D]

  // Set by Attend.
  int32_t reach = 0;       // the largest p - j of a key j that a row at position p sees
  int32_t max_parts = 0;   // of a decode row
  float score_cap = 0.0f;  // softcap, of scores that are not yet scaled
  float inverse_score_cap = 0.0f;
  float* partials = nullptr;  // [decode rows, H * value_slices, max_parts, D + 2]

  // Of width D in `out`.
  constexpr int num_out_heads() const { return num_heads * value_slices; }
};

// Uses AttentionWorkspace, whose reach is max_position or that of the ranges, whichever is smaller.
// Fails the stream for heads wider than kMaxHeadDim or a workspace that is too small.
// A decode row beyond max_position is left out.
void Attend(Stream& stream, const Attention& attention);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_
