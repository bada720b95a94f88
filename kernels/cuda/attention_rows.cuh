// Keys and values of one head: where their rows lie, and their way into shared memory.
#ifndef LONGSTREAM_KERNELS_CUDA_ATTENTION_ROWS_CUH_
#define LONGSTREAM_KERNELS_CUDA_ATTENTION_ROWS_CUH_

#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "kernels/cuda/attention_core.cuh"
#include "kernels/cuda/cache_access.cuh"

namespace longstream::cuda {

inline constexpr int kChunkBytes = 16;  // of one asynchronous copy

// The rows of one K/V head of one sequence in a KeyStore.
template <typename T>
struct HeadRows {
  const T* data = nullptr;         // the head's first row in page 0 or in the sequence's ring
  const int32_t* pages = nullptr;  // nullptr: a ring
  int64_t page_stride = 0;         // elements
  int cycle = 1;
  int dim = 0;
  const T* rows = nullptr;  // of the position first_row_position
  int64_t row_stride = 0;
  int first_row_position = INT_MAX;
  // Whether each row of `data`, and each of `rows`, is whole chunks of 16 bytes.
  bool data_aligned = false;
  bool rows_aligned = false;

  __device__ HeadRows(const Attention& attention, const KeyStore& store,
                      const SequenceRows& sequence, int kv_head)
      : cycle(store.cycle), dim(attention.head_dim) {
    const int64_t head_stride = int64_t{cycle} * dim;
    if (store.paged) {
      pages = PagesOf(attention.batch, sequence);
      page_stride = attention.num_kv_heads * head_stride;
    }
    // Pages are shared by all sequences: their slot_stride is 0.
    data = reinterpret_cast<const T*>(store.data + sequence.slot * store.slot_stride) +
           kv_head * head_stride;
    data_aligned = InChunks(data, dim) && dim * sizeof(T) % kChunkBytes == 0;
    if (store.rows.data == nullptr) return;
    row_stride = store.rows.stride;
    rows = static_cast<const T*>(store.rows.data) + sequence.first_row * row_stride +
           int64_t{kv_head} * dim;
    first_row_position = static_cast<int>(sequence.first_position);
    rows_aligned = InChunks(rows, row_stride) && dim * sizeof(T) % kChunkBytes == 0;
  }

  // `page`, `slot`: the position divided by `cycle`, and what remains.
  __device__ const T* Row(int position, int page, int slot) const {
    if (position >= first_row_position) {
      return rows + (position - first_row_position) * row_stride;
    }
    return data + (pages == nullptr ? 0 : pages[page] * page_stride) + int64_t{slot} * dim;
  }

 private:
  static __device__ bool InChunks(const T* row, int64_t stride) {
    return (reinterpret_cast<uint64_t>(row) | (static_cast<uint64_t>(stride) * sizeof(T))) %
               kChunkBytes ==
           0;
  }
};

// Copies 16 bytes from element `first` of a row of `dim` elements on; what lies behind is zero.
template <typename T>
__device__ __forceinline__ void CopyChunk(const T* row, int dim, bool aligned, int first, T* to) {
  constexpr int kElements = kChunkBytes / sizeof(T);
  if (aligned) {
    __pipeline_memcpy_async(to, first < dim ? row + first : row, kChunkBytes,
                            first < dim ? 0 : kChunkBytes);
    return;
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) to[i] = first + i < dim ? row[first + i] : T{};
}

// Asks for the rows of the positions [begin, begin + kRows) as `to` [kRows, kStride]; rows outside
// [low, high) become zero, so that a weight of 0 hides them. By all kThreads threads of the block.
template <int kThreads, int kRows, int kDim, int kStride, typename T>
__device__ __forceinline__ void CopyRows(const HeadRows<T>& from, int begin, int low, int high,
                                         T* to) {
  constexpr int kElements = kChunkBytes / sizeof(T);
  constexpr int kChunks = kDim / kElements;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && kRows % kRowsAtOnce == 0);
  const int first = static_cast<int>(threadIdx.x) % kChunks * kElements;
  const int first_row = static_cast<int>(threadIdx.x) / kChunks;
  // One division; from row to row a carry.
  int page = (begin + first_row) / from.cycle;
  int slot = (begin + first_row) % from.cycle;
#pragma unroll
  for (int i = 0; i < kRows / kRowsAtOnce; ++i) {
    const int row = first_row + i * kRowsAtOnce;
    const int position = begin + row;
    const bool read = low <= position && position < high;
    const bool own = position >= from.first_row_position;
    const T* unread = own ? from.rows : from.data;
    CopyChunk(read ? from.Row(position, page, slot) : unread, read ? from.dim : 0,
              own ? from.rows_aligned : from.data_aligned, first, to + row * kStride + first);
    slot += kRowsAtOnce;
    while (slot >= from.cycle) {
      slot -= from.cycle;
      ++page;
    }
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_ATTENTION_ROWS_CUH_
