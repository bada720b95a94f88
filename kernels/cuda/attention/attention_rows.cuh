// The rows of keys and values of one head: where they lie, and how they get into shared memory.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "kernels/cuda/attention/attention_core.cuh"
#include "kernels/cuda/cache/cache_access.cuh"

namespace longstream::cuda {

inline constexpr int kChunkBytes = 16;  // bytes of one asynchronous copy

// The rows of one head of one sequence in a KeyStore.
template <typename T>
struct HeadRows {
  const T* data = nullptr;         // the head's first row, in page 0 or in the sequence's ring
  const int32_t* pages = nullptr;  // nullptr: the rows are in a ring
  int64_t page_stride = 0;         // in elements
  int cycle = 1;
  int dim = 0;
  const T* rows = nullptr;  // the row of position first_row_position
  int64_t row_stride = 0;
  int first_row_position = INT_MAX;

  __device__ HeadRows(const Attention& attention, const KeyStore& store,
                      const SequenceRows& sequence, int head)
      : cycle(store.cycle), dim(attention.head_dim) {
    const int64_t head_stride = int64_t{cycle} * dim;
    if (store.paged) {
      pages = PagesOf(attention.batch, sequence);
      page_stride = store.num_heads * head_stride;
    }
    // Pages are shared by all sequences: their slot_stride is 0.
    data = reinterpret_cast<const T*>(store.data + sequence.slot * store.slot_stride) +
           head * head_stride;
    if (store.rows.data == nullptr) return;
    row_stride = store.rows.stride;
    rows = static_cast<const T*>(store.rows.data) + sequence.first_row * row_stride +
           int64_t{head} * dim;
    first_row_position = static_cast<int>(sequence.first_position);
  }

  __device__ const T* Row(int position) const {
    if (position >= first_row_position) {
      return rows + (position - first_row_position) * row_stride;
    }
    const int64_t page = pages == nullptr ? 0 : pages[position / cycle] * page_stride;
    return data + page + int64_t{position % cycle} * dim;
  }
};

// Copies 16 bytes of a row of `dim` elements, from element `first` on, one element at a time.
// Elements beyond the row become zero. If `row` is nullptr, all elements become zero.
template <typename T>
__device__ __forceinline__ void CopyPartOfChunk(const T* row, int dim, int first, T* to) {
  constexpr int kElements = kChunkBytes / sizeof(T);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    to[i] = row != nullptr && first + i < dim ? row[first + i] : T{};
  }
}

// Starts copies of `rows` [kRows], of `dim` elements each, to `to` [kRows, kStride]. Elements from
// `dim` on and rows that are nullptr become zero. All kThreads threads of the block must call it.
template <int kThreads, int kRows, int kDim, int kStride, typename T>
__device__ __forceinline__ void CopyRows(const T* const* rows, int dim, T* to) {
  constexpr int kElements = kChunkBytes / sizeof(T);
  constexpr int kChunks = kDim / kElements;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  constexpr int kCopies = kRows / kRowsAtOnce;
  static_assert(kThreads % kChunks == 0 && kRows % kRowsAtOnce == 0);
  const int first = static_cast<int>(threadIdx.x) % kChunks * kElements;
  const bool beyond = first >= dim;
  rows += static_cast<int>(threadIdx.x) / kChunks;
  to += static_cast<int>(threadIdx.x) / kChunks * kStride + first;
  // Nearly always, a chunk is aligned, and either all of its elements exist or none does. Then the
  // copies are asynchronous, and no thread waits for a load. This is also true in the last block of
  // a sequence's keys, in which most rows are missing.
  const T* from[kCopies];
  bool whole = beyond || first + kElements <= dim;
#pragma unroll
  for (int i = 0; i < kCopies; ++i) {
    from[i] = beyond ? nullptr : rows[i * kRowsAtOnce];
    whole = whole && reinterpret_cast<uint64_t>(from[i]) % kChunkBytes == 0;
  }
  if (whole) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      T* chunk = to + i * kRowsAtOnce * kStride;
      if (from[i] != nullptr) {
        __pipeline_memcpy_async(chunk, from[i] + first, kChunkBytes);
      } else {
        *reinterpret_cast<uint4*>(chunk) = make_uint4(0, 0, 0, 0);
      }
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kCopies; ++i) {
    CopyPartOfChunk(rows[i * kRowsAtOnce], dim, first, to + i * kRowsAtOnce * kStride);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_
