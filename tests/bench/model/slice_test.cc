// The text forms of slices and their summaries.
#include "tests/bench/model/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace longstream {
namespace {

constexpr SliceKind kDecode = {SliceKind::Op::kDecode, 4096, 32};

// A slice of 10 tokens, each of which reads 100 MB.
Slice Decoded(double seconds, double probe_before, double probe_after) {
  return {10, seconds, 1e9, {probe_before, probe_after}, {}};
}

TEST(SliceTest, LinesAreReadAndWritten) {
  EXPECT_EQ(ParseSlice("decode 4096 32"), kDecode);
  EXPECT_EQ(ParseSlice("  prefill   0  512 "), (SliceKind{SliceKind::Op::kPrefill, 0, 512}));
  EXPECT_EQ(ToString(kDecode), "decode 4096 32");
  EXPECT_EQ(ParseSlice(ToString({SliceKind::Op::kPrefill, 7, 9})),
            (SliceKind{SliceKind::Op::kPrefill, 7, 9}));
}

TEST(SliceTest, OtherLinesAreRefused) {
  for (const char* line : {"", "decode", "decode 1", "decode 1 2 3", "decode -1 2", "decode 1 0",
                           "decode 0 1025", "decode x 2", "encode 1 2"}) {
    EXPECT_THROW(ParseSlice(line), std::invalid_argument) << line;
  }
}

TEST(SliceTest, JsonIsOneLineOfWhatWasMeasured) {
  Slice slice = Decoded(0.5, 40e9, 50e9);
  slice.op_seconds = {{"linear_activated", 0.25}, {"embed", 0.125}};
  const std::string text = ToJson(kDecode, slice);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["slice"], "decode 4096 32");
  EXPECT_EQ(json["tokens"], 10);
  EXPECT_EQ(json["seconds"], 0.5);
  EXPECT_EQ(json["bytes"], 1e9);
  EXPECT_EQ(json["probes_gbps"], nlohmann::json::array({40.0, 50.0}));
  EXPECT_EQ(json["op_seconds"], nlohmann::json({{"linear_activated", 0.25}, {"embed", 0.125}}));
}

// The table shows medians over all slices, and in a separate column the median over the fast
// slices.
TEST(SliceTest, TableLines) {
  EXPECT_EQ(SummaryLine(kDecode, {Decoded(0.5, 50e9, 50e9), Decoded(0.5, 30e9, 30e9),
                                  Decoded(1, 30e9, 30e9)}),
            "decode 4096 32           20.00     10.00     20.00        30.0     100.0       4 %"
            "  20.00 (1 of 3)");
  // The slices reach 1/30, 2/48, 4/47.45 and 5/45 of the speed of their probes. The third slice
  // does not count as fast, because the probe after it is below 45 GB/s.
  EXPECT_EQ(SummaryLine(kDecode, {Decoded(1, 30e9, 30e9), Decoded(0.5, 50e9, 46e9),
                                  Decoded(0.25, 50e9, 44.9e9), Decoded(0.2, 45e9, 45e9)}),
            "decode 4096 32           30.00     10.00     50.00        46.2     100.0       6 %"
            "  35.00 (2 of 4)");
  Slice prefill = Decoded(0.5, 30e9, 30e9);
  prefill.bytes = 0;
  EXPECT_EQ(SummaryLine({SliceKind::Op::kPrefill, 0, 10}, {prefill}),
            "prefill 0 10             20.00     20.00     20.00        30.0         -         -"
            "  none of 1");
}

TEST(SliceTest, OpsAndWhatIsBetweenThem) {
  Slice one = Decoded(1, 50e9, 50e9), two = Decoded(3, 50e9, 50e9);
  one.op_seconds = {{"linear_activated", 0.5}, {"embed", 0.25}};
  two.op_seconds = {{"linear_activated", 1.5}, {"embed", 0.75}};
  EXPECT_EQ(OpLine({one, two}), "  linear_activated 50.0 %, other 25.0 %, embed 25.0 %");
}

}  // namespace
}  // namespace longstream
