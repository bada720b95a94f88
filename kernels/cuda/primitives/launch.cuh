// Launching kernels on a Stream.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_LAUNCH_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/cuda/primitives/device_limits.h"

namespace longstream::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};

constexpr unsigned CeilDiv(int64_t count, int64_t by) {
  return static_cast<unsigned>((count + by - 1) / by);
}

// Starts kernel(arguments...); overlap.cuh says when it begins. Does nothing for an empty grid or a
// failed stream. A failed launch fails the stream for good.
template <typename... Parameters, typename... Arguments>
void Launch(Stream& stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments... arguments) {
  if (!stream.ok() || shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  // A kernel needs permission for more shared memory than this. Every launch gives it permission
  // for kMaxSharedBytes, whatever it needs: only the last permission counts, and a thread of
  // another model may launch the same kernel with another size.
  constexpr size_t kDefaultSharedBytes = 48 << 10;
  if (shape.shared_bytes > kDefaultSharedBytes &&
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(kMaxSharedBytes)) != cudaSuccess) {
    cudaGetLastError();  // clears the error, which the next launch would report again
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = stream.overlaps ? 1 : 0;
  if (cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...) != cudaSuccess) {
    stream.Fail(OpStatus::kDeviceError);
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_LAUNCH_CUH_
