// Equal histories have equal keys, and any difference that matters for the bits changes them.
#include "service/serving/caches/cache_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace longstream {
namespace {

constexpr uint32_t kGrid = 64;

std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 5);
  return tokens;
}

Feed FeedOf(const std::vector<FeedRun>& runs) {
  Feed feed;
  for (const FeedRun& run : runs) feed.Add(run.end, run.is_decode, kGrid);
  return feed;
}

store::SegmentKey FixedAt(uint64_t position, const std::vector<FeedRun>& runs,
                          const std::string& cache = "model",
                          std::vector<int32_t> tokens = Tokens(400)) {
  tokens.resize(std::max<size_t>(position, 1));
  return CacheKeys(cache, tokens, FeedOf(runs), kGrid).Fixed(position);
}

TEST(CacheKeys, OfOnePositionDependOnTheHistoryBeforeIt) {
  const std::vector<FeedRun> runs = {{100, false}, {150, true}};
  const store::SegmentKey key = FixedAt(150, runs);
  EXPECT_EQ(FixedAt(150, runs), key);
  EXPECT_NE(FixedAt(149, runs), key);
  EXPECT_NE(FixedAt(150, runs, "other model"), key);
  for (const size_t changed : {0u, 99u, 149u}) {
    std::vector<int32_t> tokens = Tokens(400);
    tokens[changed] = 1;
    EXPECT_NE(FixedAt(150, runs, "model", tokens), key) << changed;
  }
}

TEST(CacheKeys, DependOnHowTheTokensWereRead) {
  struct Case {
    std::string name;
    uint64_t position;
    std::vector<FeedRun> one;
    std::vector<FeedRun> other;
    bool equal;
  };
  const Case cases[] = {
      {"prefill and decode", 128, {{128, false}}, {{128, true}}, false},
      {"a decode run goes on", 100, {{64, false}, {100, true}}, {{64, false}, {200, true}}, true},
      {"a prefill goes on at a grid line", 128, {{128, false}}, {{200, false}}, true},
      {"a prefill goes on between grid lines", 100, {{100, false}}, {{200, false}}, false},
      {"it ends within the grid interval", 100, {{110, false}}, {{120, false}}, false},
      {"it ends behind the grid interval", 100, {{130, false}}, {{200, false}}, true},
      {"two prefills with a cut between grid lines",
       128,
       {{128, false}},
       {{100, false}, {128, false}},
       false},
      {"another kind of run behind the position",
       128,
       {{128, false}, {200, true}},
       {{128, false}, {200, false}},
       true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(FixedAt(c.position, c.one) == FixedAt(c.position, c.other), c.equal);
  }
}

TEST(CacheKeys, OfOnePassAreThoseOfTheirPositions) {
  const std::vector<int32_t> tokens = Tokens(400);
  const Feed feed = FeedOf({{100, false}, {150, true}, {300, false}, {400, true}});
  CacheKeys pass("model", tokens, feed, kGrid);
  const store::SegmentKey first = pass.Span(0, 128);
  const store::SegmentKey second = pass.Span(128, 384);
  const store::SegmentKey fixed = pass.Fixed(400);
  EXPECT_EQ(CacheKeys("model", tokens, feed, kGrid).Span(128, 384), second);
  EXPECT_EQ(CacheKeys("model", tokens, feed, kGrid).Span(0, 128), first);
  EXPECT_EQ(CacheKeys("model", tokens, feed, kGrid).Fixed(400), fixed);
  EXPECT_NE(CacheKeys("model", tokens, feed, kGrid).Span(0, 384), second) << "another beginning";
  EXPECT_NE(CacheKeys("model", tokens, feed, kGrid).Fixed(384), second) << "another kind";
}

// A history grows, is cut at any position, and grows otherwise.
TEST(GrowingKeys, AreThoseOfTheWholeHistory) {
  std::mt19937_64 random(1);
  for (int history = 0; history < 20; ++history) {
    std::vector<int32_t> tokens;
    Feed feed;
    std::vector<uint64_t> positions;
    uint64_t unchanged = 0;
    GrowingKeys grown("model", kGrid);
    for (int step = 0; step < 60; ++step) {
      if (random() % 3 == 0 && !tokens.empty()) {
        tokens.resize(random() % tokens.size());
        feed.Truncate(tokens.size());
        unchanged = std::min(unchanged, feed.end());
        while (!positions.empty() && positions.back() > feed.end()) positions.pop_back();
      }
      const size_t size = tokens.size() + 1 + random() % 100;
      while (tokens.size() < size) tokens.push_back(static_cast<int32_t>(random() % 1000));
      feed.Add(size, random() % 2 == 0, kGrid);
      if (random() % 2 == 0) positions.push_back(size);
      if (random() % 4 == 0) continue;  // nobody asks
      const std::vector<store::SegmentKey> keys = grown.Fixed(positions, tokens, feed, unchanged);
      unchanged = feed.end();
      ASSERT_EQ(keys.size(), positions.size());
      for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(keys[i], CacheKeys("model", tokens, feed, kGrid).Fixed(positions[i]));
      }
    }
  }
}

#ifdef NDEBUG  // else assertions compare the keys with those of the whole history
TEST(GrowingKeys, HashNoTokenTwice) {
  std::vector<int32_t> tokens = Tokens(300);
  const Feed feed = FeedOf({{300, true}});
  const std::vector<uint64_t> positions = {100, 200, 300};
  GrowingKeys grown("model", kGrid);
  const std::vector<store::SegmentKey> keys =
      grown.Fixed(std::span(positions).first(2), tokens, FeedOf({{200, true}}), 0);
  std::fill(tokens.begin(), tokens.begin() + 200, 1);  // nobody should look
  const std::vector<store::SegmentKey> again = grown.Fixed(positions, tokens, feed, 200);
  EXPECT_EQ(again[0], keys[0]);
  EXPECT_EQ(again[1], keys[1]);
  EXPECT_EQ(again[2], CacheKeys("model", Tokens(300), feed, kGrid).Fixed(300));
}
#endif

TEST(CacheNames, SayWhichKernelsComputedTheCaches) {
  const std::string cache = CacheName(7, "avx2");
  EXPECT_EQ(KernelsOf(cache, 7), "avx2");
  EXPECT_EQ(KernelsOf(cache, 8), "");
  EXPECT_EQ(KernelsOf("", 7), "");
  EXPECT_EQ(MixedKernels("avx2", "avx2"), "avx2");
  const std::string mixed = MixedKernels("avx2", "avx512");
  EXPECT_NE(mixed, "avx2");
  EXPECT_NE(mixed, "avx512");
  EXPECT_EQ(MixedKernels(mixed, "avx512"), mixed);
  const std::string back = MixedKernels(mixed, "avx2");
  EXPECT_NE(back, mixed);
  EXPECT_LE(MixedKernels(MixedKernels(back, "avx512"), "avx2").size(), back.size());
  const std::string of_file = MixedKernels("file 12", "avx2");
  for (const std::string& kernels : {of_file, MixedKernels(of_file, "avx512"),
                                     MixedKernels(MixedKernels(of_file, "avx512"), "avx2")}) {
    EXPECT_TRUE(kernels.starts_with("file 12+")) << kernels;
    EXPECT_LE(kernels.size(), std::string("file 12+mixed+avx512").size());
  }
}

}  // namespace
}  // namespace longstream
