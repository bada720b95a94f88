// Norm of rows: a block for each part of a row that is normed by itself. It reads 4 bytes per
// element twice (the second time from L1) and writes 4, and reads 4 more where it accumulates.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/cuda/shared.cuh"
#include "kernels/ops/norm_rows.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) NormRowsKernel(NormRowsArgs args) {
  const Norm& norm = args.norm;
  const int64_t r = blockIdx.x, begin = blockIdx.y * norm.size;
  const float* x = static_cast<const float*>(args.in.data) + r * args.in.stride + begin;
  float* out = static_cast<float*>(args.out.data) + r * args.out.stride + begin;
  auto* scratch = SharedMemory<float>();
  const float mean = norm.centred ? RowMean<kThreads>(x, norm.size, scratch) : 0.0f;
  const float factor =
      args.scale * RowInverseDeviation<kThreads>(x, norm.size, mean, norm.eps, scratch);
  for (int64_t i = threadIdx.x; i < norm.size; i += kThreads) {
    float value = (x[i] - mean) * factor * norm.weight[begin + i];
    if (norm.bias != nullptr) value = __fmaf_rn(args.scale, norm.bias[begin + i], value);
    out[i] = args.accumulate ? out[i] + value : value;
  }
}

}  // namespace

void NormRows(Stream& stream, const NormRowsArgs& args) {
  const dim3 grid(static_cast<unsigned>(args.in.rows),
                  static_cast<unsigned>(args.in.cols / args.norm.size));
  Launch(stream, {grid, kThreads, (kThreads / kWarp) * sizeof(float)}, NormRowsKernel, args);
}

}  // namespace longstream::cuda
