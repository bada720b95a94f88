// Embedding lookup: a block a row; 2 bytes read and 4 written per element of bf16.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/ops/embed.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) EmbedKernel(EmbedArgs args) {
  const int64_t row = blockIdx.x;
  const int64_t k = args.table.k;
  int64_t id = args.ids[row];
  if (id < 0) id = args.sampled[~id];
  const T* from = static_cast<const T*>(args.table.data) +
                  max(id, int64_t{0}) * WeightStride(args.table.type, k);
  float* to = static_cast<float*>(args.out.data) + row * args.out.stride;
  for (int64_t i = threadIdx.x; i < k; i += kThreads) {
    to[i] = id < 0 ? 0.0f : args.multiplier * Widen(from[i]);
  }
}

}  // namespace

void Embed(Stream& stream, const EmbedArgs& args) {
  const LaunchShape shape = {static_cast<unsigned>(args.out.rows), kThreads};
  ForType(args.table.type,
          [&](auto element) { Launch(stream, shape, EmbedKernel<decltype(element)>, args); });
}

}  // namespace longstream::cuda
