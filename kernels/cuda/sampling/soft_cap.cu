// Bounds numbers: a thread reads and writes one number.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/sampling/soft_cap.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) SoftCapKernel(SoftCapArgs args) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (column >= args.x.cols) return;
  float* x = static_cast<float*>(args.x.data) + blockIdx.x * args.x.stride + column;
  const float value = *x;
  if (!args.cut) {
    *x = args.cap * tanhf(value / args.cap);
  } else if (fabsf(value) > args.cap) {  // false for NaN
    *x = copysignf(args.cap, value);
  }
}

}  // namespace

void SoftCap(Stream& stream, const SoftCapArgs& args) {
  Launch(stream, {{static_cast<unsigned>(args.x.rows), CeilDiv(args.x.cols, kThreads)}, kThreads},
         SoftCapKernel, args);
}

}  // namespace longstream::cuda
