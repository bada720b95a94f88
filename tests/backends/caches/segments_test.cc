// Segments: round trip, shared spans, every damaged bit, every cut, other models, other threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/caches/crc32c.h"
#include "backends/errors/error.h"
#include "tests/backends/caches/fake_ops.h"
#include "tests/backends/caches/segment_bytes.h"

namespace longstream {
namespace {

constexpr uint64_t kFingerprint = 0x1234567890abcdefu;
constexpr int64_t kContextLimit = 1000;
constexpr char kPlan[] = "full+rerope+window+recurrent+window+wide+wide_window";

// A store with its memory for snapshots.
struct Store {
  explicit Store(const std::string& plan = kPlan, uint64_t budget = 0)
      : caches(LayoutOf(plan), budget) {}

  std::string Segments(SequenceCache& cache, uint64_t from = 0) {
    return SegmentsOf(cache, pool, kFingerprint, from);
  }
  std::unique_ptr<SequenceCache> Import(int64_t position, const std::string& bytes,
                                        size_t piece = 1000) {
    auto cache = FromSegments(pool, position, kFingerprint, kContextLimit, bytes, piece);
    FakeRebuild(*cache);
    return cache;
  }
  // The code of an import that must fail, and its sentence.
  ls_code Refusal(int64_t position, const std::string& bytes, std::string* sentence = nullptr) {
    try {
      Import(position, bytes);
    } catch (const BackendError& error) {
      EXPECT_STRNE(error.what(), "");
      if (sentence != nullptr) *sentence = error.what();
      return error.code();
    }
    return LS_OK;
  }

