// Collects the values of the prompts, runs the bootstrap, applies Holm's correction.
#include "client/compare/metric_results.h"

#include <algorithm>
#include <cmath>

#include "client/compare/prompt_values.h"

namespace longstream::client {
namespace {

// Two one-sided tests of 5 % each.
constexpr double kEqualityAlpha = 0.1;

struct Values {
  std::vector<double> differences;
  double baseline_sum = 0;
  double other_sum = 0;
};

Values Collect(const Comparison& comparison, size_t other, Metric metric) {
  Values values;
  for (const PromptRun& prompt : comparison.prompts) {
    const PromptValue value = ValueOf(comparison, prompt, other, metric);
    if (std::isnan(value.difference)) continue;
    values.differences.push_back(value.difference);
    values.baseline_sum += value.baseline;
    values.other_sum += value.other;
  }
  return values;
}

Interval Clipped(const Interval& interval, const MetricInfo& info) {
  return {std::clamp(interval.low, info.low, info.high),
          std::clamp(interval.high, info.low, info.high)};
}

uint64_t SeedOf(const Comparison& comparison, size_t other, Metric metric) {
  return comparison.plan.seed + 0x10001 * (kMetrics * other + static_cast<size_t>(metric));
}

}  // namespace

bool Interim(const Comparison& comparison) {
  return comparison.plan.extended || comparison.prompts.size() != comparison.plan.prompts;
}

Outcome OutcomeOf(const MetricResult& result) {
  const int better = Info(result.metric).better;
  if (result.decision.verdict != Verdict::kDifferent || better == 0) return Outcome::kNeutral;
  return (result.mean > 0) == (better > 0) ? Outcome::kBetter : Outcome::kWorse;
}

std::vector<MetricResult> CompareMetrics(const Comparison& comparison, size_t other) {
  std::vector<MetricResult> results;
  std::vector<StudentisedBootstrap> bootstraps;
  std::vector<double> p_values;
  for (const Metric metric : kAllMetrics) {
    const Values values = Collect(comparison, other, metric);
    if (values.differences.empty()) continue;
    const StudentisedBootstrap& bootstrap = bootstraps.emplace_back(
        values.differences, SeedOf(comparison, other, metric), comparison.plan.resamples);
    const double count = static_cast<double>(values.differences.size());
    MetricResult& result = results.emplace_back();
    result.metric = metric;
    result.prompts = values.differences.size();
    result.baseline = values.baseline_sum / count;
    result.other = values.other_sum / count;
    result.mean = bootstrap.mean();
    result.deviation = bootstrap.deviation();
    result.effect = bootstrap.standardised_effect();
    result.equality = Clipped(bootstrap.Confidence(kEqualityAlpha), Info(metric));
    result.minimum_effect = comparison.plan.minimum_effects[static_cast<size_t>(metric)];
    if (!Info(metric).distance) {
      p_values.push_back(bootstrap.PValue(0));
    } else {
      const bool above = result.mean > result.minimum_effect;
      p_values.push_back(above ? bootstrap.PValue(result.minimum_effect) : 1);
    }
  }
  const double alpha = comparison.plan.alpha;
  const std::vector<HolmDecision> holm = Holm(p_values, alpha);
  for (size_t i = 0; i < results.size(); ++i) {
    MetricResult& result = results[i];
    const MetricInfo& info = Info(result.metric);
    result.p = holm[i].p;
    result.interval = Clipped(bootstraps[i].Confidence(holm[i].alpha), info);
    result.decision = Decide({Interim(comparison), info.distance, result.minimum_effect,
                              result.prompts, result.mean, result.deviation, result.equality,
                              holm[i].rejected, alpha / static_cast<double>(results.size())});
  }
  return results;
}

}  // namespace longstream::client
