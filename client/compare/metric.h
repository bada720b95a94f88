// The metrics that a comparison reports. Each metric has one value per prompt.
#ifndef LONGSTREAM_CLIENT_COMPARE_METRIC_H_
#define LONGSTREAM_CLIENT_COMPARE_METRIC_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace longstream::client {

enum class Metric {
  kKl,
  kDisagreement,
  kLogProb,
  kDeltaP,
  kTop1,
  kBitsPerByte,
  kTtft,
  kItl,
  kBytes,
};
inline constexpr size_t kMetrics = 9;

// How a value is written for people.
enum class MetricUnit {
  kNats,
  kBits,
  kPercent,  // the value is a fraction
  kRatio,    // the value is the natural logarithm of other / baseline
};

struct MetricInfo {
  std::string_view key;    // in JSON
  std::string_view title;  // for people
  MetricUnit unit;
  // A distance is never negative, and is 0 only for equal arms. Its verdicts are *within δ* and
  // *over δ*. Other metrics are differences, other - baseline, and may have both signs.
  bool distance;
  bool quality;           // about the tokens; false: about time and memory
  int better;             // the sign of a difference that is better; 0: neither sign is
  double minimum_effect;  // the default δ, in the unit of the values
  double low;             // no mean is below
  double high;            // no mean is above
};
const MetricInfo& Info(Metric metric);

// All metrics in the order of the report.
inline constexpr std::array<Metric, kMetrics> kAllMetrics = {
    Metric::kKl,          Metric::kDisagreement, Metric::kLogProb, Metric::kDeltaP, Metric::kTop1,
    Metric::kBitsPerByte, Metric::kTtft,         Metric::kItl,     Metric::kBytes};

// δ of each metric; the index is the metric.
using MinimumEffects = std::array<double, kMetrics>;
MinimumEffects DefaultMinimumEffects();

// Sets the δ that `text` states, such as "kl=0.02", "top1_accuracy=0.005" or, for a ratio,
// "itl=1.1". Returns what is wrong with the text, or "".
std::string SetMinimumEffect(std::string_view text, MinimumEffects* effects);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_METRIC_H_
