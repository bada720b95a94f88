// Resources of a GPU that kernels may use.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_

#include <cstddef>

namespace longstream::cuda {

// The shared memory that a block may have. It is the limit of sm_80, so that kernels are the same
// on compute capabilities 8.x and 9.0. 8.0 and 8.7 have as much; 8.6 and 8.9 have 99 KiB and are
// refused.
inline constexpr size_t kMaxSharedBytes = size_t{163} << 10;

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_DEVICE_LIMITS_H_
