// Reads and writes single elements of caches and activations in the reference ops.
#ifndef LONGSTREAM_KERNELS_REFERENCE_CACHE_CACHE_ACCESS_H_
#define LONGSTREAM_KERNELS_REFERENCE_CACHE_CACHE_ACCESS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/core/batch_layout.h"
#include "kernels/core/dtype.h"
#include "kernels/core/matrix.h"
#include "kernels/reference/gemm/weight.h"

namespace longstream::reference {

inline float MatrixAt(const Matrix& matrix, int64_t row, int64_t col) {
  return ElementAt(matrix.data, matrix.type, row * matrix.stride + col);
}

// Sets element `index` to the number of `type` that is nearest to `value`, ties to even. REQUIRES:
// !IsQuantised(type)
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

// A head's key or value in a page of `cache`, whose stores are cache.keys and cache.values.
struct PagedRow {
  void* head;     // the head's part of the page
  int64_t slot;   // slot of the row in the page
  int64_t slots;  // slots of a page
  int64_t dim;
  DType type;

  int64_t first() const { return slot * dim; }  // index of element 0 in `head`
  // The scale of the row. REQUIRES: type is int8
  BF16& scale() const {
    return reinterpret_cast<BF16*>(static_cast<std::byte*>(head) + slots * dim)[slot];
  }
};

// The row of `position` and `head` in `store`, the keys or values of a cache; `num_heads` is their
// number of heads. `pages` is the sequence's page table.
inline PagedRow PagedRowOf(const PagedCache& cache, void* store, int64_t num_heads,
                           const int32_t* pages, int64_t head, int64_t position) {
  const int64_t page = pages[position / cache.page_tokens];
  const int64_t head_bytes = PagedHeadBytes(cache.type, cache.page_tokens, cache.head_dim);
  return {static_cast<std::byte*>(store) + (page * num_heads + head) * head_bytes,
          position % cache.page_tokens, cache.page_tokens, cache.head_dim, cache.type};
}
inline PagedRow PagedKey(const PagedCache& cache, const int32_t* pages, int64_t head,
                         int64_t position) {
  return PagedRowOf(cache, cache.keys, cache.num_kv_heads, pages, head, position);
}
// `head` counts slices of values: a value has value_slices heads.
inline PagedRow PagedValue(const PagedCache& cache, const int32_t* pages, int64_t head,
                           int64_t position) {
  return PagedRowOf(cache, cache.values, cache.num_value_heads(), pages, head, position);
}

// Rounds a row to int8 as kernels/ops/cache/rope_cache_write.h says. values: [row.dim].
inline void SetInt8Row(const PagedRow& row, const float* values) {
  auto* numbers = static_cast<int8_t*>(row.head) + row.first();
  float largest = 0.0f;
  bool finite = true;
  for (int64_t d = 0; d < row.dim; ++d) {
    finite = finite && std::isfinite(values[d]);
    largest = std::max(largest, std::fabs(values[d]));
  }
  row.scale() = finite ? ToBF16(largest / 127.0f) : BF16{0x7fc0};
  const float scale = ToF32(row.scale());
  for (int64_t d = 0; d < row.dim; ++d) {
    const bool zero = !finite || scale == 0.0f;
    const float number = zero ? 0.0f : std::nearbyint(values[d] / scale);
    numbers[d] = static_cast<int8_t>(std::clamp(number, -127.0f, 127.0f));
  }
}

inline void SetPagedRow(const PagedRow& row, const float* values) {
  if (row.type == DType::kI8) return SetInt8Row(row, values);
  for (int64_t d = 0; d < row.dim; ++d) {
    SetElement(row.head, row.type, row.first() + d, values[d]);
  }
}

// Element d of the row as f32. This is exact: an element of an int8 row is a product of two factors
// of 8 bits each.
inline float PagedElement(const PagedRow& row, int64_t d) {
  if (row.type != DType::kI8) return ElementAt(row.head, row.type, row.first() + d);
  return ToF32(row.scale()) * static_cast<float>(static_cast<int8_t*>(row.head)[row.first() + d]);
}

// The index of element 0 of a head's row in one sequence's ring.
inline int64_t RingIndex(const RingCache& ring, int64_t head, int64_t position) {
  return (head * ring.slots + position % ring.slots) * ring.head_dim;
}

// The elements of one head's key or value, in a ring or in a step's rows.
struct ElementRow {
  const void* data;
  DType type;
  int64_t first;  // index of element 0
};

inline double At(const ElementRow& row, int64_t d) {
  return ElementAt(row.data, row.type, row.first + d);
}
inline double At(const PagedRow& row, int64_t d) { return PagedElement(row, d); }

inline const SequenceRows& SequenceOf(const BatchLayout& batch, int64_t row) {
  return batch.sequences[batch.row_sequence[row]];
}

inline const int32_t* PagesOf(const BatchLayout& batch, const SequenceRows& sequence) {
  return batch.page_tables + sequence.page_offset;
}

}  // namespace longstream::reference

#endif  // LONGSTREAM_KERNELS_REFERENCE_CACHE_CACHE_ACCESS_H_
