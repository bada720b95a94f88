// Rotation table: a thread computes the cosine and the sine of one angle. Angles are f64.
#include <cmath>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/elementwise/rope_table.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) RopeTableKernel(RopeTableArgs args) {
  BeginKernel();
  const int64_t half = args.head_dim / 2;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= args.num_rows * half) return;
  const int64_t t = index / half;
  const int64_t i = index % half;
  const int64_t p = args.modulo > 0 ? args.positions[t] % args.modulo : args.positions[t];
  const double angle =
      (args.position_scale * static_cast<double>(p) + args.position_offset) * args.inv_freq[i];
  const float magnitude = args.inv_freq[i] == 0.0 ? 1.0f : args.magnitude;
  float* row = args.table + t * args.head_dim;
  row[i] = static_cast<float>(magnitude * cos(angle));
  row[half + i] = static_cast<float>(magnitude * sin(angle));
}

}  // namespace

void RopeTable(Stream& stream, const RopeTableArgs& args) {
  const int64_t pairs = args.num_rows * (args.head_dim / 2);
  Launch(stream, {CeilDiv(pairs, kThreads), kThreads}, RopeTableKernel, args);
}

}  // namespace longstream::cuda
