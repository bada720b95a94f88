// Logit scale: a thread computes a row.
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/attention/logit_scale.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) LogitScaleKernel(LogitScaleArgs args) {
  BeginKernel();
  const int64_t t = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (t >= args.num_rows) return;
  const double n = fmax(static_cast<double>(args.positions[t]) + args.offset, args.minimum);
  args.out[t] = static_cast<float>(fmax(args.floor, log(n) / log(args.base)));
}

}  // namespace

void LogitScale(Stream& stream, const LogitScaleArgs& args) {
  Launch(stream, {CeilDiv(args.num_rows, kThreads), kThreads}, LogitScaleKernel, args);
}

}  // namespace longstream::cuda
