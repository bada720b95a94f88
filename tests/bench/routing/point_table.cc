// Compares measured values with budgets.
#include "tests/bench/routing/point_table.h"

#include <algorithm>
#include <vector>

namespace longstream {
namespace {

// The largest quotient of a measured value and its budget.
double Excess(const ArmTimes& arm, const RouteBudgets& budgets) {
  double excess = 0.0;
  if (const auto& most = budgets.time_to_first_token) {
    excess = std::max(excess, arm.first_token / absl::ToDoubleSeconds(*most));
  }
  if (const auto& most = budgets.time_per_token) {
    excess = std::max(excess, arm.per_token / absl::ToDoubleSeconds(*most));
  }
  if (budgets.session_bytes > 0) {
    excess = std::max(excess, static_cast<double>(arm.session_bytes) /
                                  static_cast<double>(budgets.session_bytes));
  }
  return excess;
}

}  // namespace

Verdict Judge(std::span<const ArmTimes> arms, const RouteBudgets& budgets, uint64_t tokens,
              size_t chosen) {
  std::vector<double> values;  // the least one is the best
  for (const ArmTimes& arm : arms) {
    values.push_back(budgets.any() ? Excess(arm, budgets)
                                   : arm.first_token + arm.per_token * static_cast<double>(tokens));
  }
  const auto least =
      static_cast<size_t>(std::min_element(values.begin(), values.end()) - values.begin());
  const auto fits = std::find_if(values.begin(), values.end(), [](double v) { return v <= 1.0; });
  if (!budgets.any() || fits == values.end()) return {least, values[chosen] / values[least]};
  const auto first = static_cast<size_t>(fits - values.begin());
  if (chosen == first) return {first, 1.0};
  // An arm before the right one exceeds its budget. One behind it was chosen although the right one
  // fits.
  return {first, chosen < first ? values[chosen] : std::max(1.0 / values[first], values[chosen])};
}

}  // namespace longstream
