// The dynamic shared memory of a block; the launch states its size. Kernels keep all their shared
// memory there, as one struct or array.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_SHARED_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_SHARED_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace longstream::cuda {

// The memory is 1024-byte aligned.
template <typename T>
__device__ __forceinline__ T* SharedMemory() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  return reinterpret_cast<T*>(shared_memory);
#else
  return reinterpret_cast<T*>(simt::SharedMemory());
#endif
}

// The offset in bytes of an object in the shared memory of the block.
__device__ __forceinline__ uint32_t SharedAddress(const void* object) {
#ifdef __CUDACC__
  return static_cast<uint32_t>(__cvta_generic_to_shared(object));
#else
  return static_cast<uint32_t>(static_cast<const std::byte*>(object) - simt::SharedMemory());
#endif
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_SHARED_CUH_
