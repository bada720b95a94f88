// This file is compiled once per instruction set, as the kernels are.
#include "tests/kernels/cpu/simd_functions.h"

#include "kernels/core/lanes/quantise_lanes.h"
#include "kernels/cpu/sampling/gumbel.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

template <typename In, typename Out, typename Function>
LONGSTREAM_INLINE void Map(const In* x, Out* y, int64_t n, Function function) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(function(Load(x + i)), y + i);
  if (i < n) StorePartial(function(LoadPartial(x + i, n - i)), y + i, n - i);
}

LONGSTREAM_INLINE F32x16 Same(const F32x16& x) { return x; }

}  // namespace

SimdFunctions GetSimdFunctions() {
  return {
      .native_lanes = kNativeLanes,
      .exp = [](const float* x, float* y, int64_t n) { Map(x, y, n, Exp); },
      .log = [](const float* x, float* y, int64_t n) { Map(x, y, n, Log); },
      .exp_of_negative = [](const float* x, float* y, int64_t n) { Map(x, y, n, ExpOfNegative); },
      .exp_of_difference =
          [](const float* x, float top, float* y, int64_t n) {
            Map(x, y, n, [top](const F32x16& v) { return ExpOfDifference(v, Broadcast(top)); });
          },
      .sigmoid = [](const float* x, float* y, int64_t n) { Map(x, y, n, Sigmoid); },
      .tanh = [](const float* x, float* y, int64_t n) { Map(x, y, n, Tanh); },
      .erf = [](const float* x, float* y, int64_t n) { Map(x, y, n, Erf); },
      .widen_bf16 = [](const BF16* x, float* y, int64_t n) { Map(x, y, n, Same); },
      .widen_f16 = [](const F16* x, float* y, int64_t n) { Map(x, y, n, Same); },
      .round_to_bf16 = [](const float* x, BF16* y, int64_t n) { Map(x, y, n, Same); },
      .round_to_f16 = [](const float* x, F16* y, int64_t n) { Map(x, y, n, Same); },
      .philox_word = [](uint64_t seed, int64_t position, const int32_t* ids,
                        int32_t* words) { Store(PhiloxWord(seed, position, Load(ids)), words); },
      .exponential = [](const int32_t* words, float* y) { Store(Exponential(Load(words)), y); },
      .max = [](const float* a, const float* b, float* y) { Store(Max(Load(a), Load(b)), y); },
      .min = [](const float* a, const float* b, float* y) { Store(Min(Load(a), Load(b)), y); },
      .sum = [](const float* x) { return Sum(Load(x)); },
      .max_lane = [](const float* x) { return MaxLane(Load(x)); },
      .above_one = [](const float* x) { return Bits(Load(x) > Broadcast(1.0f)); },
      .lanes_of = [](uint32_t bits,
                     float* y) { Store(Select(LanesOf(bits), Broadcast(1.0f), Zero()), y); },
      .quantise = QuantiseGroups,
  };
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
