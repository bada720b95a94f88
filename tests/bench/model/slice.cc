// Text and medians.
#include "tests/bench/model/slice.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace longstream {
namespace {

template <typename Value>
double Median(const std::vector<Slice>& slices, Value value) {
  std::vector<double> values;
  for (const Slice& slice : slices) values.push_back(value(slice));
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double TokensPerSecond(const Slice& slice) { return slice.tokens_per_second(); }

}  // namespace

SliceKind ParseSlice(const std::string& line) {
  std::istringstream words(line);
  std::string op, rest;
  SliceKind kind;
  words >> op >> kind.depth >> kind.tokens;
  if (words.fail() || words >> rest || (op != "decode" && op != "prefill") || kind.depth < 0 ||
      kind.tokens < 1 || kind.tokens > kMaxSliceTokens) {
    throw std::invalid_argument(
        "expected \"decode DEPTH TOKENS\" or \"prefill DEPTH TOKENS\" with at most " +
        std::to_string(kMaxSliceTokens) + " tokens, found \"" + line + "\"");
  }
  kind.op = op == "decode" ? SliceKind::Op::kDecode : SliceKind::Op::kPrefill;
  return kind;
}

std::string ToString(const SliceKind& kind) {
  return (kind.op == SliceKind::Op::kDecode ? "decode " : "prefill ") + std::to_string(kind.depth) +
         " " + std::to_string(kind.tokens);
}

std::string ToJson(const SliceKind& kind, const Slice& slice) {
  nlohmann::ordered_json json;
  json["slice"] = ToString(kind);
  json["tokens"] = slice.tokens;
  json["seconds"] = slice.seconds;
  json["bytes"] = slice.bytes;
  json["probes_gbps"] = {slice.probes[0] / 1e9, slice.probes[1] / 1e9};
  json["op_seconds"] = nlohmann::ordered_json::object();
  for (const auto& [op, seconds] : slice.op_seconds) json["op_seconds"][op] = seconds;
  return json.dump();
}

SliceSummary Summarise(const std::vector<Slice>& slices) {
  SliceSummary summary;
  summary.tokens_per_second = Median(slices, TokensPerSecond);
  const auto [least, most] = std::minmax_element(
      slices.begin(), slices.end(),
      [](const Slice& a, const Slice& b) { return a.tokens_per_second() < b.tokens_per_second(); });
  summary.least = least->tokens_per_second();
  summary.most = most->tokens_per_second();
  summary.probe = Median(slices, [](const Slice& slice) { return slice.probe(); });
  summary.bytes_per_token = Median(
      slices, [](const Slice& slice) { return slice.bytes / static_cast<double>(slice.tokens); });
  summary.fraction = Median(
      slices, [](const Slice& slice) { return slice.bytes / slice.seconds / slice.probe(); });
  std::vector<Slice> fast;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(fast), [](const Slice& slice) {
    return std::min(slice.probes[0], slice.probes[1]) >= kFastProbe;
  });
  summary.num_fast = static_cast<int>(fast.size());
  if (!fast.empty()) summary.fast_tokens_per_second = Median(fast, TokensPerSecond);
  return summary;
}

std::string SummaryHeader() {
  return "slice                 tokens/s     least      most  probe GB/s  MB/token  of probe  "
         ">= 45 GB/s";
}

std::string SummaryLine(const SliceKind& kind, const std::vector<Slice>& slices) {
  const SliceSummary summary = Summarise(slices);
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), "%-20s %9.2f %9.2f %9.2f  %10.1f", ToString(kind).c_str(),
                summary.tokens_per_second, summary.least, summary.most, summary.probe / 1e9);
  std::string line = text.data();
  if (summary.bytes_per_token > 0) {
    std::snprintf(text.data(), text.size(), "  %8.1f  %6.0f %%", summary.bytes_per_token / 1e6,
                  100 * summary.fraction);
  } else {
    std::snprintf(text.data(), text.size(), "  %8s  %8s", "-", "-");
  }
  line += text.data();
  if (summary.num_fast > 0) {
    std::snprintf(text.data(), text.size(), "  %.2f (%d of %zu)", summary.fast_tokens_per_second,
                  summary.num_fast, slices.size());
  } else {
    std::snprintf(text.data(), text.size(), "  none of %zu", slices.size());
  }
  return line + text.data();
}

std::string OpLine(const std::vector<Slice>& slices) {
  double total = 0;
  std::map<std::string, double> sums;
  for (const Slice& slice : slices) {
    total += slice.seconds;
    sums["other"] += slice.seconds;
    for (const auto& [op, seconds] : slice.op_seconds) {
      sums[op] += seconds;
      sums["other"] -= seconds;
    }
  }
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [op, seconds] : sums) parts.emplace_back(seconds / total, op);
  std::sort(parts.rbegin(), parts.rend());
  std::string line = " ";
  for (const auto& [part, op] : parts) {
    std::array<char, 80> text;
    std::snprintf(text.data(), text.size(), " %s %.1f %%,", op.c_str(), 100 * part);
    line += text.data();
  }
  line.pop_back();
  return line;
}

}  // namespace longstream
