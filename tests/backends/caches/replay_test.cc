// Long random lives of many sequences in a small budget. After every call they are compared with
// their histories, and the budget with the bytes that they must hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/caches/sequence_cache.h"
#include "backends/caches/snapshot.h"
#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"
#include "tests/backends/caches/memory_stream.h"
#include "tests/backends/caches/segment_bytes.h"

namespace longstream {
namespace {

struct Life {
  std::unique_ptr<SequenceCache> cache;
  std::vector<int32_t> history;
  int64_t rollback_point = -1;  // -1: none
  int64_t furthest = 0;         // furthest position written since memory was last replaced
  int64_t furthest_at_rollback_point = 0;
};

class World {
 public:
  World(const std::string& plan, uint64_t budget, uint32_t seed)
      : store_(LayoutOf(plan), budget), random_(seed) {}

  void Step() {
    if (lives_.empty() || Chance(20)) return Create();
    Life& life = lives_[Below(lives_.size())];
    if (life.cache->failed()) return Chance(2) ? Truncate(life) : Refused(life);
    switch (Below(20)) {
      case 0:
        return Fork(life);
      case 1:
        return Free(life);
      case 2:
        return Reserve(life);
      case 3:
        return MarkRollbackPoint(life);
      case 4:
      case 5:
        return Truncate(life);
      case 6:
        return Move(life);
      default:
        return Feed(life);
    }
  }

  void Check() {
    std::set<int32_t> pages;
    uint64_t copies = 0;
    for (const Life& life : lives_) {
      if (!life.cache->failed()) {
        ASSERT_EQ(Difference(*life.cache, life.history), "");
      }
      ASSERT_EQ(life.cache->position(), static_cast<int64_t>(life.history.size()));
      const auto table = life.cache->page_table();
      pages.insert(table.begin(), table.end());
      copies += life.cache->has_reservation() ? store_.layout.rollback_bytes : 0;
    }
    const Budget& budget = store_.budget;
    const uint64_t held_pages = budget.held(CacheKind::kPages);
    const uint64_t rings = budget.held(CacheKind::kRings);
    const uint64_t states = budget.held(CacheKind::kStates);
    ASSERT_EQ(held_pages, pages.size() * store_.layout.page_bytes);
    ASSERT_EQ(rings, lives_.size() * store_.layout.ring_bytes);
    ASSERT_EQ(states, lives_.size() * store_.layout.state_bytes);
    ASSERT_EQ(budget.held(CacheKind::kRollback), copies);
    ASSERT_EQ(budget.reserved(),
              held_pages + rings + states + copies + budget.held(CacheKind::kPromised));
    ASSERT_LE(budget.reserved(), budget.limit());
  }

  void FreeAll() {
    lives_.clear();
    EXPECT_EQ(store_.budget.reserved(), 0u);
  }

  int refusals() const { return refusals_; }
  int exact_rollbacks() const { return exact_rollbacks_; }
  int restores() const { return restores_; }

 private:
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  bool Chance(size_t one_in) { return Below(one_in) == 0; }

  std::vector<int32_t> Tokens(size_t count) {
    return FakeTokens(count, static_cast<uint32_t>(random_()));
  }

  // Runs a call that may find no room. Returns whether it succeeded.
  template <typename Body>
  bool HasRoom(Body&& body) {
    try {
      body();
      return true;
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), LS_RESOURCE_EXHAUSTED) << error.what();
      ++refusals_;
      return false;
    }
  }

  void Create() {
    HasRoom([&] { lives_.push_back({std::make_unique<SequenceCache>(store_), {}}); });
  }

  void Fork(Life& life) {
    Life fork;
    fork.history = life.history;
    fork.furthest = life.furthest;
    if (HasRoom([&] { fork.cache = life.cache->Fork(); })) lives_.push_back(std::move(fork));
  }

  void Free(const Life& life) { lives_.erase(lives_.begin() + (&life - lives_.data())); }

  void Reserve(Life& life) {
    const int64_t tokens = Chance(4) ? 0 : static_cast<int64_t>(Below(400)) + 1;
    if (!HasRoom([&] { life.cache->Reserve(tokens); })) return;
    if (tokens == 0) life.rollback_point = -1;
    if (!life.cache->failed() && Chance(2)) MarkRollbackPoint(life);
  }

  void MarkRollbackPoint(Life& life) {
    if (!life.cache->has_reservation()) return;
    life.cache->MarkRollbackPoint();
    life.rollback_point = life.cache->position();
    life.furthest_at_rollback_point = life.furthest;
  }

