// Runs of prefill and decode, as they are recorded, cut and looked up.
#include "service/sessions/feed.h"

#include <gtest/gtest.h>

#include <vector>

namespace longstream {
namespace {

constexpr uint32_t kGrid = 64;
constexpr bool kPrefill = false;
constexpr bool kDecode = true;
using Runs = std::vector<FeedRun>;

// 100 tokens of a prompt, 30 drawn tokens, 20 tokens of a prompt.
Feed Example() {
  Feed feed;
  feed.Add(64, kPrefill, kGrid);
  feed.Add(100, kPrefill, kGrid);
  for (uint64_t end = 101; end <= 130; ++end) feed.Add(end, kDecode, kGrid);
  feed.Add(150, kPrefill, kGrid);
  return feed;
}

TEST(Feed, PiecesOfARunAreOneRun) {
  const Feed feed = Example();
  EXPECT_EQ(feed.end(), 150u);
  EXPECT_EQ(feed.decode_tokens(), 30u);
  EXPECT_EQ(feed.decode_tokens(/*from=*/feed.end()), 0u);
  EXPECT_EQ(feed.runs(), (Runs{{100, kPrefill}, {130, kDecode}, {150, kPrefill}}));
}

TEST(Feed, APrefillThatBeginsOffTheGridIsAnotherRun) {
  Feed feed;
  feed.Add(100, kPrefill, kGrid);
  feed.Add(110, kPrefill, kGrid);
  feed.Add(128, kPrefill, kGrid);
  feed.Add(200, kPrefill, kGrid);  // continues at a multiple of the grid
  EXPECT_EQ(feed.runs(), (Runs{{100, kPrefill}, {110, kPrefill}, {200, kPrefill}}));
}

TEST(Feed, TokensThatWereReadBeforeAddNothing) {
  Feed feed = Example();
  feed.Add(120, kPrefill, kGrid);
  feed.Add(150, kDecode, kGrid);
  EXPECT_EQ(feed.runs(), Example().runs());
}

TEST(Feed, RunAt) {
  const Feed feed = Example();
  struct Case {
    uint64_t position;
    FeedRun run;
  };
  const Case cases[] = {{0, {100, kPrefill}},  {99, {100, kPrefill}},  {100, {130, kDecode}},
                        {129, {130, kDecode}}, {130, {150, kPrefill}}, {149, {150, kPrefill}}};
  for (const Case& c : cases) EXPECT_EQ(feed.RunAt(c.position), c.run) << c.position;
}

TEST(Feed, Truncate) {
  struct Case {
    uint64_t position;
    Runs runs;
  };
  const Case cases[] = {
      {0, {}},
      {1, {{1, kPrefill}}},
      {100, {{100, kPrefill}}},
      {101, {{100, kPrefill}, {101, kDecode}}},
      {140, {{100, kPrefill}, {130, kDecode}, {140, kPrefill}}},
      {150, Example().runs()},
      {900, Example().runs()},
  };
  for (const Case& c : cases) {
    Feed feed = Example();
    feed.Truncate(c.position);
    EXPECT_EQ(feed.runs(), c.runs) << c.position;
  }
}

TEST(Feed, ReadAsPrefill) {
  struct Case {
    uint64_t position;
    Runs runs;
  };
  const Case cases[] = {
      {0, {{150, kPrefill}}},
      {64, {{150, kPrefill}}},
      {70, {{70, kPrefill}, {150, kPrefill}}},
      {110, {{100, kPrefill}, {110, kDecode}, {150, kPrefill}}},
      {150, Example().runs()},
  };
  for (const Case& c : cases) {
    Feed feed = Example();
    feed.ReadAsPrefill(c.position, kGrid);
    EXPECT_EQ(feed.runs(), c.runs) << c.position;
  }
}

TEST(Feed, GoesBackToAGridLineWithinAPrefill) {
  const auto back = [](uint64_t position) {
    Feed feed = Example();
    feed.GoBack(position, kGrid);
    return feed.runs();
  };
  EXPECT_EQ(back(200), Example().runs());
  EXPECT_EQ(back(150), Example().runs());
  EXPECT_EQ(back(149), (Runs{{100, kPrefill}, {130, kDecode}})) << "the prompt began behind 128";
  EXPECT_EQ(back(130), (Runs{{100, kPrefill}, {130, kDecode}}));
  EXPECT_EQ(back(117), (Runs{{100, kPrefill}, {117, kDecode}}));
  EXPECT_EQ(back(100), (Runs{{100, kPrefill}}));
  EXPECT_EQ(back(99), (Runs{{64, kPrefill}}));
  EXPECT_EQ(back(64), (Runs{{64, kPrefill}}));
  EXPECT_EQ(back(63), Runs{});
}

TEST(Feed, CommonEndIsWhereTheBitsBeginToDiffer) {
  const auto common = [](const Feed& other, uint64_t limit) {
    const uint64_t end = Example().CommonEnd(other, limit, kGrid);
    EXPECT_EQ(other.CommonEnd(Example(), limit, kGrid), end);
    return end;
  };
  EXPECT_EQ(common(Example(), 1000), 150u);
  EXPECT_EQ(common(Example(), 120), 120u) << "within a run of decode entries";
  EXPECT_EQ(common(Example(), 99), 64u) << "a grid line of the first prompt";
  EXPECT_EQ(common(Example(), 140), 130u) << "the prompt begins behind the grid line";
  EXPECT_EQ(common(Feed(), 1000), 0u);
  Feed prompt;
  prompt.Add(300, kPrefill, kGrid);
  EXPECT_EQ(common(prompt, 1000), 64u);
  Feed shorter = Example();
  shorter.GoBack(117, kGrid);
  EXPECT_EQ(common(shorter, 1000), 117u);
  Feed drawn;
  drawn.Add(1, kDecode, kGrid);
  EXPECT_EQ(common(drawn, 1000), 0u);
}

}  // namespace
}  // namespace longstream
