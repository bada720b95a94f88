// Makes random numbers on the GPU. Copying a model of 30 GB to the GPU would take minutes.
#include <algorithm>

#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int kThreads = 256;
constexpr unsigned kMaxBlocks = 4096;

// Returns a number that is about N(0, 1): the sum of four uniform numbers from a SplitMix64 of
// (seed, i), scaled to variance 1.
__device__ float Noise(uint64_t seed, int64_t i) {
  uint64_t z = (seed << 40) + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  const auto part = [z](int shift) { return static_cast<float>(z >> shift & 0xffff); };
  const float sum = (part(0) + part(16) + part(32) + part(48)) * 0x1p-16f - 2.0f;
  return sum * 1.7320508f;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    FillKernel(T* data, int64_t count, float scale, uint64_t seed) {
  cuda::BeginKernel();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    data[i] = cuda::RoundTo<T>(scale * Noise(seed, i));
  }
}

}  // namespace

void FillRandom(Stream& stream, DType type, void* data, int64_t count, float scale, uint64_t seed) {
  const cuda::LaunchShape shape = {std::min(cuda::CeilDiv(count, kThreads), kMaxBlocks), kThreads};
  cuda::ForType(type, [&](auto element) {
    using T = decltype(element);
    cuda::Launch(stream, shape, FillKernel<T>, static_cast<T*>(data), count, scale, seed);
  });
}

}  // namespace longstream
