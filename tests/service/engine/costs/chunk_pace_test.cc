// How many tokens a step in the background reads.
#include "service/engine/costs/chunk_pace.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace longstream {
namespace {

constexpr absl::Duration kLimit = absl::Milliseconds(20);

TEST(ChunkPace, KeepsToTheLimit) {
  struct Case {
    std::string name;
    std::vector<std::pair<uint64_t, absl::Duration>> steps;
    uint64_t most;
  };
  const Case cases[] = {
      {"nothing is known", {}, 64},
      {"a fast step: twice as many tokens", {{64, absl::Microseconds(64)}}, 128},
      {"until the limit is reached",
       {{64, absl::Milliseconds(4)}, {128, absl::Milliseconds(8)}, {256, absl::Milliseconds(16)}},
       320},
      {"rounded down to the grid", {{512, absl::Milliseconds(21)}}, 448},
      {"a grid interval that takes longer", {{64, absl::Milliseconds(300)}}, 64},
      {"a slower step counts at once",
       {{1024, absl::Milliseconds(1)}, {64, absl::Milliseconds(10)}},
       128},
      {"a faster step counts a quarter",
       {{640, absl::Milliseconds(20)}, {640, absl::Milliseconds(4)}},
       768},
      {"no tokens and no time are ignored",
       {{0, absl::Seconds(1)}, {64, absl::ZeroDuration()}, {64, absl::Milliseconds(-1)}},
       64},
      {"a time too short to be true", {{1u << 29, absl::Nanoseconds(1)}}, 1u << 30},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ChunkPace pace(64, kLimit);
    for (const auto& [tokens, time] : c.steps) pace.Learn(tokens, time);
    EXPECT_EQ(pace.MostTokens(), c.most);
  }
}

// Steps of a model with a fixed cost and a cost for each token.
TEST(ChunkPace, FindsThePieceOfAModel) {
  const auto step = [](uint64_t tokens) {
    return absl::Milliseconds(1) + absl::Microseconds(10) * static_cast<double>(tokens);
  };
  ChunkPace pace(16, kLimit);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(step(pace.MostTokens()), kLimit);
    pace.Learn(pace.MostTokens(), step(pace.MostTokens()));
  }
  EXPECT_GT(step(pace.MostTokens()), 0.8 * kLimit);
}

}  // namespace
}  // namespace longstream
