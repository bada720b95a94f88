// A kernel that starts while those before it still run: programmatic dependent launch, of compute
// capability 9.0. Elsewhere these functions do nothing, and kernels run one after the other.
//
// A kernel is started once each block of the one before it has called LetNextKernelStart or ended.
// By then all of those have a place, and so have those of the kernels before: what waits keeps none
// of them out, takes registers and shared memory that no other kernel of the stream could use, and
// waits for nothing that has yet to be placed.
//
// AwaitEarlierKernels returns when the kernel before has ended and what it wrote can be read. As
// that one has waited for the one before it, all earlier ones have ended: every kernel must wait,
// in every thread. Before that it may neither read what an earlier one may have written nor write
// anything; it may prefetch weights, which no step writes. A load by __ldg or through const
// __restrict__ is one that a compiler may move before the wait, and not for what kernels write.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_OVERLAP_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_OVERLAP_CUH_

#include <cuda_runtime.h>

namespace longstream::cuda {

// Once in each block or more often, by any thread.
__device__ __forceinline__ void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// In each thread.
__device__ __forceinline__ void AwaitEarlierKernels() {
#if !defined(__CUDACC__)
  simt::AwaitEarlierKernels();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What a kernel begins with that prefetches nothing.
__device__ __forceinline__ void BeginKernel() {
  LetNextKernelStart();
  AwaitEarlierKernels();
}

// What a miss in the second-level cache brings at least.
inline constexpr int kPrefetchLine = 64;

// Asks for the kPrefetchLine bytes around an address to be brought to the second-level cache.
// Before the wait: of weights alone.
__device__ __forceinline__ void Prefetch([[maybe_unused]] const void* address) {
#if !defined(__CUDACC__)
  simt::Prefetch(address);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_OVERLAP_CUH_
