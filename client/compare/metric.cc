// The table of metrics.
#include "client/compare/metric.h"

#include <cmath>
#include <limits>

namespace longstream::client {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0.04879 is ln 1.05: 5 % more time or memory.
constexpr std::array<MetricInfo, kMetrics> kInfos = {{
    {"kl", "KL divergence", MetricUnit::kNats, true, true, 0.01, 0, kInfinity},
    {"top1_disagreement", "Top-1 disagreement", MetricUnit::kPercent, true, true, 0.02, 0, 1},
    {"log_prob", "Log-probability", MetricUnit::kNats, false, true, 0.01, -kInfinity, kInfinity},
    {"delta_p", "Token probability", MetricUnit::kPercent, false, true, 0.01, -1, 1},
    {"top1_accuracy", "Top-1 accuracy", MetricUnit::kPercent, false, true, 0.01, -1, 1},
    {"bits_per_byte", "Bits per byte", MetricUnit::kBits, false, true, 0.01, -kInfinity, kInfinity},
    {"ttft", "Time to first token", MetricUnit::kRatio, false, false, 0.04879016416943205,
     -kInfinity, kInfinity},
    {"itl", "Inter-token latency", MetricUnit::kRatio, false, false, 0.04879016416943205,
     -kInfinity, kInfinity},
    {"bytes", "Bytes of a session", MetricUnit::kRatio, false, false, 0.04879016416943205,
     -kInfinity, kInfinity},
}};

}  // namespace

const MetricInfo& Info(Metric metric) { return kInfos[static_cast<size_t>(metric)]; }

MinimumEffects DefaultMinimumEffects() {
  MinimumEffects effects;
  for (const Metric metric : kAllMetrics) {
    effects[static_cast<size_t>(metric)] = Info(metric).minimum_effect;
  }
  return effects;
}

}  // namespace longstream::client
