// Runs comparisons and counts verdicts.
#include "tests/client/compare/error_rates.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "client/compare/metric_results.h"

namespace longstream::client {
namespace {

const MetricResult& ResultOf(const std::vector<MetricResult>& results, Metric metric) {
  return *std::find_if(results.begin(), results.end(),
                       [&](const MetricResult& result) { return result.metric == metric; });
}

double EffectOf(Metric metric, const PlantedEffects& planted) {
  return std::abs(metric == Metric::kLogProb ? planted.log_prob : planted.log_itl);
}

// Compares and returns the result of one metric, whose δ is the planted effect.
MetricResult Compare(size_t prompts, uint32_t resamples, Metric metric, double effect,
                     const PlantedEffects& planted, std::mt19937_64* random) {
  Comparison comparison = NoisyComparison(prompts, resamples, planted, random);
  comparison.plan.minimum_effects[static_cast<size_t>(metric)] = effect;
  return ResultOf(CompareMetrics(comparison, 1), metric);
}

// The number of prompts that the report would name, had it called these prompts too few.
size_t NamedPrompts(const MetricResult& result, size_t metrics) {
  Evidence evidence;
  evidence.minimum_effect = result.minimum_effect;
  evidence.prompts = result.prompts;
  evidence.mean = result.mean;
  evidence.deviation = result.deviation;
  evidence.alpha = ComparisonPlan().alpha / static_cast<double>(metrics);
  return PromptsNeeded(evidence);
}

}  // namespace

double FalseDifferences(const SimulationOptions& options) {
  std::mt19937_64 random(options.seed);
  size_t wrong = 0;
  for (size_t run = 0; run < options.runs; ++run) {
    const Comparison comparison = NoisyComparison(options.prompts, options.resamples, {}, &random);
    const std::vector<MetricResult> results = CompareMetrics(comparison, 1);
    wrong += std::any_of(results.begin(), results.end(), [](const MetricResult& result) {
      return result.p <= ComparisonPlan().alpha && !Info(result.metric).distance;
    });
  }
  return static_cast<double>(wrong) / static_cast<double>(options.runs);
}

double FalseEqualities(const SimulationOptions& options) {
  std::mt19937_64 random(options.seed);
  const PlantedEffects planted = {-0.01, 0};
  size_t wrong = 0;
  for (size_t run = 0; run < options.runs; ++run) {
    const MetricResult result =
        Compare(options.prompts, options.resamples, Metric::kLogProb, 0.01, planted, &random);
    wrong += result.decision.verdict == Verdict::kEqual;
  }
  return static_cast<double>(wrong) / static_cast<double>(options.runs);
}

FoundEffect FoundAtNamedPrompts(const SimulationOptions& options, Metric metric,
                                const PlantedEffects& planted) {
  std::mt19937_64 random(options.seed);
  const double effect = EffectOf(metric, planted);
  FoundEffect found;
  for (size_t run = 0; run < options.runs; ++run) {
    Comparison pilot = NoisyComparison(options.prompts, options.resamples, {}, &random);
    pilot.plan.minimum_effects[static_cast<size_t>(metric)] = effect;
    const std::vector<MetricResult> results = CompareMetrics(pilot, 1);
    const size_t prompts = NamedPrompts(ResultOf(results, metric), results.size());
    const MetricResult result =
        Compare(prompts, options.resamples, metric, effect, planted, &random);
    found.found += result.decision.verdict == Verdict::kDifferent;
    found.mean_prompts += static_cast<double>(prompts);
  }
  found.found /= static_cast<double>(options.runs);
  found.mean_prompts /= static_cast<double>(options.runs);
  return found;
}

FoundEffect FoundAtPrompts(const SimulationOptions& options, Metric metric,
                           const PlantedEffects& planted) {
  std::mt19937_64 random(options.seed);
  FoundEffect found{0, static_cast<double>(options.prompts)};
  for (size_t run = 0; run < options.runs; ++run) {
    const MetricResult result = Compare(options.prompts, options.resamples, metric,
                                        EffectOf(metric, planted), planted, &random);
    found.found += result.decision.verdict == Verdict::kDifferent;
  }
  found.found /= static_cast<double>(options.runs);
  return found;
}

}  // namespace longstream::client
