// Gathers rows at the front of a matrix: a thread moves a column, several rows at a time. The move
// is in place and needs no order among threads: no other thread reads the elements that a thread
// writes, and the rows that a thread has yet to read lie behind the rows that it has written.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/elementwise/gather_rows.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 64;  // few, so that many multiprocessors read narrow rows
constexpr int kRowsAtOnce = 8;

__global__ void __launch_bounds__(kThreads) GatherRowsKernel(GatherRowsArgs args) {
  BeginKernel();
  const int64_t column = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= args.x.cols) return;
  float* x = static_cast<float*>(args.x.data) + column;
  for (int64_t first = 0; first < args.num_rows; first += kRowsAtOnce) {
    float values[kRowsAtOnce];
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (first + i < args.num_rows) values[i] = x[args.rows[first + i] * args.x.stride];
    }
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (first + i < args.num_rows) x[(first + i) * args.x.stride] = values[i];
    }
  }
}

}  // namespace

void GatherRows(Stream& stream, const GatherRowsArgs& args) {
  Launch(stream, {CeilDiv(args.x.cols, kThreads), kThreads}, GatherRowsKernel, args);
}

}  // namespace longstream::cuda
