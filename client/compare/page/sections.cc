// Fills charts and tables with the values of an analysis.
#include "client/compare/page/sections.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "client/compare/page/chart.h"
#include "client/compare/page/html_text.h"
#include "client/compare/page/table.h"
#include "client/compare/wording.h"
#include "client/statistics.h"

namespace longstream::client {
namespace {

// A distribution is drawn with at most this many steps.
constexpr size_t kMostSteps = 200;

std::string Whole(double value) { return std::to_string(std::llround(value)); }
std::string Short(double value) { return Trimmed(Significant(value, 2)); }
std::string Percent(double value) { return Trimmed(Significant(100 * value, 3)) + " %"; }

std::string TokensText(double tokens) {
  if (tokens < 1024) return Whole(tokens);
  return tokens < 1048576 ? Short(tokens / 1024) + "K" : Short(tokens / 1048576) + "M";
}

std::string Details(const std::string& summary, const std::string& content) {
  return "<details><summary>" + Escaped(summary) + "</summary>\n" + content + "</details>\n";
}

const std::string& Name(const Comparison& comparison, size_t arm) {
  return comparison.arms[arm].name;
}

std::string Against(const Comparison& comparison, const PairAnalysis& pair) {
  return Name(comparison, pair.other) + " against " + Name(comparison, 0);
}

std::string PositionTable(const Comparison& comparison, const PairAnalysis& pair) {
  PageTable table(Against(comparison, pair) + ", by token",
                  {"token", "KL, nats", "agreement, %", "prompts"});
  for (const PositionRow& row : pair.positions) {
    table.Add({{RangeText(row.first + 1, row.last + 1)},
               {Significant(row.kl.mean, 3), IntervalText(MetricUnit::kNats, row.kl.interval)},
               {Significant(100 * row.agreement.mean, 3),
                IntervalText(MetricUnit::kPercent, row.agreement.interval)},
               {std::to_string(row.prompts)}});
  }
  return table.Html();
}

// The steps of the empirical distribution of ascending values: (x, part of the values <= x).
std::vector<ChartPoint> Distribution(const std::vector<double>& values) {
  std::vector<ChartPoint> points;
  if (values.empty()) return points;
  points.push_back({values.front(), 0, 0, 0});
  const size_t steps = std::min(values.size(), kMostSteps);
  for (size_t step = 1; step <= steps; ++step) {
    const size_t rank = step * values.size() / steps;
    const double part = static_cast<double>(rank) / static_cast<double>(values.size());
    points.push_back({values[rank - 1], part, part, part});
  }
  return points;
}

std::string LatencyChart(const Comparison& comparison, const Analysis& analysis,
                         const std::string& title, std::vector<double> ArmAnalysis::*seconds) {
  Chart chart;
  chart.title = title;
  chart.summary = title + ": the part of the values that are at most as long, for each arm";
  chart.x = {"seconds, logarithmic", AxisScale::kLog10,
             [](double tick) { return Trimmed(SecondsText(tick)); }};
  chart.y = {"", AxisScale::kPercent, Percent};
  chart.steps = true;
  for (size_t arm = 0; arm < analysis.arms.size(); ++arm) {
    chart.series.push_back({Name(comparison, arm), arm, Distribution(analysis.arms[arm].*seconds)});
  }
  return ChartFigure(chart);
}

}  // namespace

std::string PositionSection(const Comparison& comparison, const Analysis& analysis) {
  Chart kl;
  kl.title = "KL divergence, nats";
  kl.summary = "KL divergence by position of the token, with 95 % intervals";
  kl.x = {"token of the answer, logarithmic", AxisScale::kLog2, TokensText};
  kl.y = {"", AxisScale::kLinear, Short};
  Chart agreement = kl;
  agreement.title = "Top-1 agreement";
  agreement.summary = "Top-1 agreement by position of the token, with 95 % intervals";
  agreement.y = {"", AxisScale::kPercent, Percent};
  std::string tables;
  for (const PairAnalysis& pair : analysis.pairs) {
    if (pair.positions.empty()) continue;
    ChartSeries kls{Name(comparison, pair.other), pair.other, {}};
    ChartSeries agreements = kls;
    for (const PositionRow& row : pair.positions) {
      const double x =
          std::sqrt(static_cast<double>(row.first + 1) * static_cast<double>(row.last + 1));
      const MeanInterval& k = row.kl;
      const MeanInterval& a = row.agreement;
      kls.points.push_back({x, k.mean, k.interval.low, k.interval.high});
      agreements.points.push_back({x, a.mean, a.interval.low, a.interval.high});
    }
    kl.series.push_back(std::move(kls));
    agreement.series.push_back(std::move(agreements));
    tables += PositionTable(comparison, pair);
  }
  if (tables.empty()) return "";
  return "<h2>By position</h2>\n<p class=\"note\">Each arm against " +
         Escaped(Name(comparison, 0)) +
         ". Bands are 95 % intervals of one position each; they are not adjusted for the number of "
         "positions.</p>\n<div class=\"charts\">\n" +
         ChartFigure(kl) + ChartFigure(agreement) + "</div>\n" + Details("The values", tables);
}

std::string LengthSection(const Comparison& comparison, const Analysis& analysis) {
  std::string html;
  for (const PairAnalysis& pair : analysis.pairs) {
    if (pair.lengths.empty()) continue;
    PageTable table(
        Against(comparison, pair) + ", by length of the prompt",
        {"tokens", "prompts", "bits per byte", "KL, nats", "agreement", "TTFT", "ITL", "bytes"});
    const auto times = [](double ratio) {
      return std::isnan(ratio) ? "–" : Significant(ratio, 3) + "×";
    };
    for (const LengthRow& row : pair.lengths) {
      const MeanInterval& bits = row.bits_per_byte;
      table.Add({{RangeText(row.shortest, row.longest)},
                 {std::to_string(row.prompts)},
                 {std::isnan(bits.mean) ? "–" : DifferenceText(MetricUnit::kBits, bits.mean),
                  std::isnan(bits.mean) ? "" : IntervalText(MetricUnit::kBits, bits.interval)},
                 {Significant(row.kl, 3)},
                 {ValueText(MetricUnit::kPercent, row.agreement)},
                 {times(row.ttft_ratio)},
                 {times(row.itl_ratio)},
                 {times(row.bytes_ratio)}});
    }
    html += table.Html();
  }
  if (html.empty()) return "";
  return "<h2>By length of the prompt</h2>\n<p class=\"note\">Bits per byte are other − baseline: "
         "with fewer bits the arm predicts the text better. Their 95 % intervals hold for all "
         "lengths "
         "of a pair at once. TTFT, ITL and bytes are ratios.</p>\n" +
         html;
}

std::string LatencySection(const Comparison& comparison, const Analysis& analysis) {
  PageTable table(
      "Latencies of all prompts and tokens",
      {"arm", "TTFT p50", "p90", "p99", "ITL p50", "p90", "p99", "reused tokens", "recomputed"});
  for (size_t arm = 0; arm < analysis.arms.size(); ++arm) {
    const ArmAnalysis& of = analysis.arms[arm];
    const Summary ttft = Summarize(of.ttft_seconds);
    const Summary itl = Summarize(of.itl_seconds);
    std::vector<PageTable::Cell> cells = {{Name(comparison, arm)}};
    for (const double seconds : {ttft.p50, ttft.p90, ttft.p99, itl.p50, itl.p90, itl.p99}) {
      cells.push_back({std::isnan(seconds) ? "–" : SecondsText(seconds)});
    }
    cells.push_back({std::to_string(of.reused_tokens)});
    cells.push_back({std::to_string(of.recomputed_tokens)});
    table.Add(cells);
  }
  return "<h2>Latency</h2>\n<p class=\"note\">" +
         (comparison.latency.empty() ? "" : "Latencies: " + Escaped(comparison.latency) + ". ") +
         "Curves show the part of the values that are at most as long.</p>\n"
         "<div class=\"charts\">\n" +
         LatencyChart(comparison, analysis, "Time to first token", &ArmAnalysis::ttft_seconds) +
         LatencyChart(comparison, analysis, "Latency between tokens", &ArmAnalysis::itl_seconds) +
         "</div>\n" + table.Html();
}

std::string MemorySection(const Comparison& comparison, const Analysis& analysis) {
  Chart chart;
  chart.title = "Bytes of a session";
  chart.summary = "Bytes of a session by its length in tokens, for each arm";
  chart.x = {"tokens of the session, logarithmic", AxisScale::kLog2, TokensText};
  chart.y = {"", AxisScale::kLog2, [](double tick) { return Trimmed(BytesText(tick)); }};
  PageTable table("Bytes of a session, means over prompts",
                  {"arm", "tokens", "KV pages", "window", "state", "all", "per token", "prompts"});
  for (size_t arm = 0; arm < analysis.arms.size(); ++arm) {
    ChartSeries series{Name(comparison, arm), arm, {}};
    for (const MemoryRow& row : analysis.arms[arm].memory) {
      series.points.push_back({row.tokens, row.total(), row.total(), row.total()});
      table.Add({{Name(comparison, arm)},
                 {Whole(row.tokens)},
                 {BytesText(row.kv)},
                 {BytesText(row.window)},
                 {BytesText(row.state)},
                 {BytesText(row.total())},
                 {BytesText(row.total() / row.tokens)},
                 {std::to_string(row.prompts)}});
    }
    chart.series.push_back(std::move(series));
  }
  return "<h2>Bytes of a session</h2>\n" + ChartFigure(chart) + table.Html();
}

}  // namespace longstream::client
