// How memory is divided among models.
#include "service/models/memory_division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kUnknown = UINT64_MAX;

TEST(MemoryDivisionTest, StageByStage) {
  const struct {
    const char* what;
    uint64_t bytes;
    std::vector<CacheNeed> needs;  // least, session, batch
    std::vector<uint64_t> shares;
  } cases[] = {
      {"no model", 100, {}, {}},
      {"nothing", 0, {{1, 10, 100}, {1, 10, 100}}, {0, 0}},
      {"one model gets all", 1000, {{1, 10, 100}}, {1000}},
      {"equal needs", 500, {{1, 10, 100}, {1, 10, 100}}, {250, 250}},
      {"too little for the smallest sessions", 10, {{20, 50, 90}, {4, 50, 90}}, {6, 4}},
      {"a full session of each comes before a batch", 130, {{1, 100, 800}, {1, 10, 80}}, {100, 30}},
      {"too little for both full sessions", 60, {{1, 100, 800}, {1, 10, 80}}, {50, 10}},
      {"a small batch is full before a large one", 400, {{1, 100, 800}, {1, 10, 80}}, {320, 80}},
      {"in proportion to the batches", 1760, {{1, 100, 800}, {1, 10, 80}}, {1600, 160}},
      {"three models", 350, {{1, 10, 50}, {1, 10, 500}, {1, 20, 500}}, {50, 150, 150}},
      {"a model that is not loaded", 300, {{0, 0, kUnknown}, {1, 10, 400}}, {150, 150}},
      {"a model without caches", 300, {{0, 0, 0}, {1, 10, 100}}, {0, 300}},
  };
  for (const auto& test : cases) {
    const MemoryShares shares = DivideMemory(test.bytes, test.needs);
    EXPECT_EQ(shares.bytes, test.shares) << test.what;
    EXPECT_TRUE(shares.settled) << test.what;
  }
}

TEST(MemoryDivisionTest, AModelKeepsWhatItHolds) {
  MemoryShares shares = DivideMemory(100, std::vector<CacheNeed>{{1, 10, 90, 80}, {1, 10, 90, 5}});
  EXPECT_THAT(shares.bytes, ElementsAre(80, 20));
  EXPECT_FALSE(shares.settled);
  shares = DivideMemory(100, std::vector<CacheNeed>{{1, 10, 90, 50}, {1, 10, 90, 5}});
  EXPECT_THAT(shares.bytes, ElementsAre(50, 50));
  EXPECT_TRUE(shares.settled);
  shares =
      DivideMemory(100, std::vector<CacheNeed>{{1, 10, 90, 70}, {1, 9, 90, 28}, {1, 9, 90, 0}});
  EXPECT_THAT(shares.bytes, ElementsAre(70, 28, 2));
  EXPECT_FALSE(shares.settled);
  shares = DivideMemory(100, std::vector<CacheNeed>{{1, 10, 90, 170}, {1, 10, 90, 0}});
  EXPECT_THAT(shares.bytes, ElementsAre(170, 0)) << "more is held than there is";
  EXPECT_FALSE(shares.settled);
}

TEST(MemoryDivisionTest, SharesNeverExceedWhatThereIs) {
  std::mt19937_64 random(1);
  const auto any = [&] { return random() >> (random() % 64); };
  for (int round = 0; round < 20000; ++round) {
    std::vector<CacheNeed> needs(random() % 5);
    for (CacheNeed& need : needs) {
      need.least = any();
      need.session = std::max(need.least, any());
      need.batch = std::max(need.session, any());
    }
    const uint64_t bytes = any();
    const MemoryShares shares = DivideMemory(bytes, needs);
    ASSERT_THAT(shares.bytes, SizeIs(needs.size()));
    uint64_t left = bytes;
    for (const uint64_t share : shares.bytes) {
      ASSERT_LE(share, left);
      left -= share;
    }
  }
}

TEST(MemoryDivisionTest, TheNeedOfAModel) {
  ls_model_info info{};
  info.context_limit = 1000;
  info.page_tokens = 64;
  info.kv_bytes_per_token = 10;
  info.window_bytes_per_sequence = 1;
  info.state_bytes_per_sequence = 2;
  info.checkpoint_bytes_per_sequence = 3;
  CacheNeed need = CacheNeed::Of(info, 8);
  EXPECT_EQ(need.least, 646u);
  EXPECT_EQ(need.session, 10246u) << "16 pages";
  EXPECT_EQ(need.batch, 8u * 10246);
  EXPECT_EQ(need.held, 0u);
  info.context_limit = uint64_t{1} << 62;
  EXPECT_EQ(CacheNeed::Of(info, 8).session, UINT64_MAX);
  info.page_tokens = 0;
  need = CacheNeed::Of(info, 8);
  EXPECT_EQ(need.least, 6u);
  EXPECT_EQ(need.session, 6u);
}

}  // namespace
}  // namespace longstream
