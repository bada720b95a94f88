// Slices, their text forms, and summaries of slices. A slice is a piece of work so short that the
// machine's speed does not change during it. A probe that reads memory before and after the slice
// shows whether the speed changed.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_SLICE_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_SLICE_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace longstream {

// The largest number of tokens that a slice feeds to each of its sequences.
inline constexpr int64_t kMaxSliceTokens = 1024;

// The work of a slice.
struct SliceKind {
  enum class Op { kDecode, kPrefill };
  Op op = Op::kDecode;
  int64_t depth = 0;   // tokens of the context before the slice
  int64_t tokens = 1;  // tokens to feed to each sequence; a decode stops earlier if its time is up

  bool operator==(const SliceKind&) const = default;
};

// The text form of a SliceKind is "decode DEPTH TOKENS" or "prefill DEPTH TOKENS". ParseSlice
// throws std::invalid_argument, which says what was expected.
SliceKind ParseSlice(const std::string& line);
std::string ToString(const SliceKind& kind);

struct Slice {
  int64_t tokens = 0;  // tokens fed to all sequences together
  double seconds = 0;
  double bytes = 0;  // read from memory; 0 if something else limits
  // Bytes per second that the probes before and after the slice read.
  std::array<double, 2> probes{};
  // Seconds in each op, the longest first.
  std::vector<std::pair<std::string, double>> op_seconds{};

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double probe() const { return (probes[0] + probes[1]) / 2; }
};

// One line: {"slice", "tokens", "seconds", "bytes", "probes_gbps": [before, after],
// "op_seconds": {op: seconds}}.
std::string ToJson(const SliceKind& kind, const Slice& slice);

// The lines of a table: medians over slices, least and most tokens per second, and the median of
// the fast slices. REQUIRES: `slices` is not empty.
std::string SummaryHeader();
std::string SummaryLine(const SliceKind& kind, const std::vector<Slice>& slices);

// The time of all slices together by op, and "other", the time between ops.
std::string OpLine(const std::vector<Slice>& slices);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_SLICE_H_
