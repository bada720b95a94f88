// Kernels for the test of tools/gpu/machine_code.py: some are correct, and each of the others has
// one defect that the tool must report.
#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/wgmma.cuh"

using namespace longstream::cuda;
using longstream::BF16;

__global__ void Good(float* to, const float* from) {
  BeginKernel();
  to[threadIdx.x] = from[threadIdx.x];
}

__global__ void GoodWithPrefetches(float* to, const float* weights, int count) {
  LetNextKernelStart();
  for (int i = threadIdx.x; i < count; i += 32) Prefetch(weights + 16 * i);
  AwaitEarlierKernels();
  if (threadIdx.x >= count) return;
  to[threadIdx.x] = weights[threadIdx.x];
}

__global__ void NeverWaits(float* to) {
  LetNextKernelStart();
  to[threadIdx.x] = 1.0f;
}

__global__ void LoadsEarly(float* to, const float* from) {
  LetNextKernelStart();
  const float early = *static_cast<const volatile float*>(from);
  AwaitEarlierKernels();
  to[threadIdx.x] = early;
}

__global__ void CopiesEarly(float* to, const float* from) {
  __shared__ float copied[32];
  __pipeline_memcpy_async(&copied[threadIdx.x], from + threadIdx.x, sizeof(float));
  AwaitEarlierKernels();
  __pipeline_commit();
  __pipeline_wait_prior(0);
  to[threadIdx.x] = copied[threadIdx.x];
}

__global__ void EndsEarly(float* to, int count) {
  LetNextKernelStart();
  if (threadIdx.x >= count) return;
  AwaitEarlierKernels();
  to[threadIdx.x] = 1.0f;
}

__global__ void SomeThreadsWait(float* to, int count) {
  LetNextKernelStart();
  if (threadIdx.x < count) AwaitEarlierKernels();
  to[threadIdx.x] = 1.0f;
}

__global__ void KeepsAStack(float* to, const int* places) {
  BeginKernel();
  float values[16] = {};
  for (int i = 0; i < 64; ++i) values[places[i] & 15] += to[i];
  for (int i = 0; i < 16; ++i) to[places[i]] = values[places[i + 1] & 15];
}

constexpr int kArrayOfTheHost[2] = {1, 2};
constexpr int Sum(int x) { return x += kArrayOfTheHost[0]; }
__global__ void RefersToTheHost(int* to) {
  BeginKernel();
  to[threadIdx.x] = Sum(to[threadIdx.x]);
}

template <bool kOneByOne>
__device__ void Multiply(float* to) {
  BeginKernel();
  alignas(1024) __shared__ BF16 panel[64 * 64];
  float sums[8][4] = {};
  const uint32_t a[4] = {threadIdx.x, 0, 0, 0};
  Pin(sums);
  FenceProducts();
#pragma unroll
  for (int row = 0; row < 64; row += kProductDepth) {
    StartProduct(sums, a, Panels<64>::AcrossRows(panel, row));
    if (!kOneByOne && row + kProductDepth < 64) continue;
    CommitProducts();
    WaitForProducts<0>();
    Pin(sums);
    FenceProducts();
  }
  for (int i = 0; i < 8; ++i) to[i * 128 + threadIdx.x] = sums[i][0];
}

__global__ void GoodWithProducts(float* to) { Multiply<false>(to); }
__global__ void WaitsForEachProduct(float* to) { Multiply<true>(to); }
