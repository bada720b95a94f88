// Norm of rows: a block a row. It reads 4 bytes per element twice (the second time from L1) and
// writes 4, and reads 4 more where it accumulates.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/ops/norm_rows.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) NormRowsKernel(NormRowsArgs args) {
  const int64_t r = blockIdx.x;
  const float* x = static_cast<const float*>(args.in.data) + r * args.in.stride;
  float* out = static_cast<float*>(args.out.data) + r * args.out.stride;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < args.in.cols; i += kThreads) {
    squares = __fmaf_rn(x[i], x[i], squares);
  }
  const float sum = RowSum<kThreads>(squares, SharedMemory<float>());
  const float factor = args.scale / sqrtf(sum / static_cast<float>(args.in.cols) + args.norm.eps);
  for (int64_t i = threadIdx.x; i < args.in.cols; i += kThreads) {
    const float value = x[i] * factor * args.norm.weight[i];
    out[i] = args.accumulate ? out[i] + value : value;
  }
}

}  // namespace

void NormRows(Stream& stream, const NormRowsArgs& args) {
  Launch(stream,
         {static_cast<unsigned>(args.in.rows), kThreads, (kThreads / kWarp) * sizeof(float)},
         NormRowsKernel, args);
}

}  // namespace longstream::cuda
