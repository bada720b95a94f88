// How far each pair of a head rotates per position.
#include "backends/architectures/transformer/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longstream {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// The pair, as a real number, that rotates `rotations` times within `length`.
double PairOfRotations(const RopeBase& base, double rotations, double length) {
  return base.rotated * std::log(length / (rotations * kTwoPi)) / (2.0 * std::log(base.theta));
}

}  // namespace

RopeSpec PlainRope(const RopeBase& base) {
  RopeSpec rope = {.theta = base.theta, .rotated = base.rotated};
  for (int32_t i = 0; i < base.rotated / 2; ++i) {
    rope.inv_freq.push_back(std::pow(base.theta, -2.0 * i / base.rotated));
  }
  return rope;
}

RopeSpec LinearRope(const RopeBase& base, double factor) {
  RopeSpec rope = PlainRope(base);
  for (double& frequency : rope.inv_freq) frequency /= factor;
  return rope;
}

RopeSpec NtkRope(const RopeBase& base, double growth) {
  const double exponent = base.rotated / (base.rotated - 2.0);
  RopeSpec rope = PlainRope({base.theta * std::pow(growth, exponent), base.rotated});
  rope.theta = base.theta;
  return rope;
}

RopeSpec YarnRope(const RopeBase& base, const YarnScaling& scaling) {
  double low = PairOfRotations(base, scaling.beta_fast, scaling.original_length);
  double high = PairOfRotations(base, scaling.beta_slow, scaling.original_length);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, base.rotated - 1.0);
  if (low == high) high += 0.001;

  RopeSpec rope = PlainRope(base);
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) {
    const double interpolated = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.inv_freq[i] *= interpolated / scaling.factor + (1.0 - interpolated);
  }
  rope.magnitude = static_cast<float>(scaling.attention_factor);
  return rope;
}

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

RopeSpec Llama3Rope(const RopeBase& base, const Llama3Scaling& scaling) {
  RopeSpec rope = PlainRope(base);
  for (double& frequency : rope.inv_freq) {
    const double rotations =
        // Rotations of the pair within original_length.
        scaling.original_length * frequency / kTwoPi;
    if (rotations > scaling.high_freq_factor) continue;
    if (rotations < scaling.low_freq_factor) {
      frequency /= scaling.factor;
    } else {
      const double smooth = (rotations - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
      frequency *= (1.0 - smooth) / scaling.factor + smooth;
    }
  }
  return rope;
}

RopeSpec LongRope(const RopeBase& base, const std::vector<double>& factors,
                  double attention_factor) {
  RopeSpec rope = PlainRope(base);
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) rope.inv_freq[i] /= factors[i];
  rope.magnitude = static_cast<float>(attention_factor);
  return rope;
}

}  // namespace longstream
