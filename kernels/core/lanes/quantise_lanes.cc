// The search of core/quantise.cc for as many groups at once as a register has lanes. Each lane
// computes one group. The search adds in the same order as core/quantise.cc, and fuses a
// multiplication with an addition only if f32 holds the product exactly.
#include "kernels/core/lanes/quantise_lanes.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// A sum over a group first adds the inputs i, i + 8, i + 16 ... for each i below 8.
constexpr int64_t kStride = 8;
constexpr float kLargestScale = 65504.0f;

LONGSTREAM_INLINE NativeF32 Clamp(NativeF32 x, NativeF32 low, NativeF32 high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}

// The sum of term(i) over the inputs. It starts from the first term; a sum that starts from 0 would
// differ only in the sign of a zero.
template <typename Term>
LONGSTREAM_INLINE NativeF32 SumOf(const Term& term) {
  const auto strided = [&](int64_t first) LONGSTREAM_INLINE_LAMBDA {
    NativeF32 sum = term(first);
    LONGSTREAM_UNROLL
    for (int64_t i = first + kStride; i < kGroupInputs; i += kStride) sum = sum + term(i);
    return sum;
  };
  return ((strided(0) + strided(4)) + (strided(2) + strided(6))) +
         ((strided(1) + strided(5)) + (strided(3) + strided(7)));
}

using Weights = float[kGroupInputs][kNativeLanes];

// The best scales so far: each lane has the scale of one group. The content of a lane is
// meaningless if its group gets no scale, because a weight is NaN or too large or because all are
// too small.
class Search {
 public:
  LONGSTREAM_INLINE Search(const ScaleSearch& search, const Weights& weights)
      : weights_(weights),
        low_(NativeBroadcast(search.low)),
        high_(NativeBroadcast(search.high)),
        error_(NativeBroadcast(__builtin_inff())),
        scale_(NativeBroadcast(0.0f)) {}

  // Rounds the weights to integers with the scale 1 / inverse. Computes the scale that fits these
  // integers best. Then tries two f16 numbers as the scale: the nearest to it, and the next f16.
  LONGSTREAM_INLINE void Try(NativeF32 inverse) {
    // These sums of integers are below 2^24, so they are exact in any order.
    NativeF32 squares[4] = {};
    const NativeF32 dot = SumOf([&](int64_t i) LONGSTREAM_INLINE_LAMBDA {
      const NativeF32 value = Value(i, inverse);
      squares[i % 4] = NativeFma(value, value, squares[i % 4]);
      return Weight(i) * value;
    });
    // If all integers are 0, this scale is NaN, and so are the errors.
    const NativeF32 best = dot / ((squares[0] + squares[1]) + (squares[2] + squares[3]));
    const NativeF32 bounded =
        Clamp(best, NativeBroadcast(-kLargestScale), NativeBroadcast(kLargestScale));
    uint16_t bits[kNativeLanes];
    NativeStoreF16(bounded, bits);
    TryScale(NativeLoadF16(bits));
    NativeStoreU16(NativeLoadU16(bits) + NativeBroadcast(1), bits);
    TryScale(NativeLoadF16(bits));
  }

  // The integers of input i for the best scales. They are meaningless in a lane whose scale is 0.
  LONGSTREAM_INLINE NativeF32 BestValue(int64_t i) const {
    return Value(i, NativeBroadcast(1.0f) / scale_);
  }
  LONGSTREAM_INLINE NativeF32 best_scale() const { return scale_; }

 private:
  LONGSTREAM_INLINE NativeF32 Weight(int64_t i) const { return NativeLoad(weights_[i]); }

  // The integers of the type that are nearest to weight i times `inverse`, ties to even.
  LONGSTREAM_INLINE NativeF32 Value(int64_t i, NativeF32 inverse) const {
    const NativeF32 rounder = NativeBroadcast(0x1.8p23f);
    return (Clamp(Weight(i) * inverse, low_, high_) + rounder) - rounder;
  }

  LONGSTREAM_INLINE void TryScale(NativeF32 scale) {
    const NativeF32 inverse = NativeBroadcast(1.0f) / scale;
    const NativeF32 error = SumOf([&](int64_t i) LONGSTREAM_INLINE_LAMBDA {
      // The product of an f16 and an integer of at most 8 bits is exact.
      const NativeF32 off = NativeFma(-scale, Value(i, inverse), Weight(i));
      return off * off;
    });
    // If a scale is infinite, its error is NaN.
    const NativeI32 is_better = (error < error_) & (scale != NativeBroadcast(0.0f));
    error_ = is_better ? error : error_;
    scale_ = is_better ? scale : scale_;
  }

  const Weights& weights_;
  const NativeF32 low_, high_;
  NativeF32 error_, scale_;
};

LONGSTREAM_INLINE NativeF32 Magnitude(NativeF32 x) {
  return reinterpret_cast<NativeF32>(reinterpret_cast<NativeI32>(x) & NativeBroadcast(0x7fffffff));
}

}  // namespace

void QuantiseLanes(DType type, const float (&weights)[kGroupInputs][kNativeLanes],
                   LaneGroups* groups) {
  const NativeF32 zero = NativeBroadcast(0.0f);
  NativeF32 largest = zero;
  NativeI32 is_number = NativeBroadcast(-1);
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    const NativeF32 weight = NativeLoad(weights[i]);
    is_number &= Magnitude(weight) <= NativeBroadcast(LargestWeight(type));
    largest = Magnitude(weight) > Magnitude(largest) ? weight : largest;
  }
  const ScaleSearch scales = ScaleSearchOf(type);
  Search search(scales, weights);
  for (float level = scales.first_level; level <= scales.last_level; level += scales.level_step) {
    if (scales.both_signs) search.Try(NativeBroadcast(-level) / largest);
    search.Try(NativeBroadcast(level) / largest);
  }
  const NativeI32 is_large = Magnitude(largest) >= NativeBroadcast(kSmallestWeight);
  const NativeF32 scale = is_large ? search.best_scale() : zero;
  const NativeI32 has_values = is_number & (scale != zero);
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    const NativeF32 value = has_values ? search.BestValue(i) : zero;
    groups->values[i] = __builtin_convertvector(value, NativeI32);
  }
  const NativeF32 nan = NativeBroadcast(__builtin_nanf(""));
  NativeStoreF16(is_number ? scale : nan, &groups->scales[0].bits);
}

void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups) {
  for (int64_t first = 0; first < count; first += kNativeLanes) {
    const int64_t lanes = count - first < kNativeLanes ? count - first : kNativeLanes;
    float by_input[kGroupInputs][kNativeLanes] = {};
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const float* group = weights + (first + lane) * kGroupInputs;
      for (int64_t i = 0; i < kGroupInputs; ++i) by_input[i][lane] = group[i];
    }
    LaneGroups made;
    QuantiseLanes(type, by_input, &made);
    int32_t values[kGroupInputs][kNativeLanes];
    __builtin_memcpy(values, made.values, sizeof(values));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      WeightGroup& group = groups[first + lane];
      group.scale = made.scales[lane];
      for (int64_t i = 0; i < kGroupInputs; ++i) {
        group.values[i] = static_cast<int8_t>(values[i][lane]);
      }
    }
  }
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
