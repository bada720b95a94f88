// Composes lines of text.
#include "client/compare/report_text.h"

#include <algorithm>
#include <vector>

#include "client/compare/wording.h"

namespace longstream::client {
namespace {

using Line = std::vector<std::string>;

// The number of characters, which a terminal shows in as many columns here.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

// Pads all columns but the last one to their widest text.
std::string Aligned(const std::vector<Line>& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  std::string text;
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      text += i + 1 < line.size() ? std::string(widths[i] - Width(line[i]) + 2, ' ') : "\n";
    }
  }
  return text;
}

std::string VerdictTable(const Comparison& comparison, const PairAnalysis& pair) {
  std::vector<Line> lines = {
      {comparison.arms[pair.other].name + " against " + comparison.arms[0].name, "verdict",
       "difference", "interval", "δ", "prompts"}};
  for (const MetricResult& result : pair.metrics) {
    const MetricInfo& info = Info(result.metric);
    lines.push_back(
        {std::string(info.title), DecisionText(result),
         info.distance ? ValueText(info.unit, result.mean) : DifferenceText(info.unit, result.mean),
         IntervalText(info.unit, result.interval),
         Trimmed(ValueText(info.unit, result.minimum_effect)), std::to_string(result.prompts)});
  }
  return Aligned(lines);
}

}  // namespace

std::string ComparisonText(const Comparison& comparison, const Analysis& analysis) {
  std::string text;
  for (const PairAnalysis& pair : analysis.pairs) text += PairSentence(comparison, pair) + "\n";
  for (const PairAnalysis& pair : analysis.pairs) text += "\n" + VerdictTable(comparison, pair);
  return text;
}

}  // namespace longstream::client