  void Truncate(Life& life) {
    const int64_t current = life.cache->position();
    const bool failed = life.cache->failed();
    const int64_t furthest =
        life.rollback_point >= 0 && !Chance(4) ? current - life.rollback_point : 300;
    const size_t limit = static_cast<size_t>(Chance(3) ? 8 : furthest + 1);
    const int64_t back = static_cast<int64_t>(Below(limit));
    const int64_t position = failed ? current : std::max<int64_t>(current - back, 0);
    int64_t restored = 0;
    try {
      restored = life.cache->Truncate(position);
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), LS_INVALID_ARGUMENT) << error.what();
      EXPECT_FALSE(life.rollback_point >= 0 && position >= life.rollback_point) << error.what();
      // A sequence may only stay failed if a reservation has no room for shared pages.
      if (!failed) return;
      life.cache->Reserve(0);
      restored = life.cache->Truncate(position);
      EXPECT_EQ(restored, 0);
    }
    EXPECT_FALSE(life.cache->failed());
    EXPECT_LE(restored, position);
    EXPECT_GE(restored, std::min(position, std::max<int64_t>(life.rollback_point, 0)));
    // These rollbacks need no rollback point, so they reach exactly the position asked for.
    if (position + kPrefillGrid >= life.furthest &&
        position / kPrefillGrid == life.furthest / kPrefillGrid) {
      EXPECT_EQ(restored, position);
    }
    ++(restored == position ? exact_rollbacks_ : restores_);
    if (restored != position) life.furthest = life.furthest_at_rollback_point;
    if (restored == 0) life.furthest = 0;
    life.history.resize(static_cast<size_t>(restored));
    life.rollback_point = std::min(life.rollback_point, restored);
    FakeRebuild(*life.cache);
  }

  // Exports the sequence and imports it again, through either format.
  void Move(Life& life) {
    if (Chance(2)) return MoveBySegments(life);
    MemoryStream stream;
    ExportSequence(*life.cache, 42, stream.writer());
    std::unique_ptr<SequenceCache> moved;
    if (!HasRoom([&] { moved = ImportSequence(store_, 42, 100000, stream.reader()); })) return;
    FakeRebuild(*moved);
    EXPECT_TRUE(stream.at_end());
    life.cache = std::move(moved);
    life.rollback_point = -1;
    life.furthest = std::numeric_limits<int64_t>::max();
  }

  void MoveBySegments(Life& life) {
    std::string bytes;
    std::unique_ptr<SequenceCache> moved;
    const bool has_room = HasRoom([&] {
      bytes = SegmentsOf(*life.cache, pool_, 42);
      moved = FromSegments(pool_, life.cache->position(), 42, 100000, bytes);
    });
    if (!has_room) return;
    FakeRebuild(*moved);
    life.cache = std::move(moved);
    life.rollback_point = -1;
    life.furthest = std::numeric_limits<int64_t>::max();
  }

  void Feed(Life& life) {
    const int64_t reserved = life.cache->reserved_tokens();
    if (reserved == 0) return Reserve(life);
    const size_t longest = Chance(2) ? 3 : 200;
    const std::vector<int32_t> tokens =
        Tokens(std::min(Below(longest) + 1, static_cast<size_t>(reserved)));
    life.furthest =
        std::max(life.furthest, life.cache->position() + static_cast<int64_t>(tokens.size()));
    if (Chance(10)) return FakeFailedStep(*life.cache, tokens);
    FakeStep(*life.cache, tokens);
    life.history.insert(life.history.end(), tokens.begin(), tokens.end());
  }

  void Refused(Life& life) {
    EXPECT_THROW(life.cache->Fork(), BackendError);
    EXPECT_THROW(life.cache->MarkRollbackPoint(), BackendError);
  }

  CacheStore store_;
  SnapshotMemoryPool pool_{store_};
  std::mt19937 random_;
  std::vector<Life> lives_;
  int refusals_ = 0;
  int exact_rollbacks_ = 0;
  int restores_ = 0;
};

class ReplayTest : public testing::TestWithParam<const char*> {};

TEST_P(ReplayTest, CachesHoldTheirHistories) {
  const std::string plan = GetParam();
  const CacheLayout layout = LayoutOf(plan);
  const uint64_t budget =
      25 * layout.page_bytes + 12 * (layout.ring_bytes + layout.state_bytes) + 100;
  World world(plan, budget, 11);
  for (int step = 0; step < 6000; ++step) {
    world.Step();
    ASSERT_NO_FATAL_FAILURE(world.Check()) << "step " << step;
    ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
  }
  // The random walk has covered everything.
  EXPECT_GT(world.refusals(), 50);
  EXPECT_GT(world.exact_rollbacks(), 50);
  if (layout.rollback_end > 0) {
    EXPECT_GT(world.restores(), 20);
  }
  world.FreeAll();
}

INSTANTIATE_TEST_SUITE_P(Plans, ReplayTest,
                         testing::Values("full", "full+rerope", "window+window", "recurrent",
                                         "full+window", "wide+wide_window",
                                         "window+recurrent+rerope+full+window"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace longstream
