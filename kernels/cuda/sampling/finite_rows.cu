// Check for finite rows: a thread block reads a row, which the head has just left in L2.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/ops/sampling/finite_rows.h"

namespace longstream::cuda {
namespace {

__global__ void __launch_bounds__(kMaxRowThreads) FiniteRowsKernel(FiniteRowsArgs args) {
  BeginKernel();
  constexpr unsigned kExponent = 0x7f800000u;
  const Matrix& values = args.values;
  const float* row = static_cast<const float*>(values.data) + int64_t{blockIdx.x} * values.stride;
  int non_finite = 0;
  ForRow(
      values.cols, [&](int i) { return __float_as_uint(row[i]); },
      [&](int, unsigned bits) { non_finite |= (bits & kExponent) == kExponent ? 1 : 0; });
  non_finite = __syncthreads_or(non_finite);
  if (threadIdx.x == 0) args.finite[blockIdx.x] = non_finite == 0 ? 1 : 0;
}

}  // namespace

void FiniteRows(Stream& stream, const FiniteRowsArgs& args) {
  const LaunchShape shape = {static_cast<unsigned>(args.values.rows), RowThreads(args.values.cols)};
  Launch(stream, shape, FiniteRowsKernel, args);
}

}  // namespace longstream::cuda
