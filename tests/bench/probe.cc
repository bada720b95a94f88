// This file is compiled once per instruction set, like the kernels.
#include "tests/bench/probe.h"

#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// The number of independent sums in registers. It is large enough to hide a latency of 4 cycles at
// 2 multiply-adds per cycle.
constexpr int kSums = 12;

float Read(const void* data, size_t bytes) {
  const float* from = static_cast<const float*>(data);
  const size_t stream = bytes / sizeof(float) / 4;
  F32x16 sums[4] = {Zero(), Zero(), Zero(), Zero()};
  for (size_t i = 0; i < stream; i += kLanes) {
    for (int s = 0; s < 4; ++s) sums[s] = sums[s] + Load(from + s * stream + i);
  }
  return Sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

double MultiplyAddF32(int64_t iterations, float* result) {
  NativeF32 sums[kSums];
  for (int s = 0; s < kSums; ++s) sums[s] = NativeBroadcast(static_cast<float>(s));
  NativeF32 factor = NativeBroadcast(0.999f);
  const NativeF32 term = NativeBroadcast(0.001f);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+x"(factor));  // unknown to the compiler
    for (int s = 0; s < kSums; ++s) sums[s] = NativeFma(sums[s], factor, term);
  }
  float total = 0;
  for (int s = 0; s < kSums; ++s) total += sums[s][0];
  *result = total;
  return 2.0 * kNativeLanes * kSums * static_cast<double>(iterations);
}

#if defined(__AVX512BF16__)
double MultiplyAddBF16(int64_t iterations, float* result) {
  __m512 sums[kSums];
  for (int s = 0; s < kSums; ++s) sums[s] = _mm512_set1_ps(static_cast<float>(s));
  __m512i a = _mm512_set1_epi32(0x3f803f80);
  const __m512i b = _mm512_set1_epi32(0x3f803f80);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+v"(a));
    for (int s = 0; s < kSums; ++s) {
      sums[s] =
          _mm512_dpbf16_ps(sums[s], reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
    }
  }
  float total = 0;
  for (int s = 0; s < kSums; ++s) total += sums[s][0];
  *result = total;
  return 4.0 * kNativeLanes * kSums * static_cast<double>(iterations);
}
#endif

}  // namespace

Probe GetProbe() {
  return {
    .read = Read, .multiply_add_f32 = MultiplyAddF32,
#if defined(__AVX512BF16__)
    .multiply_add_bf16 = MultiplyAddBF16,
#else
    .multiply_add_bf16 = nullptr,
#endif
  };
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
