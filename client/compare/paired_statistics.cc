// Resamples, sorts, counts.
#include "client/compare/paired_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "client/compare/not_finite.h"

namespace longstream::client {
namespace {

// A spread below this part of the original is a rounding error.
constexpr double kRounding = 1e-12;

// xoshiro256++ (Blackman and Vigna, ACM TOMS 47, 2021), seeded by SplitMix64. The standard
// library's distributions may differ between libraries; this one gives the same report everywhere.
class Generator {
 public:
  explicit Generator(uint64_t seed) {
    for (uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t mixed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
      word = mixed ^ (mixed >> 31);
    }
  }

  uint64_t Next() {
    const uint64_t result = Rotated(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotated(state_[3], 45);
    return result;
  }

 private:
  static uint64_t Rotated(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

  uint64_t state_[4];
};

// Returns value / scale, and for scale 0 what the quotient tends to: 0 for the value 0.
double Quotient(double value, double scale) {
  if (value == 0) return 0;
  return scale == 0 ? std::copysign(kInfinity, value) : value / scale;
}

}  // namespace

StudentisedBootstrap::StudentisedBootstrap(std::span<const double> values, uint64_t seed,
                                           uint32_t resamples)
    : count_(values.size()), mean_(kNaN), deviation_(kNaN) {
  if (values.empty()) return;
  const double n = static_cast<double>(count_);
  mean_ = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (count_ < 2) return;
  std::vector<double> centred(count_);
  double squares = 0;
  for (size_t i = 0; i < count_; ++i) {
    centred[i] = values[i] - mean_;
    squares += centred[i] * centred[i];
  }
  deviation_ = std::sqrt(squares / (n - 1));
  if (deviation_ <= kRounding * std::abs(mean_)) {
    deviation_ = 0;
    centred.assign(count_, 0);
  }
  Resample(centred, seed, resamples);
}

void StudentisedBootstrap::Resample(std::span<const double> centred, uint64_t seed,
                                    uint32_t resamples) {
  if (deviation_ == 0) {  // all resamples are equal
    t_.assign(resamples, 0);
    return;
  }
  const double n = static_cast<double>(count_);
  const double least_variance = kRounding * deviation_ * deviation_;
  const double least_mean = std::sqrt(kRounding) * deviation_;
  Generator generator(seed);
  // Maps 32 random bits to an index. The bias is below n / 2^32.
  const auto drawn = [&](uint64_t bits) { return centred[((bits & 0xffffffff) * count_) >> 32]; };
  t_.reserve(resamples);
  for (uint32_t r = 0; r < resamples; ++r) {
    double sum = 0;
    double squares = 0;
    const auto add = [&](double x) {
      sum += x;
      squares += x * x;
    };
    for (size_t i = 0; i + 1 < count_; i += 2) {
      const uint64_t bits = generator.Next();
      add(drawn(bits));
      add(drawn(bits >> 32));
    }
    if (count_ % 2 == 1) add(drawn(generator.Next()));
    double mean = sum / n;
    double variance = (squares - sum * mean) / (n - 1);
    if (variance <= least_variance) {
      variance = 0;
      if (std::abs(mean) <= least_mean) mean = 0;
    }
    t_.push_back(Quotient(mean, std::sqrt(variance / n)));
  }
  std::sort(t_.begin(), t_.end());
}

double StudentisedBootstrap::standard_error() const {
  return deviation_ / std::sqrt(static_cast<double>(count_));
}

double StudentisedBootstrap::standardised_effect() const {
  return mean_ == 0 && deviation_ == 0 ? kNaN : mean_ / deviation_;
}

Interval StudentisedBootstrap::Confidence(double alpha) const {
  // As many t* lie outside on each side, with PValue's "+ 1". A rank that rounding has moved below
  // an integer counts as that integer.
  const double rank = std::floor(alpha / 2 * static_cast<double>(t_.size() + 1) + 1e-9);
  if (t_.empty() || rank < 1) return {-kInfinity, kInfinity};
  const size_t outside = static_cast<size_t>(rank);
  const double error = standard_error();
  const auto limit = [&](double t) { return t == 0 ? mean_ : mean_ - t * error; };
  return {limit(t_[t_.size() - outside]), limit(t_[outside - 1])};
}

double StudentisedBootstrap::PValue(double hypothesis) const {
  if (t_.empty()) return 1;
  const double t = Quotient(mean_ - hypothesis, standard_error());
  const auto below = std::upper_bound(t_.begin(), t_.end(), t) - t_.begin();
  const auto above = t_.end() - std::lower_bound(t_.begin(), t_.end(), t);
  const double rarer = static_cast<double>(std::min(below, above) + 1);
  return std::min(1.0, 2 * rarer / static_cast<double>(t_.size() + 1));
}

std::vector<HolmDecision> Holm(std::span<const double> p_values, double alpha) {
  const size_t count = p_values.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<HolmDecision> decisions(count);
  double adjusted = 0;
  double level = alpha;
  bool rejecting = true;
  for (size_t k = 0; k < count; ++k) {
    HolmDecision& decision = decisions[order[k]];
    const double hypotheses = static_cast<double>(count - k);
    adjusted = std::max(adjusted, std::min(1.0, hypotheses * p_values[order[k]]));
    // All hypotheses after the first that stands are tested at the level of that one.
    if (rejecting) level = alpha / hypotheses;
    rejecting = rejecting && p_values[order[k]] <= level * (1 + kRounding);
    decision = {adjusted, level, rejecting};
  }
  return decisions;
}

double NormalQuantile(double p) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double PromptsToFind(double deviation, double effect, double tail, double power) {
  const double z = NormalQuantile(1 - tail);
  const double sum = z + NormalQuantile(power);
  return std::ceil(sum * sum * (deviation / effect) * (deviation / effect) + z * z / 2);
}

double DeviationLimit(double deviation, size_t count) {
  // Wilson and Hilferty's approximation of the quantile of chi-squared.
  const double freedom = static_cast<double>(count - 1);
  const double variance = 2 / (9 * freedom);
  const double root = 1 - variance + NormalQuantile(1 - kPower) * std::sqrt(variance);
  return deviation / std::pow(root, 1.5);
}

}  // namespace longstream::client
