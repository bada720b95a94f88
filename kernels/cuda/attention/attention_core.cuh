// Flash attention over pages and rings: the core of attention over every view of keys.
//
// For each row and head it computes an online softmax (Dao 2022) over blocks of keys at absolute
// positions: running maximum m, sum l of weights and weighted sum of values, all f32, in registers.
// A row's bits depend on its own position and keys alone, not on the rows that are computed with
// it.
//
//   decode   A thread block computes a part of a row's keys for one K/V head and all query heads
//            that share it, so keys and values are read once. Each warp takes a share of each block
//            of keys. A second kernel merges the parts of the row in order.
//   prefill  A thread block computes a tile of (position, query head) pairs for one K/V head. Each
//            warp takes some of the rows and all keys that they see.
//
// If values have slices (batch_layout.h), each slice has a thread block, which computes the scores
// again.
//
// Products with bf16 keys and values run on the tensor cores, others as f32 FMAs
// (attention_product.cuh).
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream::cuda {

// A window of this size means that there is no window. A position plus this number fits in an int.
inline constexpr int32_t kUnbounded = 1 << 30;

// Where the keys or the values of a layer lie: in pages or in rings. With rings, the keys or values
// of the step's own positions are in `rows`.
struct KeyStore {
  const std::byte* data = nullptr;  // pages, or the ring of slot 0
  bool paged = false;
  int32_t num_heads = 0;    // H_kv; in a store of values, H_kv times the slices of a value
  int32_t cycle = 0;        // tokens of a page, slots of a ring
  int64_t slot_stride = 0;  // bytes from one sequence's ring to the next
  Matrix rows;              // with rings: [T, num_heads * D], the step's rows in the ring's type

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

// The keys j with front <= p - j <= back, where p is a row's position, and the queries for them.
struct KeyRange {
  Matrix q;  // [T, H * D]
  KeyStore keys;
  int32_t front = 0;
  int32_t back = kUnbounded;
};

struct Attention {
  BatchLayout batch;
  DType type = DType::kF32;  // type of keys and values
  int32_t num_heads = 0;     // H
  int32_t num_kv_heads = 0;  // H_kv
  int32_t head_dim = 0;      // D
  int32_t value_slices = 1;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
  // The ranges are disjoint and computed one after the other. A block of keys that contains the
  // border between two ranges is computed for both.
  int32_t num_ranges = 1;
  KeyRange ranges[2];
  KeyStore values;
  const float* alibi_slopes = nullptr;  // [H]: a score loses alibi_slopes[h] * (p - j)
  int64_t max_position = kUnbounded;
  Matrix out;  // [T, H * value_slices * D]

  // Set by Attend.
  int32_t reach = 0;       // the largest p - j of a key j that a row at position p sees
  int32_t max_parts = 0;   // most parts of a decode row
  float score_cap = 0.0f;  // softcap / scale, for scores that are not yet scaled
  float inverse_score_cap = 0.0f;
  float* partials = nullptr;  // [decode rows, H * value_slices, max_parts, D + 2]

  // The number of heads of width D in `out`.
  constexpr int num_out_heads() const { return num_heads * value_slices; }
};

// Needs a workspace of AttentionWorkspace bytes, computed for the reach of the ranges or for
// max_position, whichever is smaller. Fails the stream if heads are wider than kMaxHeadDim or the
// workspace is too small. Skips a decode row beyond max_position.
void Attend(Stream& stream, const Attention& attention);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_CORE_CUH_
