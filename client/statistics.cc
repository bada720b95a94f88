// Computes percentiles.
#include "client/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace longstream::client {

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double rank = p * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (rank - std::floor(rank)) * (values[above] - values[below]);
}

Summary Summarize(const std::vector<double>& values) {
  return {Percentile(values, 0.5), Percentile(values, 0.9), Percentile(values, 0.99),
          Percentile(values, 1.0)};
}

}  // namespace longstream::client
