// Kernels of which tools/gpu/machine_code.py must find those that are not as they should be.
#include "kernels/cuda/overlap.cuh"

using longstream::cuda::AwaitEarlierKernels;
using longstream::cuda::BeginKernel;
using longstream::cuda::LetNextKernelStart;
using longstream::cuda::Prefetch;

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

__global__ void LetsNobodyStart(float* to) {
  AwaitEarlierKernels();
  to[threadIdx.x] = 1.0f;
}

__global__ void LoadsEarly(float* to, const float* from) {
  LetNextKernelStart();
  const float early = *static_cast<const volatile float*>(from);
  AwaitEarlierKernels();
  to[threadIdx.x] = early;
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
