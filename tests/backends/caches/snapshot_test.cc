// Snapshots: round trip, every damaged bit, every cut, other models, no room.
#include "backends/caches/snapshot.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"
#include "tests/backends/caches/memory_stream.h"

namespace longstream {
namespace {

constexpr uint64_t kFingerprint = 0x1234567890abcdefu;
constexpr int64_t kContextLimit = 1000;
constexpr char kPlan[] = "full+rerope+window+recurrent+window+wide+wide_window";

std::string Export(const SequenceCache& cache) {
  MemoryStream stream;
  ExportSequence(cache, kFingerprint, stream.writer());
  return stream.bytes();
}

// The code of an import that must fail.
ls_code ImportCode(CacheStore& store, const std::string& bytes, uint64_t fingerprint = kFingerprint,
                   int64_t context_limit = kContextLimit) {
  MemoryStream stream(bytes);
  try {
    ImportSequence(store, fingerprint, context_limit, stream.reader());
  } catch (const BackendError& error) {
    EXPECT_STRNE(error.what(), "");
    return error.code();
  }
  return LS_OK;
}

TEST(SnapshotTest, ComesBackInAnotherStore) {
  for (const size_t length : {0u, 1u, 5u, 19u, 63u, 64u, 85u, 200u, 700u}) {
    CacheStore store(LayoutOf(kPlan), 0);
    std::vector<int32_t> tokens = FakeTokens(length);
    const auto cache = Fed(store, tokens);
    MemoryStream stream(Export(*cache) + "what follows is not ours");

    CacheStore other(LayoutOf(kPlan), 0);
    const auto copy = ImportSequence(other, kFingerprint, kContextLimit, stream.reader());
    EXPECT_FALSE(stream.at_end());
    FakeRebuild(*copy);
    EXPECT_EQ(Difference(*copy, tokens), "") << length;
    EXPECT_EQ(Export(*copy), Export(*cache)) << length;
    EXPECT_FALSE(copy->has_reservation());

    // The imported sequence goes on.
    copy->Reserve(100);
    const std::vector<int32_t> more = FakeTokens(100, 2);
    FakeStep(*copy, more);
    tokens.insert(tokens.end(), more.begin(), more.end());
    EXPECT_EQ(Difference(*copy, tokens), "") << length;
  }
}

TEST(SnapshotTest, AnImportHasNoSlackBehindIt) {
  CacheStore store(LayoutOf("window"), 0);
  MemoryStream stream(Export(*Fed(store, FakeTokens(300))));
  const auto copy = ImportSequence(store, kFingerprint, kContextLimit, stream.reader());
  EXPECT_EQ(copy->Truncate(300), 300);
  EXPECT_THROW(copy->Truncate(299), BackendError);
}

TEST(SnapshotTest, HoldsNothingOfOthersInAPage) {
  CacheStore store(LayoutOf("full"), 0);
  const std::string clean = Export(*Fed(store, FakeTokens(10)));
  Fed(store, FakeTokens(64, 2));  // leaves its tokens in the page that the next sequence takes
  EXPECT_EQ(Export(*Fed(store, FakeTokens(10))), clean);
  // 10 tokens of 2 heads of 3 elements, keys and values, f32; then a header of 40 bytes, and 2
  // block headers of 16 bytes with checksums of 4.
  EXPECT_EQ(clean.size(), 10 * 2 * 3 * 2 * 4 + 40 + 2 * (16 + 4u));
}

TEST(SnapshotTest, EveryDamagedBitIsDataLoss) {
  CacheStore store(LayoutOf("full+window+recurrent"), 0);
  const std::string bytes = Export(*Fed(store, FakeTokens(3)));
  const uint64_t held = store.budget.reserved();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(ImportCode(store, damaged), LS_DATA_LOSS) << "bit " << bit;
  }
  EXPECT_EQ(store.budget.reserved(), held);
}

TEST(SnapshotTest, EveryCutIsDataLoss) {
  CacheStore store(LayoutOf(kPlan), 0);
  const std::string bytes = Export(*Fed(store, FakeTokens(70)));
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    ASSERT_EQ(ImportCode(store, bytes.substr(0, size)), LS_DATA_LOSS) << size;
  }
  EXPECT_EQ(store.budget.reserved(), 0u);
}

TEST(SnapshotTest, AnotherModelIsRefused) {
  CacheStore store(LayoutOf(kPlan), 0);
  const std::string bytes = Export(*Fed(store, FakeTokens(70)));
  EXPECT_EQ(ImportCode(store, bytes, kFingerprint + 1), LS_FAILED_PRECONDITION);
  EXPECT_EQ(ImportCode(store, bytes, kFingerprint, 69), LS_FAILED_PRECONDITION);
  CacheStore other(LayoutOf("full"), 0);
  EXPECT_EQ(ImportCode(other, bytes), LS_FAILED_PRECONDITION);
  EXPECT_EQ(ImportCode(store, bytes), LS_OK);
}

TEST(SnapshotTest, NoRoomTakesNothing) {
  const CacheLayout layout = LayoutOf(kPlan);
  CacheStore store(layout, 0);
  const std::string bytes = Export(*Fed(store, FakeTokens(200)));
  CacheStore small(layout, layout.ring_bytes + layout.state_bytes + 3 * layout.page_bytes);
  EXPECT_EQ(ImportCode(small, bytes), LS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(small.budget.reserved(), 0u);
}

TEST(SnapshotTest, AWriterMayGiveUp) {
  CacheStore store(LayoutOf(kPlan), 0);
  const auto cache = Fed(store, FakeTokens(70));
  const size_t size = Export(*cache).size();
  for (size_t limit = 0; limit < size; limit += 61) {
    MemoryStream stream;
    try {
      ExportSequence(*cache, kFingerprint, stream.writer(limit));
      FAIL() << "wrote past " << limit;
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), LS_UNAVAILABLE);
    }
  }
}

TEST(SnapshotTest, AFailedSequenceIsNotExported) {
  CacheStore store(LayoutOf(kPlan), 0);
  const auto cache = Fed(store, FakeTokens(70), 10);
  FakeFailedStep(*cache, FakeTokens(5));
  MemoryStream stream;
  EXPECT_THROW(ExportSequence(*cache, kFingerprint, stream.writer()), BackendError);
  EXPECT_EQ(stream.bytes(), "");
}

}  // namespace
}  // namespace longstream
