// One sequence's pages, slot, rollback point and reservation, rule by rule.
#include "backends/caches/sequence_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"

namespace longstream {
namespace {

using Tokens = std::vector<int32_t>;

template <typename Body>
ls_code CodeOf(Body&& body) {
  try {
    body();
  } catch (const BackendError& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  return LS_OK;
}

Tokens First(const Tokens& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)};
}

TEST(SequenceCacheTest, BytesFollowThePosition) {
  CacheStore store(LayoutOf("full+rerope+window+recurrent"), 0);
  const Tokens tokens = FakeTokens(200);
  for (const size_t length : {1u, 63u, 64u, 65u, 200u}) {
    const auto cache = Fed(store, First(tokens, length));
    const uint64_t pages = (length + kPageTokens - 1) / kPageTokens;
    EXPECT_EQ(cache->bytes().pages, pages * kPageTokens * store.layout.bytes_per_token);
    EXPECT_EQ(cache->bytes().rings, store.layout.ring_bytes);
    EXPECT_EQ(cache->bytes().states, store.layout.state_bytes);
    EXPECT_EQ(cache->bytes().rollback, 0u);
    cache->Reserve(1);
    EXPECT_EQ(cache->bytes().rollback, store.layout.rollback_bytes);
  }
  EXPECT_EQ(store.budget.reserved(), 0u);
}

TEST(SequenceCacheTest, AReservationPaysForPagesAndRollbackCopy) {
  CacheStore store(LayoutOf("full+window"), 0);
  SequenceCache cache(store);
  const uint64_t fixed = store.budget.reserved();
  EXPECT_EQ(fixed, store.layout.ring_bytes);
  cache.Reserve(65);
  const uint64_t reserved = fixed + 2 * store.layout.page_bytes + store.layout.rollback_bytes;
  EXPECT_EQ(store.budget.reserved(), reserved);
  FakeStep(cache, FakeTokens(65));
  EXPECT_EQ(store.budget.reserved(), reserved) << "a step takes what was promised";
  EXPECT_EQ(store.budget.held(CacheKind::kPages), 2 * store.layout.page_bytes);
  cache.Reserve(0);
  EXPECT_EQ(store.budget.reserved(), fixed + 2 * store.layout.page_bytes);
  cache.Reserve(63);  // fits the second page
  EXPECT_EQ(store.budget.reserved(), reserved);
}

TEST(SequenceCacheTest, ARefusedReservationLeavesTheOneBefore) {
  const CacheLayout layout = LayoutOf("full+recurrent");
  CacheStore store(layout, layout.state_bytes + layout.rollback_bytes + 3 * layout.page_bytes);
  SequenceCache cache(store);
  EXPECT_EQ(CodeOf([&] {
              SequenceCache second(store);
              SequenceCache third(store);
            }),
            LS_RESOURCE_EXHAUSTED);
  cache.Reserve(3 * kPageTokens);
  EXPECT_EQ(CodeOf([&] { cache.Reserve(3 * kPageTokens + 1); }), LS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(cache.reserved_tokens(), 3 * kPageTokens);
  EXPECT_EQ(store.budget.reserved(), store.budget.limit());
  const Tokens tokens = FakeTokens(3 * kPageTokens);
  FakeStep(cache, tokens);
  EXPECT_EQ(Difference(cache, tokens), "");
}

TEST(SequenceCacheTest, AForkSharesFullPagesAndCopiesTheLastAtItsFirstWrite) {
  CacheStore store(LayoutOf("full+rerope+window+recurrent"), 0);
  Tokens tokens = FakeTokens(100);
  const auto source = Fed(store, tokens);
  const auto fork = source->Fork();
  EXPECT_EQ(store.budget.held(CacheKind::kPages), 2 * store.layout.page_bytes);
  EXPECT_EQ(fork->bytes().pages, source->bytes().pages);
  EXPECT_EQ(Difference(*fork, tokens), "");

  fork->Reserve(1);
  EXPECT_EQ(store.budget.held(CacheKind::kPromised), store.layout.page_bytes);
  Tokens of_fork = tokens;
  of_fork.push_back(7);
  FakeStep(*fork, Tokens{7});
  EXPECT_EQ(store.budget.held(CacheKind::kPages), 3 * store.layout.page_bytes);
  EXPECT_EQ(fork->page_table()[0], source->page_table()[0]);
  EXPECT_NE(fork->page_table()[1], source->page_table()[1]);

  // The source is again the only holder of its last page.
  source->Reserve(1);
  EXPECT_EQ(store.budget.held(CacheKind::kPromised), 0u);
  FakeStep(*source, Tokens{8});
  tokens.push_back(8);
  EXPECT_EQ(Difference(*source, tokens), "");
  EXPECT_EQ(Difference(*fork, of_fork), "");
}

TEST(SequenceCacheTest, AForkAtAPageBorderCopiesNothing) {
  CacheStore store(LayoutOf("full"), 0);
  const auto source = Fed(store, FakeTokens(kPageTokens));
  const auto fork = source->Fork();
  fork->Reserve(1);
  EXPECT_EQ(store.budget.held(CacheKind::kPromised), store.layout.page_bytes);
  FakeStep(*fork, Tokens{7});
  EXPECT_EQ(store.budget.held(CacheKind::kPages), 2 * store.layout.page_bytes);
}

TEST(SequenceCacheTest, AForkOfAReservedSequencePaysForItsSource) {
  const CacheLayout layout = LayoutOf("full");
  CacheStore store(layout, 4 * layout.page_bytes);
  const Tokens tokens = FakeTokens(100);
  // The source may write its second page after it becomes shared: this needs one more page.
  const auto source = Fed(store, tokens, /*reserve_more=*/kPageTokens);
  EXPECT_EQ(store.budget.reserved(), 3 * layout.page_bytes);
  auto fork = source->Fork();
  EXPECT_EQ(store.budget.reserved(), 4 * layout.page_bytes);
  FakeStep(*source, FakeTokens(kPageTokens, 2));
  EXPECT_EQ(store.budget.reserved(), 4 * layout.page_bytes);
  EXPECT_EQ(Difference(*fork, tokens), "");
  fork.reset();

  // A sequence may write all pages from its rollback point on. So a fork of a sequence with three
  // such pages would need copies of three pages, and the budget of four pages has no room for them.
  const auto other = Fed(store, {}, 0);
  source->Reserve(0);
  source->Truncate(0);
  source->Reserve(3 * kPageTokens);
  source->MarkRollbackPoint();
  FakeStep(*source, FakeTokens(3 * kPageTokens, 3));
  EXPECT_EQ(CodeOf([&] { fork = source->Fork(); }), LS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(store.budget.reserved(), 3 * layout.page_bytes);
  EXPECT_EQ(Difference(*source, FakeTokens(3 * kPageTokens, 3)), "");
}

TEST(SequenceCacheTest, PagesAloneGoBackToAnyPosition) {
  CacheStore store(LayoutOf("full+rerope"), 0);
  const Tokens tokens = FakeTokens(500);
  for (const int64_t position : {499, 320, 129, 128, 64, 63, 1, 0}) {
    const auto cache = Fed(store, tokens);
    EXPECT_EQ(cache->Truncate(position), position);
    EXPECT_EQ(cache->near_rings_stale(), position != 0 && position + kPrefillGrid < 500);
    FakeRebuild(*cache);
    EXPECT_EQ(Difference(*cache, First(tokens, static_cast<size_t>(position))), "") << position;
    EXPECT_EQ(cache->bytes().pages,
              static_cast<uint64_t>(PagesFor(position)) * store.layout.page_bytes);
  }
}

TEST(SequenceCacheTest, GoingBehindTheRollbackPointNeedsRoomForSharedPages) {
  const CacheLayout layout = LayoutOf("full");
  CacheStore store(layout, 4 * layout.page_bytes);
  const Tokens tokens = FakeTokens(3 * kPageTokens);
  const auto cache = Fed(store, tokens);
  const auto fork = cache->Fork();
  cache->Reserve(1);
  cache->MarkRollbackPoint();
  EXPECT_EQ(CodeOf([&] { cache->Truncate(kPageTokens); }), LS_INVALID_ARGUMENT);
  EXPECT_EQ(Difference(*cache, tokens), "");
  cache->Reserve(0);
  EXPECT_EQ(cache->Truncate(kPageTokens), kPageTokens) << "nothing is promised";
  EXPECT_EQ(Difference(*fork, tokens), "");
}

TEST(SequenceCacheTest, RingsGoBackByTheirSlack) {
  CacheStore store(LayoutOf("window+window"), 0);
  const Tokens tokens = FakeTokens(500);
  const auto cache = Fed(store, tokens);
  EXPECT_EQ(cache->Truncate(500 - kPrefillGrid), 500 - kPrefillGrid);
  EXPECT_EQ(Difference(*cache, First(tokens, 500 - kPrefillGrid)), "");
  // The kPrefillGrid tokens of slack count from the furthest position, not from the current one.
  EXPECT_EQ(CodeOf([&] { cache->Truncate(500 - kPrefillGrid - 1); }), LS_INVALID_ARGUMENT);
  EXPECT_EQ(cache->position(), 500 - kPrefillGrid);
}

TEST(SequenceCacheTest, RingsThatNeverWrappedHoldEverything) {
  CacheStore store(LayoutOf("window"), 0);
  const Tokens tokens = FakeTokens(static_cast<size_t>(store.layout.min_ring_slots));
  const auto cache = Fed(store, tokens);
  EXPECT_EQ(cache->Truncate(1), 1);
  EXPECT_EQ(Difference(*cache, First(tokens, 1)), "");
}

TEST(SequenceCacheTest, StatesGoBackToTheGridLine) {
  CacheStore store(LayoutOf("recurrent"), 0);
  const Tokens tokens = FakeTokens(3 * kPrefillGrid - 1);
  const auto cache = Fed(store, tokens);
  EXPECT_EQ(cache->Truncate(2 * kPrefillGrid), 2 * kPrefillGrid);
  EXPECT_EQ(Difference(*cache, First(tokens, 2 * kPrefillGrid)), "");
  EXPECT_EQ(CodeOf([&] { cache->Truncate(2 * kPrefillGrid - 1); }), LS_INVALID_ARGUMENT);
  EXPECT_EQ(cache->Truncate(0), 0) << "an empty memory is always at hand";
  EXPECT_EQ(Difference(*cache, {}), "");
}

TEST(SequenceCacheTest, TheRollbackPointIsReachedFromAnywhere) {
  CacheStore store(LayoutOf("rerope+window+recurrent"), 0);
  for (const size_t start : {0u, 1u, 100u, 128u}) {
    Tokens tokens = FakeTokens(start);
    const auto cache = Fed(store, tokens, 600);
    cache->MarkRollbackPoint();
    for (int round = 0; round < 2; ++round) {
      FakeStep(*cache, FakeTokens(600, 9));
      EXPECT_EQ(cache->Truncate(static_cast<int64_t>(start) + 200), static_cast<int64_t>(start));
      FakeRebuild(*cache);
      EXPECT_EQ(Difference(*cache, tokens), "") << start;
      EXPECT_EQ(cache->reserved_tokens(), 600);
    }
    if (start == 0) continue;
    EXPECT_EQ(CodeOf([&] { cache->Truncate(static_cast<int64_t>(start) - 1); }),
              LS_INVALID_ARGUMENT);
  }
}

TEST(SequenceCacheTest, ARollbackPointNeedsAReservationAndEndsWithIt) {
  CacheStore store(LayoutOf("window"), 0);
  SequenceCache cache(store);
  EXPECT_EQ(CodeOf([&] { cache.MarkRollbackPoint(); }), LS_FAILED_PRECONDITION);
  cache.Reserve(500);
  FakeStep(cache, FakeTokens(100));
  cache.MarkRollbackPoint();
  FakeStep(cache, FakeTokens(300, 2));
  cache.Reserve(0);
  EXPECT_EQ(CodeOf([&] { cache.Truncate(100); }), LS_INVALID_ARGUMENT);
}

TEST(SequenceCacheTest, AFailedSequenceStandsWhereItStood) {
  CacheStore store(LayoutOf("full+window+recurrent"), 0);
  Tokens tokens = FakeTokens(100);
  const auto cache = Fed(store, tokens, 500);
  const uint64_t reserved = store.budget.reserved();
  const uint64_t pages = cache->bytes().pages;
  FakeFailedStep(*cache, FakeTokens(3, 2));
  EXPECT_TRUE(cache->failed());
  EXPECT_EQ(cache->position(), 100);
  EXPECT_EQ(cache->bytes().pages, pages);
  EXPECT_EQ(store.budget.reserved(), reserved);
  EXPECT_EQ(CodeOf([&] { cache->MarkRollbackPoint(); }), LS_FAILED_PRECONDITION);
  EXPECT_EQ(CodeOf([&] { cache->Fork(); }), LS_FAILED_PRECONDITION);

  // A rollback by a few tokens within a block of the grid loses nothing.
  EXPECT_EQ(cache->Truncate(100), 100);
  EXPECT_FALSE(cache->failed());
  EXPECT_EQ(Difference(*cache, tokens), "");

  // A long piece has overwritten the rings: go back to the rollback point, or to 0 without one.
  cache->MarkRollbackPoint();
  FakeStep(*cache, FakeTokens(10, 3));
  FakeFailedStep(*cache, FakeTokens(200, 2));
  EXPECT_EQ(cache->Truncate(110), 100);
  EXPECT_EQ(Difference(*cache, tokens), "");
  cache->Reserve(400);
  FakeFailedStep(*cache, FakeTokens(200, 2));
  cache->Reserve(0);
  EXPECT_EQ(cache->Truncate(100), 0);
  EXPECT_EQ(Difference(*cache, {}), "");
}

}  // namespace
}  // namespace longstream
