// Reading and writing single elements of caches and activations in the reference ops.
#ifndef LONGSTREAM_KERNELS_REFERENCE_CACHE_ACCESS_H_
#define LONGSTREAM_KERNELS_REFERENCE_CACHE_ACCESS_H_

#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/dtype.h"
#include "kernels/core/matrix.h"
#include "kernels/reference/weight.h"

namespace longstream::reference {

inline float MatrixAt(const Matrix& matrix, int64_t row, int64_t col) {
  return ElementAt(matrix.data, matrix.type, row * matrix.stride + col);
}

// Rounds to the nearest value of `type`, ties to even. REQUIRES: !IsQuantised(type)
inline void SetElement(void* data, DType type, int64_t index, float value) {
  switch (type) {
    case DType::kF32:
      static_cast<float*>(data)[index] = value;
      return;
    case DType::kF16:
      static_cast<F16*>(data)[index] = ToF16(value);
      return;
    case DType::kBF16:
      static_cast<BF16*>(data)[index] = ToBF16(value);
      return;
    case DType::kI8:
    case DType::kI4:
      return;
  }
}

inline void SetMatrix(const Matrix& matrix, int64_t row, int64_t col, float value) {
  SetElement(matrix.data, matrix.type, row * matrix.stride + col, value);
}

// Index of element 0 of a head's row in the stores of `cache`. `pages` is the sequence's page
// table.
inline int64_t PagedIndex(const PagedCache& cache, const int32_t* pages, int64_t head,
                          int64_t position) {
  const int64_t page = pages[position / cache.page_tokens];
  const int64_t slot = position % cache.page_tokens;
  return ((page * cache.num_kv_heads + head) * cache.page_tokens + slot) * cache.head_dim;
}

// Index of element 0 of a head's row in one sequence's ring.
inline int64_t RingIndex(const RingCache& ring, int64_t head, int64_t position) {
  return (head * ring.slots + position % ring.slots) * ring.head_dim;
}

// The elements of one head's key or value.
struct ElementRow {
  const void* data;
  DType type;
  int64_t first;  // index of element 0

  double at(int64_t d) const { return ElementAt(data, type, first + d); }
};

inline const SequenceRows& SequenceOf(const BatchLayout& batch, int64_t row) {
  return batch.sequences[batch.row_sequence[row]];
}

inline const int32_t* PagesOf(const BatchLayout& batch, const SequenceRows& sequence) {
  return batch.page_tables + sequence.page_offset;
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_CACHE_ACCESS_H_
