// Averages tokens, and takes logarithms of times.
#include "client/compare/prompt_values.h"

#include <cmath>
#include <limits>

#include "client/compare/not_finite.h"
#include "client/statistics.h"

namespace longstream::client {
namespace {

constexpr PromptValue kNone = {kNaN, kNaN, kNaN};

PromptValue Finite(const PromptValue& value) {
  return std::isfinite(value.difference) ? value : kNone;
}

PromptValue Difference(double baseline, double other) {
  return Finite({other - baseline, baseline, other});
}

// Only positive values have a ratio.
PromptValue LogRatio(double baseline, double other) {
  if (!(baseline > 0) || !(other > 0)) return kNone;
  return Finite({std::log(other / baseline), baseline, other});
}

// Returns the mean of value(token) over the tokens of a pair.
template <typename Value>
PromptValue PairMean(const std::vector<PairToken>& tokens, const Value& value) {
  double sum = 0;
  for (const PairToken& token : tokens) sum += value(token);
  return Finite({sum / static_cast<double>(tokens.size()), kNaN, kNaN});
}

// Returns the means of value(token) over the first `count` tokens of both arms.
template <typename Value>
PromptValue ArmMeans(const ArmRun& baseline, const ArmRun& other, size_t count,
                     const Value& value) {
  if (baseline.tokens.size() < count || other.tokens.size() < count) return kNone;
  double sums[2] = {0, 0};
  for (size_t i = 0; i < count; ++i) {
    sums[0] += value(baseline.tokens[i]);
    sums[1] += value(other.tokens[i]);
  }
  const double n = static_cast<double>(count);
  return Difference(sums[0] / n, sums[1] / n);
}

PromptValue TokenValue(const Comparison& comparison, const PromptRun& prompt, size_t other,
                       Metric metric) {
  if (!SameTokenizer(comparison, other) || prompt.pairs.size() < other) return kNone;
  const std::vector<PairToken>& pair = prompt.pairs[other - 1];
  if (pair.empty()) return kNone;
  switch (metric) {
    case Metric::kKl:
      return PairMean(pair, [](const PairToken& token) { return token.kl; });
    case Metric::kDisagreement:
      return PairMean(pair, [](const PairToken& token) { return token.agrees ? 0.0 : 1.0; });
    case Metric::kDeltaP:
      return PairMean(pair, [](const PairToken& token) { return token.delta_p; });
    default:
      break;
  }
  if (!comparison.teacher_forced) return kNone;
  const auto value = [&](const TokenScore& token) {
    return metric == Metric::kLogProb ? token.log_prob : token.top1 ? 1.0 : 0.0;
  };
  return ArmMeans(prompt.arms[0], prompt.arms[other], pair.size(), value);
}

}  // namespace

bool BothRan(const PromptRun& prompt, size_t other) {
  return prompt.arms.size() > other && prompt.arms[0].error.empty() &&
         prompt.arms[other].error.empty();
}

bool SameTokenizer(const Comparison& comparison, size_t other) {
  return comparison.arms[0].tokenizer == comparison.arms[other].tokenizer;
}

PromptValue ValueOf(const Comparison& comparison, const PromptRun& prompt, size_t other,
                    Metric metric) {
  if (!BothRan(prompt, other)) return kNone;
  const ArmRun& baseline = prompt.arms[0];
  const ArmRun& arm = prompt.arms[other];
  switch (metric) {
    case Metric::kBitsPerByte:
      if (SameTokenizer(comparison, other) || !comparison.teacher_forced) return kNone;
      return Difference(baseline.bits_per_byte, arm.bits_per_byte);
    case Metric::kTtft:
      return LogRatio(baseline.ttft_seconds, arm.ttft_seconds);
    case Metric::kItl:
      return LogRatio(Percentile(baseline.itl_seconds, 0.5), Percentile(arm.itl_seconds, 0.5));
    case Metric::kBytes:
      return LogRatio(static_cast<double>(baseline.bytes.total()),
                      static_cast<double>(arm.bytes.total()));
    default:
      return TokenValue(comparison, prompt, other, metric);
  }
}

}  // namespace longstream::client
