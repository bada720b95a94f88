// Norm of rows. A row consists of one or more parts, each with a norm of its own; a thread block
// computes one part. For each element it reads 4 bytes twice (the second time from L1) and writes
// 4; with `accumulate` it reads 4 more.
#include <cassert>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/cuda/primitives/shared.cuh"
#include "kernels/ops/elementwise/norm_rows.h"

namespace longstream::cuda {
namespace {

__global__ void __launch_bounds__(kMaxRowThreads) NormRowsKernel(NormRowsArgs args) {
  BeginKernel();
  const Norm& norm = args.norm;
  const int64_t r = blockIdx.x, begin = blockIdx.y * norm.size;
  const float* x = static_cast<const float*>(args.in.data) + r * args.in.stride + begin;
  float* out = static_cast<float*>(args.out.data) + r * args.out.stride + begin;
  auto* scratch = SharedMemory<float>();
  const float mean = norm.centred ? RowMean(x, norm.size, scratch) : 0.0f;
  const float factor = args.scale * RowInverseDeviation(x, norm.size, mean, norm.eps, scratch);
  // fewer than kLoadsAtOnce, because each takes several loads
  constexpr int kElements = kLoadsAtOnce / 2;
  struct Element {
    float x, weight, bias, out;
  };
  ForRow<kElements>(
      norm.size,
      [&](int i) -> Element {
        return {x[i], norm.weight[begin + i], norm.bias == nullptr ? 0.0f : norm.bias[begin + i],
                args.accumulate ? out[i] : 0.0f};
      },
      [&](int i, const Element& element) {
        float value = (element.x - mean) * factor * element.weight;
        if (norm.bias != nullptr) value = __fmaf_rn(args.scale, element.bias, value);
        out[i] = args.accumulate ? element.out + value : value;
      });
}

}  // namespace

void NormRows(Stream& stream, const NormRowsArgs& args) {
  assert(args.norm.enabled());
  const dim3 grid(static_cast<unsigned>(args.in.rows),
                  static_cast<unsigned>(args.in.cols / args.norm.size));
  const unsigned threads = RowThreads(args.norm.size);
  Launch(stream, {grid, threads, threads / kWarp * sizeof(float)}, NormRowsKernel, args);
}

}  // namespace longstream::cuda
