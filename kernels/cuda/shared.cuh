// The dynamic shared memory of a block, whose size the launch states. Kernels keep all their shared
// memory there, as one struct or array.
#ifndef LONGSTREAM_KERNELS_CUDA_SHARED_CUH_
#define LONGSTREAM_KERNELS_CUDA_SHARED_CUH_

#include <cuda_runtime.h>

namespace longstream::cuda {

// 128-byte aligned.
template <typename T>
__device__ __forceinline__ T* SharedMemory() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char shared_memory[];
  return reinterpret_cast<T*>(shared_memory);
#else
  return reinterpret_cast<T*>(simt::SharedMemory());
#endif
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_SHARED_CUH_