  CacheStore caches;
  SnapshotMemoryPool pool{caches};
};

// The same segment with another header, whose checksum is right.
std::string WithHeader(std::string bytes, const std::function<void(SegmentHeader*)>& change) {
  SegmentHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(&header);
  header.crc = ExtendCrc32c(0, &header, offsetof(SegmentHeader, crc));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

TEST(SegmentsTest, ComeBackInAnotherStore) {
  for (const size_t length : {0u, 1u, 5u, 19u, 63u, 64u, 85u, 200u, 700u}) {
    Store store;
    std::vector<int32_t> tokens = FakeTokens(length);
    const auto cache = Fed(store.caches, tokens);
    const std::string bytes = store.Segments(*cache);
    Store other;
    for (const size_t piece : {1u, 71u, 100000u}) {
      const auto copy = other.Import(static_cast<int64_t>(length), bytes, piece);
      EXPECT_EQ(Difference(*copy, tokens), "") << length;
      EXPECT_EQ(other.Segments(*copy), bytes) << length;
      EXPECT_FALSE(copy->has_reservation());
      // The imported sequence goes on.
      copy->Reserve(100);
      const std::vector<int32_t> more = FakeTokens(100, 2);
      FakeStep(*copy, more);
      std::vector<int32_t> all = tokens;
      all.insert(all.end(), more.begin(), more.end());
      EXPECT_EQ(Difference(*copy, all), "") << length;
    }
  }
}

TEST(SegmentsTest, TellTheirTokensAndBytes) {
  Store store;
  const auto cache = Fed(store.caches, FakeTokens(200));
  CacheSnapshot snapshot(*cache, 64, kFingerprint, store.pool);
  EXPECT_EQ(snapshot.info().span_begin, 64u);
  EXPECT_EQ(snapshot.info().span_end, 192u);
  EXPECT_EQ(snapshot.info().position, 200u);
  EXPECT_EQ(ReadSegment(snapshot, SegmentKind::kSpan, 7).size(), snapshot.info().span_bytes);
  EXPECT_EQ(ReadSegment(snapshot, SegmentKind::kFixed, 7).size(), snapshot.info().fixed_bytes);
  // No near rings, no slack of rings, no unused rows.
  CacheSnapshot empty(*cache, 192, kFingerprint, store.pool);
  EXPECT_EQ(empty.info().span_bytes, 0u);
  EXPECT_EQ(ReadSegment(empty, SegmentKind::kSpan), "");
  for (const uint64_t from : {1u, 65u, 256u}) {
    EXPECT_THROW(CacheSnapshot(*cache, from, kFingerprint, store.pool), BackendError) << from;
  }
}

TEST(SegmentsTest, SpansOfTurnsMakeTheWhole) {
  Store store;
  const std::vector<int32_t> tokens = FakeTokens(500);
  SequenceCache cache(store.caches);
  cache.Reserve(500);
  std::string spans;
  std::string fixed;
  uint64_t from = 0;
  size_t fed = 0;
  for (const size_t turn : {70u, 1u, 129u, 20u, 280u}) {
    FakeStep(cache, std::span(tokens).subspan(fed, turn));
    fed += turn;
    CacheSnapshot snapshot(cache, from, kFingerprint, store.pool);
    from = snapshot.info().span_end;
    spans += ReadSegment(snapshot, SegmentKind::kSpan);
    fixed = ReadSegment(snapshot, SegmentKind::kFixed);
    EXPECT_EQ(Difference(*store.Import(static_cast<int64_t>(fed), spans + fixed),
                         std::span(tokens).first(fed)),
              "")
        << fed;
  }
  std::string sentence;
  EXPECT_EQ(store.Refusal(499, spans + fixed, &sentence), LS_INVALID_ARGUMENT);
  EXPECT_EQ(sentence, "import: the fixed block of position 500, expected position 499");
  const std::string last = store.Segments(cache, 448);
  EXPECT_EQ(store.Refusal(500, last, &sentence), LS_DATA_LOSS) << "the span is empty";
  EXPECT_EQ(sentence, "import: the spans end at token 0, expected 448");
  EXPECT_EQ(store.Refusal(500, store.Segments(cache, 384), &sentence), LS_INVALID_ARGUMENT);
  EXPECT_EQ(sentence,
            "import: the span of tokens [384, 448) leaves a gap: the spans before it end at 0");
}

TEST(SegmentsTest, ASnapshotKeepsThePagesOfItsBeginning) {
  Store store;
  const std::vector<int32_t> tokens = FakeTokens(150);
  auto cache = Fed(store.caches, tokens, 300);
  const std::string expected = store.Segments(*cache);
  CacheSnapshot first(*cache, 0, kFingerprint, store.pool);
  cache->Truncate(0);
  FakeStep(*cache, FakeTokens(170, 2));
  const std::string later = store.Segments(*cache);
  CacheSnapshot second(*cache, 0, kFingerprint, store.pool);
  cache.reset();
  Fed(store.caches, FakeTokens(900, 3));
  const auto all = [](CacheSnapshot& snapshot) {
    const std::string span = ReadSegment(snapshot, SegmentKind::kSpan);
    return span + ReadSegment(snapshot, SegmentKind::kFixed);
  };
  EXPECT_EQ(all(first), expected);
  EXPECT_EQ(all(second), later);
  EXPECT_EQ(store.caches.budget.reserved(), 4 * store.caches.layout.page_bytes);
}

// A sequence with a reservation may write its full pages after a rollback. Pages in their place are
// promised, or the snapshot does not begin.
TEST(SegmentsTest, APageThatARollbackWritesIsPaidFor) {
  const CacheLayout layout = LayoutOf("full");
  Store store("full", 4 * layout.page_bytes);
  SequenceCache cache(store.caches);
  cache.Reserve(2 * kPageTokens);
  cache.MarkRollbackPoint();
  FakeStep(cache, FakeTokens(2 * kPageTokens));
  {
    CacheSnapshot snapshot(cache, 0, kFingerprint, store.pool);
    EXPECT_EQ(store.caches.budget.reserved(), 4 * layout.page_bytes);
    cache.Truncate(0);
    FakeStep(cache, FakeTokens(2 * kPageTokens, 2));
    EXPECT_EQ(Difference(cache, FakeTokens(2 * kPageTokens, 2)), "");
  }
  cache.Reserve(0);
  EXPECT_EQ(store.caches.budget.reserved(), 2 * layout.page_bytes);
  SequenceCache other(store.caches);
  other.Reserve(2 * kPageTokens);  // the budget is full
  CacheSnapshot snapshot(cache, 0, kFingerprint, store.pool);
  EXPECT_THROW(CacheSnapshot(other, 64, kFingerprint, store.pool), BackendError) << "no such page";
  cache.Truncate(100);
  FakeStep(other, FakeTokens(2 * kPageTokens));
  other.MarkRollbackPoint();
  CacheSnapshot behind_the_rollback_point(other, 0, kFingerprint, store.pool);
  EXPECT_EQ(store.caches.budget.reserved(), 4 * layout.page_bytes);
}

TEST(SegmentsTest, EveryDamagedBitIsDataLoss) {
  Store store("full+window+recurrent");
  const std::string bytes = store.Segments(*Fed(store.caches, FakeTokens(66)));
  // Bits of the headers, then of every byte one.
  for (size_t bit = 0; bit < bytes.size() * 8; bit += bit < 200 * 8 ? 1 : 9) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(store.Refusal(66, damaged), LS_DATA_LOSS) << "bit " << bit;
  }
  EXPECT_EQ(store.caches.budget.reserved(), 0u);
}

TEST(SegmentsTest, EveryCutIsDataLoss) {
  Store store;
  const std::string bytes = store.Segments(*Fed(store.caches, FakeTokens(70)));
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    ASSERT_EQ(store.Refusal(70, bytes.substr(0, size)), LS_DATA_LOSS) << size;
  }
  EXPECT_EQ(store.Refusal(70, bytes + "x"), LS_DATA_LOSS);
  EXPECT_EQ(store.caches.budget.reserved(), 0u);
}

// A block with the right size and its own checksum, but of another segment.
TEST(SegmentsTest, ABlockOfAnotherSegmentIsDataLoss) {
  Store store("full");
  const std::string a = store.Segments(*Fed(store.caches, FakeTokens(64)));
  std::string b = store.Segments(*Fed(store.caches, FakeTokens(128, 2)), 64);
  const size_t block = sizeof(SegmentHeader);
  b.replace(block, 100, a, block, 100);
  EXPECT_EQ(store.Refusal(64, b), LS_INVALID_ARGUMENT) << "a gap comes first";
  std::string mixed = a;
  const std::string other = store.Segments(*Fed(store.caches, FakeTokens(128, 2)));
  mixed.replace(block, 100, other, block, 100);
  EXPECT_EQ(store.Refusal(64, mixed), LS_DATA_LOSS);
}

TEST(SegmentsTest, AnotherModelIsRefusedByName) {
  Store store;
  const std::string bytes = store.Segments(*Fed(store.caches, FakeTokens(70)));
  std::string sentence;
  const auto expect = [&](const std::string& expected, const auto& change) {
    EXPECT_EQ(store.Refusal(70, WithHeader(bytes, change), &sentence), LS_FAILED_PRECONDITION);
    EXPECT_EQ(sentence, "segment: " + expected);
  };
  expect("format version 3, expected 2", [](SegmentHeader* header) { header->version = 3; });
  expect("it is of another model, or of this one with other options",
         [](SegmentHeader* header) { header->fingerprint += 1; });
  expect("it is of a model with caches of another layout",
         [](SegmentHeader* header) { header->layout += 1; });
  expect(
      "cache types: found pages bf16, rings type 9, states f32, expected pages f32, rings f32, "
      "states f32",
      [](SegmentHeader* header) {
        header->page_type = 2;
        header->ring_type = 9;
      });
  expect("the span of tokens [0, 1024) is past this model's context limit, 1000",
         [](SegmentHeader* header) { header->end = 1024; });
  std::string swapped = bytes;
  SegmentHeader header;
  std::memcpy(&header, swapped.data(), sizeof(header));
  header.byte_order = 0x04030201u;
  header.crc = __builtin_bswap32(ExtendCrc32c(0, &header, offsetof(SegmentHeader, crc)));
  std::memcpy(swapped.data(), &header, sizeof(header));
  EXPECT_EQ(store.Refusal(70, swapped, &sentence), LS_FAILED_PRECONDITION);
  EXPECT_EQ(sentence, "segment: it is big-endian, expected little-endian");
  Store other("full");
  EXPECT_EQ(other.Refusal(70, bytes), LS_FAILED_PRECONDITION);
  EXPECT_EQ(store.Refusal(70, bytes), LS_OK);
}

// Headers with a valid checksum that no backend writes.
TEST(SegmentsTest, AHeaderThatContradictsItselfIsDataLoss) {
  Store store;
  const std::string bytes = store.Segments(*Fed(store.caches, FakeTokens(70)));
  using Header = SegmentHeader;
  for (const auto& change : std::initializer_list<void (*)(Header*)>{
           [](Header* header) { header->kind = static_cast<SegmentKind>(3); },
           [](Header* header) { header->num_blocks += 1; },
           [](Header* header) { header->begin = 1; }, [](Header* header) { header->begin = 128; },
           [](Header* header) { header->end = 65; },
           [](Header* header) { header->byte_order = 7; }}) {
    EXPECT_EQ(store.Refusal(70, WithHeader(bytes, change)), LS_DATA_LOSS);
  }
  EXPECT_EQ(store.Refusal(70, WithHeader(bytes, [](Header* header) { header->end = ~63ull; })),
            LS_FAILED_PRECONDITION);
}

TEST(SegmentsTest, NoRoomTakesNothing) {
  const CacheLayout layout = LayoutOf(kPlan);
  Store store;
  const std::string bytes = store.Segments(*Fed(store.caches, FakeTokens(200)));
  Store small(kPlan, layout.ring_bytes + layout.state_bytes + 3 * layout.page_bytes);
  EXPECT_EQ(small.Refusal(200, bytes), LS_RESOURCE_EXHAUSTED);
  EXPECT_EQ(small.caches.budget.reserved(), 0u);
}

TEST(SegmentsTest, AFailedSequenceHasNoSnapshot) {
  Store store;
  const auto cache = Fed(store.caches, FakeTokens(70), 10);
  FakeFailedStep(*cache, FakeTokens(5));
  EXPECT_THROW(store.Segments(*cache), BackendError);
}

// Reads and writes on other threads, while this thread feeds, frees and makes sequences.
TEST(SegmentsTest, OtherThreadsReadAndWriteBesideSteps) {
  Store store;
  const std::vector<int32_t> tokens = FakeTokens(300);
  auto cache = Fed(store.caches, tokens, 2000);
  cache->MarkRollbackPoint();
  const std::string expected = store.Segments(*cache);
  for (int round = 0; round < 20; ++round) {
    CacheSnapshot snapshot(*cache, 0, kFingerprint, store.pool);
    CacheImport import(300, kFingerprint, kContextLimit, store.pool);
    std::string read;
    std::thread reader([&] {
      read = ReadSegment(snapshot, SegmentKind::kSpan, 333);
      read += ReadSegment(snapshot, SegmentKind::kFixed, 333);
    });
    std::thread writer([&] { import.Write(std::as_bytes(std::span(expected))); });
    FakeStep(*cache, FakeTokens(90, 2));
    const auto fork = cache->Fork();
    cache->Truncate(300);
    Fed(store.caches, FakeTokens(200, 4));
    reader.join();
    writer.join();
    EXPECT_EQ(read, expected);
    import.RequireComplete();
    cache = import.Take();
    FakeRebuild(*cache);
    EXPECT_EQ(Difference(*cache, tokens), "");
    cache->Reserve(2000);
    cache->MarkRollbackPoint();
  }
}

}  // namespace
}  // namespace longstream
