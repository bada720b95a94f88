// Sums over the vocabulary.
#include "service/compare/distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace longstream {
namespace {

// A sum that keeps what each addition rounds away (Neumaier).
class CompensatedSum {
 public:
  void Add(double term) {
    const double next = sum_ + term;
    lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  // An infinite sum has lost NaN.
  double value() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

}  // namespace

double LogSumExp(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  CompensatedSum sum;
  for (const float logit : logits) sum.Add(std::exp(logit - most));
  return most + std::log(sum.value());
}

int32_t BestToken(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

uint32_t RankOf(std::span<const float> logits, int32_t token) {
  const float own = logits[static_cast<size_t>(token)];
  return 1 + static_cast<uint32_t>(std::count_if(logits.begin(), logits.end(),
                                                 [own](float logit) { return logit > own; }));
}

double KlDivergence(std::span<const float> p, double log_sum_p, std::span<const float> q,
                    double log_sum_q) {
  CompensatedSum sum;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - log_sum_p;
    const double probability = std::exp(log_p);
    if (probability > 0) sum.Add(probability * (log_p - (q[i] - log_sum_q)));
  }
  const double value = sum.value();
  return value < 0 ? 0 : value;  // NaN stays NaN
}

}  // namespace longstream
