// Positions in a history whose turns have replaced the ends of earlier ones.
#include "service/serving/log/place.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

// The second turn adds to the first 30 tokens of the first one; the third adds to the second.
const std::vector<TurnRange> kHistory = {{0, 50}, {30, 80}, {80, 100}};

size_t TurnsUpTo(uint64_t position) {
  const absl::StatusOr<PartOfHistory> part = FindPosition(kHistory, position);
  EXPECT_TRUE(part.ok()) << part.status();
  return part.ok() ? part->num_turns : 99;
}

TEST(FindPosition, FindsTheFirstTurnThatHasTheToken) {
  EXPECT_EQ(TurnsUpTo(0), 0u);
  EXPECT_EQ(TurnsUpTo(1), 1u);
  EXPECT_EQ(TurnsUpTo(30), 1u);
  EXPECT_EQ(TurnsUpTo(31), 2u) << "the second turn has replaced the tokens of the first";
  EXPECT_EQ(TurnsUpTo(50), 2u);
  EXPECT_EQ(TurnsUpTo(80), 2u);
  EXPECT_EQ(TurnsUpTo(81), 3u);
  EXPECT_EQ(TurnsUpTo(100), 3u);
}

TEST(FindPosition, NamesTheEndOfTheSession) {
  const absl::Status behind = FindPosition(kHistory, 101).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(behind.message(), "position: expected 0 ... 100, found 101");
  EXPECT_EQ(FindPosition({}, 1).status().message(), "position: expected 0 ... 0, found 1");
  EXPECT_EQ(FindPosition({}, 0)->num_turns, 0u);
}

}  // namespace
}  // namespace longstream
