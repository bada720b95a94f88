// Activation of a gated attention unit: a block a row. It reads and writes 4 bytes per element of
// v, reads 4 and writes 8 per element of z.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/ops/gau_activate.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float* RowOf(const Matrix& matrix, int64_t row) {
  return static_cast<float*>(matrix.data) + row * matrix.stride;
}

__device__ float Silu(float x) { return x / (1.0f + expf(-x)); }

__global__ void __launch_bounds__(kThreads) GauActivateKernel(GauActivateArgs args) {
  const int64_t t = blockIdx.x;
  float* v = RowOf(args.v, t);
  for (int64_t i = threadIdx.x; i < args.v.cols; i += kThreads) v[i] = Silu(v[i]);
  const float* z = RowOf(args.z, t);
  float* q = RowOf(args.q, t);
  float* k = RowOf(args.k, t);
  for (int64_t i = threadIdx.x; i < args.z.cols; i += kThreads) {
    const float active = Silu(z[i]);
    q[i] = __fmaf_rn(args.q_scale[i], active, args.q_offset[i]);
    k[i] = __fmaf_rn(args.k_scale[i], active, args.k_offset[i]);
  }
}

}  // namespace

void GauActivate(Stream& stream, const GauActivateArgs& args) {
  Launch(stream, {static_cast<unsigned>(args.v.rows), kThreads}, GauActivateKernel, args);
}

}  // namespace longstream::cuda
