// Functions of kernels/cpu/simd/simd.h, gumbel.h and core/lanes/quantise_lanes.h over arrays,
// compiled for each instruction set.
#ifndef LONGSTREAM_TESTS_KERNELS_CPU_SIMD_FUNCTIONS_H_
#define LONGSTREAM_TESTS_KERNELS_CPU_SIMD_FUNCTIONS_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/quantise.h"

namespace longstream {

// The functions of one instruction set. Arrays have n elements; n need not be a multiple of 16.
struct SimdFunctions {
  int native_lanes;  // f32 lanes of a register of the instruction set
  void (*exp)(const float* x, float* y, int64_t n);
  void (*log)(const float* x, float* y, int64_t n);
  void (*exp_of_negative)(const float* x, float* y, int64_t n);
  void (*exp_of_difference)(const float* x, float top, float* y, int64_t n);
  void (*sigmoid)(const float* x, float* y, int64_t n);
  void (*tanh)(const float* x, float* y, int64_t n);
  void (*erf)(const float* x, float* y, int64_t n);
  void (*widen_bf16)(const BF16* x, float* y, int64_t n);
  void (*widen_f16)(const F16* x, float* y, int64_t n);
  void (*round_to_bf16)(const float* x, BF16* y, int64_t n);
  void (*round_to_f16)(const float* x, F16* y, int64_t n);
  // The noise of sampling (kernels/cpu/sampling/gumbel.h) for 16 token ids and for 16 random words.
  void (*philox_word)(uint64_t seed, int64_t position, const int32_t* ids, int32_t* words);
  void (*exponential)(const int32_t* words, float* y);
  // These work lane by lane, on two vectors of 16 lanes.
  void (*max)(const float* a, const float* b, float* y);
  void (*min)(const float* a, const float* b, float* y);
  // These work on 16 lanes, and give their sum, their maximum, and a bit for each lane that exceeds
  // 1.
  float (*sum)(const float* x);
  float (*max_lane)(const float* x);
  uint32_t (*above_one)(const float* x);
  // The lanes of these bits, which are 1 in them and 0 in the others.
  void (*lanes_of)(uint32_t bits, float* y);
  void (*quantise)(DType type, const float* weights, int64_t count, WeightGroup* groups);
};

namespace cpu {
namespace baseline {
SimdFunctions GetSimdFunctions();
}
namespace avx2 {
SimdFunctions GetSimdFunctions();
}
namespace avx512_f32 {
SimdFunctions GetSimdFunctions();
}
}  // namespace cpu

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_CPU_SIMD_FUNCTIONS_H_
