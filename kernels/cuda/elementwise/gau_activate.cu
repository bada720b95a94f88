// Activation of a gated attention unit: a thread block computes a row. It reads and writes 4 bytes
// for each element of v, and reads 4 and writes 8 for each element of z.
#include <algorithm>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/ops/elementwise/gau_activate.h"

namespace longstream::cuda {
namespace {

__device__ float* RowOf(const Matrix& matrix, int64_t row) {
  return static_cast<float*>(matrix.data) + row * matrix.stride;
}

__device__ float Silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void __launch_bounds__(kMaxRowThreads) GauActivateKernel(GauActivateArgs args) {
  BeginKernel();
  const int64_t t = blockIdx.x;
  float* v = RowOf(args.v, t);
  ForRow(
      args.v.cols, [&](int i) { return v[i]; }, [&](int i, float x) { v[i] = Silu(x); });
  const float* z = RowOf(args.z, t);
  float* q = RowOf(args.q, t);
  float* k = RowOf(args.k, t);
  // fewer than kLoadsAtOnce, because each takes several loads
  constexpr int kElements = kLoadsAtOnce / 2;
  struct Element {
    float z, q_scale, q_offset, k_scale, k_offset;
  };
  ForRow<kElements>(
      args.z.cols,
      [&](int i) -> Element {
        return {z[i], args.q_scale[i], args.q_offset[i], args.k_scale[i], args.k_offset[i]};
      },
      [&](int i, const Element& element) {
        const float active = Silu(element.z);
        q[i] = __fmaf_rn(element.q_scale, active, element.q_offset);
        k[i] = __fmaf_rn(element.k_scale, active, element.k_offset);
      });
}

}  // namespace

void GauActivate(Stream& stream, const GauActivateArgs& args) {
  const int64_t widest = std::max(args.v.cols, args.z.cols);
  Launch(stream, {static_cast<unsigned>(args.v.rows), RowThreads(widest)}, GauActivateKernel, args);
}

}  // namespace longstream::cuda
