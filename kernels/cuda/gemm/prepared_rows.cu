// Norm, addition, gate and rounding of rows: a thread block prepares a row. For each element it
// reads 4 bytes, twice if there is a norm (the second time from L1). It writes 2 bytes for each
// element of a bf16 row, and 1.125 for each element of an int8 row, scales included.
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/gemm/prepared_rows.h"
#include "kernels/cuda/gemm/row_inputs.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/shared.cuh"

namespace longstream::cuda {
namespace {

// T: the type of the prepared rows, which follows from the weight's type.
template <typename T>
__global__ void __launch_bounds__(kRowThreads)
    PrepareRowsKernel(RowSource source, T* values, float* scales, int k, int stride) {
  LetNextKernelStart();
  if (blockIdx.x == 0) PrefetchNorm(source, k);
  AwaitEarlierKernels();
  const int64_t r = blockIdx.x;
  float* row_scales = scales == nullptr ? nullptr : scales + r * (stride / kRowGroup);
  PrepareInBlock(source, r, 1, k, stride, values + r * stride, row_scales, SharedMemory<float>());
}

}  // namespace

PreparedRows PrepareRows(Stream& stream, const RowSource& source, const PackedWeight& weight) {
  const int64_t num_rows = source.num_rows;
  const int64_t stride = WeightStride(weight.type, weight.k);
  PreparedRows rows = {.data = stream.workspace, .num_rows = num_rows, .stride = stride};
  const LaunchShape shape = {static_cast<unsigned>(num_rows), kRowThreads,
                             RowScratch(1) * sizeof(float)};
  const auto prepare = [&](auto element) {
    using T = decltype(element);
    auto* values = reinterpret_cast<T*>(stream.workspace);
    if constexpr (std::is_same_v<T, int8_t>) {
      rows.scales = reinterpret_cast<float*>(stream.workspace + num_rows * stride);
    }
    Launch(stream, shape, PrepareRowsKernel<T>, source, values, rows.scales,
           static_cast<int>(weight.k), static_cast<int>(stride));
  };
  if (IsQuantised(weight.type)) {
    prepare(int8_t{});
  } else if (weight.type == DType::kBF16) {
    prepare(BF16{});
  } else {
    prepare(float{});
  }
  return rows;
}

}  // namespace longstream::cuda
