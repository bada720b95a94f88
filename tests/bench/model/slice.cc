// Writes slices as text and computes medians over slices.
#include "tests/bench/model/slice.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/bench/timing.h"

namespace longstream {
namespace {

template <typename Value>
double MedianOf(const std::vector<Slice>& slices, Value value) {
  std::vector<double> values;
  for (const Slice& slice : slices) values.push_back(value(slice));
  return Median(std::move(values));
}

// A slice was taken in the machine's fast mode if the probes before and after it reach this many
// bytes per second.
constexpr double kFastProbe = 45e9;

// Returns the text that printf prints.
template <typename... Values>
std::string Text(const char* format, Values... values) {
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
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

std::string SummaryHeader() {
  return "slice                 tokens/s     least      most  probe GB/s  MB/token  of probe  "
         ">= 45 GB/s";
}

std::string SummaryLine(const SliceKind& kind, const std::vector<Slice>& slices) {
  const auto [least, most] = std::minmax_element(
      slices.begin(), slices.end(),
      [](const Slice& a, const Slice& b) { return a.tokens_per_second() < b.tokens_per_second(); });
  std::string line =
      Text("%-20s %9.2f %9.2f %9.2f  %10.1f", ToString(kind).c_str(),
           MedianOf(slices, TokensPerSecond), least->tokens_per_second(), most->tokens_per_second(),
           MedianOf(slices, [](const Slice& slice) { return slice.probe(); }) / 1e9);
  const double bytes_per_token = MedianOf(
      slices, [](const Slice& slice) { return slice.bytes / static_cast<double>(slice.tokens); });
  if (bytes_per_token > 0) {
    const double fraction = MedianOf(
        slices, [](const Slice& slice) { return slice.bytes / slice.seconds / slice.probe(); });
    line += Text("  %8.1f  %6.0f %%", bytes_per_token / 1e6, 100 * fraction);
  } else {
    line += Text("  %8s  %8s", "-", "-");
  }
  std::vector<Slice> fast;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(fast), [](const Slice& slice) {
    return std::min(slice.probes[0], slice.probes[1]) >= kFastProbe;
  });
  if (fast.empty()) return line + Text("  none of %zu", slices.size());
  return line +
         Text("  %.2f (%zu of %zu)", MedianOf(fast, TokensPerSecond), fast.size(), slices.size());
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
  for (const auto& [part, op] : parts) line += Text(" %s %.1f %%,", op.c_str(), 100 * part);
  line.pop_back();
  return line;
}

}  // namespace longstream
