// Where the row of a key or value lies in pages and rings (kernels/core/batch_layout.h).
#ifndef LONGSTREAM_KERNELS_CUDA_CACHE_CACHE_ACCESS_CUH_
#define LONGSTREAM_KERNELS_CUDA_CACHE_CACHE_ACCESS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/batch_layout.h"

namespace longstream::cuda {

// The functions below divide positions as 32-bit numbers, in which they fit. A 32-bit division
// takes a dozen operations, a 64-bit one a hundred.

__device__ __forceinline__ const SequenceRows& SequenceOf(const BatchLayout& batch, int64_t row) {
  return batch.sequences[batch.row_sequence[row]];
}

__device__ __forceinline__ const int32_t* PagesOf(const BatchLayout& batch,
                                                  const SequenceRows& sequence) {
  return batch.page_tables + sequence.page_offset;
}

// The index of element 0 of a head's row in a store of `cache` with `num_heads` heads. `pages` is
// the sequence's page table.
__device__ __forceinline__ int64_t PagedIndex(const PagedCache& cache, int64_t num_heads,
                                              const int32_t* pages, int64_t head,
                                              int64_t position) {
  const int index = static_cast<int>(position) / cache.page_tokens;
  const int64_t page = pages[index];
  const int64_t slot = position - int64_t{index} * cache.page_tokens;
  return ((page * num_heads + head) * cache.page_tokens + slot) * cache.head_dim;
}

// The index of element 0 of a head's row in one sequence's ring.
__device__ __forceinline__ int64_t RingIndex(const RingCache& ring, int64_t head,
                                             int64_t position) {
  return (head * ring.slots + static_cast<int>(position) % ring.slots) * ring.head_dim;
}

// The keys or values (`store` says which) in the ring of one sequence.
template <typename T>
__device__ __forceinline__ T* RingOf(const RingCache& ring, std::byte* store, int32_t slot) {
  return reinterpret_cast<T*>(store + slot * ring.slot_stride);
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CACHE_CACHE_ACCESS_CUH_
