// The table of metrics.
#include "client/compare/metric.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "client/compare/not_finite.h"

namespace longstream::client {
namespace {

// 0.04879 is ln 1.05: 5 % more time or memory.
constexpr std::array<MetricInfo, kMetrics> kInfos = {{
    {"kl", "KL divergence", MetricUnit::kNats, true, true, 0, 0.01, 0, kInfinity},
    {"top1_disagreement", "Top-1 disagreement", MetricUnit::kPercent, true, true, 0, 0.02, 0, 1},
    {"log_prob", "Log-probability", MetricUnit::kNats, false, true, 1, 0.01, -kInfinity, kInfinity},
    {"delta_p", "Token probability", MetricUnit::kPercent, false, true, 1, 0.01, -1, 1},
    {"top1_accuracy", "Top-1 accuracy", MetricUnit::kPercent, false, true, 1, 0.01, -1, 1},
    {"bits_per_byte", "Bits per byte", MetricUnit::kBits, false, true, -1, 0.01, -kInfinity,
     kInfinity},
    {"ttft", "Time to first token", MetricUnit::kRatio, false, false, -1, 0.04879016416943205,
     -kInfinity, kInfinity},
    {"itl", "Inter-token latency", MetricUnit::kRatio, false, false, -1, 0.04879016416943205,
     -kInfinity, kInfinity},
    {"bytes", "Bytes of a session", MetricUnit::kRatio, false, false, -1, 0.04879016416943205,
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

std::string SetMinimumEffect(std::string_view text, MinimumEffects* effects) {
  const size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  const auto metric = std::find_if(kAllMetrics.begin(), kAllMetrics.end(),
                                   [&](Metric each) { return Info(each).key == key; });
  if (equals == std::string_view::npos || metric == kAllMetrics.end()) {
    std::string keys;
    for (const MetricInfo& info : kInfos)
      keys += (keys.empty() ? "" : ", ") + std::string(info.key);
    return std::string(text) + " is not METRIC=VALUE with one of the metrics " + keys;
  }
  const std::string number(text.substr(equals + 1));
  char* end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  const bool is_ratio = Info(*metric).unit == MetricUnit::kRatio;
  if (is_ratio) value = std::log(value);
  const bool whole = !number.empty() && end == number.c_str() + number.size();
  if (!whole || !std::isfinite(value) || value <= 0 || value > Info(*metric).high) {
    return std::string(text) + ": " + number + " is not a number greater than " +
           (is_ratio ? "1" : "0") + (Info(*metric).high == 1 ? " and at most 1" : "");
  }
  (*effects)[static_cast<size_t>(*metric)] = value;
  return "";
}

}  // namespace longstream::client
