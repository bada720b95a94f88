// Tests the choice of spans that are joined, and how often bytes are written again over many turns.
#include "service/engine/policy/join_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace longstream {
namespace {

// The ends of spans with these lengths.
std::vector<uint64_t> Ends(std::vector<uint64_t> lengths) {
  std::partial_sum(lengths.begin(), lengths.end(), lengths.begin());
  return lengths;
}

// `count` spans of this length behind those of `first`.
std::vector<uint64_t> Lengths(std::vector<uint64_t> first, size_t count, uint64_t length) {
  first.resize(first.size() + count, length);
  return first;
}

TEST(SpansToKeep, AllOfThemUntilTheyAreMany) {
  EXPECT_EQ(SpansToKeep({}, 100), 0u);
  EXPECT_EQ(SpansToKeep(Ends({64}), 128), 1u);
  const std::vector<uint64_t> ends = Ends(Lengths({}, kMostSpans - 1, 64));
  EXPECT_EQ(SpansToKeep(ends, ends.back() + 64), kMostSpans - 1);
}

TEST(SpansToKeep, ThenTheLongOnesBeforeShortOnes) {
  struct Case {
    std::vector<uint64_t> lengths;
    uint64_t added;
    size_t kept;
  };
  std::vector<uint64_t> halves;
  for (size_t i = 0; i < kMostSpans; ++i) halves.push_back(uint64_t{1} << (40 - i));
  const Case cases[] = {
      {Lengths({}, kMostSpans, 64), 64, 0},
      {Lengths({1 << 20}, kMostSpans - 1, 64), 64, 1},
      {Lengths({1 << 20, 1 << 15}, kMostSpans - 2, 64), 64, 2},
      {Lengths({1 << 20, 960}, kMostSpans - 2, 64), 64, 1},
      {halves, 64, kMostSpans - 1},  // one goes in any case
      {halves, halves.back(), 0},    // as long as each, one after the other
  };
  for (const Case& c : cases) {
    const std::vector<uint64_t> ends = Ends(c.lengths);
    EXPECT_EQ(SpansToKeep(ends, ends.back() + c.added), c.kept);
  }
}

TEST(SpansToKeep, WritesATokenAFewTimes) {
  std::vector<uint64_t> ends;
  uint64_t written = 0;
  uint64_t end = 0;
  size_t most = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    end += 64;
    const size_t kept = SpansToKeep(ends, end);
    ends.resize(kept);
    written += end - (kept > 0 ? ends.back() : 0);
    ends.push_back(end);
    most = std::max(most, ends.size());
  }
  EXPECT_EQ(most, kMostSpans);
  EXPECT_LT(written, 6 * end);
}

}  // namespace
}  // namespace longstream
