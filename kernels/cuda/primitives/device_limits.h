// Resources of a GPU that kernels may use.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_

#include <cstddef>

namespace longstream::cuda {

// The shared memory of a block: as much as sm_80 allows, so that kernels are the same on both
// architectures. Of 8.x, 8.0 and 8.7 have as much; 8.6 and 8.9 have 99 KiB and are refused.
inline constexpr size_t kMaxSharedBytes = size_t{163} << 10;

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_
