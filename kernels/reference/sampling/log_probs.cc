// Reference log-probabilities (kernels/ops/sampling/log_probs.h).
#include "kernels/ops/sampling/log_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// log(sum(exp(z))); NaN if a logit is NaN or +inf, or if all are -inf.
double LogSumExp(const std::vector<double>& z) {
  double largest = -kInfinity;
  for (double logit : z) {
    if (std::isnan(logit)) return kNaN;
    largest = std::max(largest, logit);
  }
  if (std::isinf(largest)) return kNaN;
  double sum = 0;
  for (double logit : z) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

void LogProbs(Stream& stream, const LogProbsArgs& args) {
  if (!stream.ok()) return;
  for (int32_t i = 0; i < args.num_rows; ++i) {
    const LogProbsRow& row = args.rows[i];
    const float* logits = args.logits.f32_row(row.row);
    const std::vector<double> z(logits, logits + args.logits.cols);
    const double log_sum = LogSumExp(z);
    const int32_t target = row.sampled != nullptr ? *row.sampled : row.target;
    args.log_probs[i] =
        static_cast<float>(target < 0 ? kNaN : z[static_cast<size_t>(target)] - log_sum);

    std::vector<size_t> order(z.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t id) { return std::isnan(log_sum) || z[id] == -kInfinity; });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
    for (int32_t n = 0; n < row.num_top; ++n) {
      TopToken& top = args.top[int64_t{i} * args.top_stride + n];
      const size_t rank = static_cast<size_t>(n);
      if (rank < order.size()) {
        top = {static_cast<int32_t>(order[rank]), static_cast<float>(z[order[rank]] - log_sum)};
      } else {
        top = {-1, static_cast<float>(-kInfinity - log_sum)};
      }
    }
  }
}

}  // namespace longstream::reference
