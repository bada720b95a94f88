// Check for finite rows: a block a row, which the head has just left in L2.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/row_reduce.cuh"
#include "kernels/ops/finite_rows.h"

namespace longstream::cuda {
namespace {

template <int kThreads>
__global__ void __launch_bounds__(kThreads) FiniteRowsKernel(FiniteRowsArgs args) {
  constexpr unsigned kExponent = 0x7f800000u;
  const Matrix& values = args.values;
  const float* row = static_cast<const float*>(values.data) + int64_t{blockIdx.x} * values.stride;
  int non_finite = 0;
  for (int64_t i = threadIdx.x; i < values.cols; i += kThreads) {
    non_finite |= (__float_as_uint(row[i]) & kExponent) == kExponent ? 1 : 0;
  }
  non_finite = __syncthreads_or(non_finite);
  if (threadIdx.x == 0) args.finite[blockIdx.x] = non_finite == 0 ? 1 : 0;
}

}  // namespace

void FiniteRows(Stream& stream, const FiniteRowsArgs& args) {
  const auto launch = [&](auto kernel, int threads) {
    Launch(stream, {static_cast<unsigned>(args.values.rows), static_cast<unsigned>(threads)},
           kernel, args);
  };
  if (args.values.cols <= kSmallVocabulary) {
    launch(FiniteRowsKernel<kSmallRowThreads>, kSmallRowThreads);
  } else {
    launch(FiniteRowsKernel<kLargeRowThreads>, kLargeRowThreads);
  }
}

}  // namespace longstream::cuda
