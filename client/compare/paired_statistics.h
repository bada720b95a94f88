// Statistics of paired differences, with one value per prompt.
//
// Tokens of one prompt depend on each other, so a prompt is the unit that is drawn (a cluster). The
// tokens of a prompt are averaged first; the mean over prompts is the estimate.
//
// The bootstrap is studentised ("bootstrap-t", Efron and Tibshirani, An Introduction to the
// Bootstrap, 1993, section 12.5). A percentile interval is too short at 20 prompts; this one is
// not.
#ifndef LONGSTREAM_CLIENT_COMPARE_PAIRED_STATISTICS_H_
#define LONGSTREAM_CLIENT_COMPARE_PAIRED_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longstream::client {

struct Interval {
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
  // Whether all of this interval lies between `least` and `most`.
  bool Within(double least, double most) const { return least <= low && high <= most; }
};

// The mean of some values, and how far it may be from the mean of all prompts.
//
// With x_1 ... x_n, their mean m, standard deviation s (divisor n - 1) and se = s / sqrt(n), each
// resample of n values with replacement gives
//     t* = (m* - m) / se*.
// With q(a) the a-quantile of all t*, the interval of level 1 - alpha is
//     [m - q(1 - alpha / 2) se, m - q(alpha / 2) se],
// and the p-value of the hypothesis "the mean is h" is the alpha at which the interval just
// excludes h. If a resample has no spread, t* is 0 (m* = m), or infinite with the sign of m* - m.
// An interval may therefore be unbounded where few prompts differ.
//
// The same values, seed and number of resamples give the same result.
class StudentisedBootstrap {
 public:
  // REQUIRES: all values are finite, resamples > 0.
  StudentisedBootstrap(std::span<const double> values, uint64_t seed, uint32_t resamples);

  size_t count() const { return count_; }
  double mean() const { return mean_; }            // NaN without values
  double deviation() const { return deviation_; }  // s; NaN with fewer than two values
  double standard_error() const;                   // se
  double standardised_effect() const;              // m / s; NaN if both are 0

  // The interval of level 1 - alpha with equal tails. Unbounded with fewer than two values, or if
  // there are fewer than 2 / alpha resamples.
  Interval Confidence(double alpha) const;

  // The two-sided p-value of the hypothesis that the mean is `hypothesis`, at least
  // 2 / (resamples + 1). For any alpha: PValue(h) <= alpha exactly if Confidence(alpha) excludes h.
  // 1 with fewer than two values.
  double PValue(double hypothesis) const;

 private:
  void Resample(std::span<const double> centred, uint64_t seed, uint32_t resamples);

  size_t count_ = 0;
  double mean_;
  double deviation_;
  std::vector<double> t_;  // t* of all resamples, ascending; empty with fewer than two values
};

// Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979): the chance that any
// true hypothesis is rejected is at most alpha.
struct HolmDecision {
  double p = 1;      // adjusted: compare it with alpha itself
  double alpha = 0;  // the level at which this hypothesis was tested
  bool rejected = false;
};
std::vector<HolmDecision> Holm(std::span<const double> p_values, double alpha);

// The quantile of the standard normal distribution. REQUIRES: 0 < p < 1.
double NormalQuantile(double p);

// The chance that a planned test finds the effect that it is planned for.
inline constexpr double kPower = 0.8;

// The number of prompts at which a test with the chance `tail` of error on the side of interest
// finds the distance `effect` with probability `power`:
//     n = (z(1 - tail) + z(power))^2 (sd / effect)^2 + z(1 - tail)^2 / 2,
// where the last term stands for Student's distribution (Guenther, The American Statistician 35,
// 1981). REQUIRES: effect > 0.
double PromptsToFind(double deviation, double effect, double tail, double power = kPower);

// The upper limit, with confidence kPower, of the standard deviation of which `deviation` is an
// estimate from `count` values. A plan made with the estimate itself has too few prompts in half of
// all cases (Browne, Statistics in Medicine 14, 1995). REQUIRES: count >= 2.
double DeviationLimit(double deviation, size_t count);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_PAIRED_STATISTICS_H_
