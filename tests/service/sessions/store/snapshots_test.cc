// The contract of every store: snapshots and their segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/sessions/store/session_store.h"
#include "tests/service/sessions/store/session_store_suite.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SnapshotStoreTest : public SessionStoreSuite {
 protected:
  bool Has(uint64_t key) { return store_->FindSegment("", NewKey(key)).ok(); }
  uint64_t FileBytes() {
    for (const StoreBytes& part : store_->Bytes()) {
      if (part.kind == "segments") return part.bytes;
    }
    return 0;
  }
  // Collects segments, and removes their files at once.
  absl::StatusOr<uint64_t> CollectNow(std::optional<uint64_t> max_bytes = std::nullopt) {
    return store_->CollectSegments(
        {.now = At(0), .max_bytes = max_bytes, .remove_after = absl::ZeroDuration()});
  }
  std::vector<TurnNumber> TurnsWithSnapshots(TurnNumber head) {
    const auto snapshots = store_->Snapshots(head, 100);
    EXPECT_TRUE(snapshots.ok()) << snapshots.status();
    std::vector<TurnNumber> turns;
    for (const SnapshotRow& snapshot : *snapshots) turns.push_back(snapshot.turn);
    return turns;
  }
  void ExpectSound() { EXPECT_THAT(*store_->Check(10), IsEmpty()); }
};

TEST_P(SnapshotStoreTest, ASnapshotComesBackAsItWasAlsoAfterReopening) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  SegmentRow first = NewSpan(1, 0, {}), second = NewSpan(2, 1, NewKey(1)), fixed = NewFixed(3, 130);
  const auto written = WriteAll(*store_, {{first, kLarge}, {second, 64 << 10}, {fixed, 5}});
  ASSERT_TRUE(written.ok()) << written.status();
  first.bytes = kLarge;
  second.bytes = 64 << 10;
  fixed.bytes = 5;
  EXPECT_THAT((*written)->rows(), ElementsAre(first, second, fixed));
  const SnapshotRow row = {.turn = turn,
                           .cache = std::string("\0c", 2),
                           .position = uint64_t{1} << 40,
                           .span = second.key,
                           .fixed = fixed.key};
  const auto added = ApplyOne(*store_, AddSnapshot{"", row, *written, {}});
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->turn, turn);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(*store_->Snapshots(turn, 1), ElementsAre(row));
    EXPECT_THAT(*store_->Segments("", row), ElementsAre(first, second, fixed));
    EXPECT_EQ(*store_->FindSegment("", second.key), second);
    for (const SegmentRow& segment : {first, second, fixed}) {
      const auto reader = store_->ReadSegment("", segment.key);
      ASSERT_TRUE(reader.ok()) << reader.status();
      EXPECT_EQ((*reader)->row(), segment);
      const auto bytes = ReadAll(*store_, "", segment.key);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == SegmentBytes(segment.key, segment.bytes));
    }
    EXPECT_EQ(FileBytes(), kLarge + (64 << 10));
    ExpectSound();
    Reopen();
  }
}

TEST_P(SnapshotStoreTest, AnEmptySegmentIsASegment) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, turn, 1, {}, {{NewFixed(1, 10), 0}}).ok());
  EXPECT_EQ(*ReadAll(*store_, "", NewKey(1)), "");
  ExpectSound();
}

TEST_P(SnapshotStoreTest, SegmentsBelongToATenant) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, turn, 1, {}, {{NewFixed(1, 10)}}).ok());
  const SessionRow other = NewSession(7, "other");
  Open(other);
  const TurnNumber of_other = CommitOne(*store_, other.key, 1, 10);
  EXPECT_EQ(store_->FindSegment("other", NewKey(1)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadSegment("other", NewKey(1)).status().code(), absl::StatusCode::kNotFound);
  SnapshotRow row = {.turn = of_other, .cache = "cache", .span = {}, .fixed = NewKey(1)};
  EXPECT_EQ(CodeOf(AddSnapshot{"other", row, nullptr, {}}), absl::StatusCode::kFailedPrecondition);
  row.turn = turn;
  EXPECT_EQ(CodeOf(AddSnapshot{"other", row, nullptr, {}}), absl::StatusCode::kNotFound)
      << "another tenant's turn";
}

TEST_P(SnapshotStoreTest, OnlyACommittedTurnHasASnapshot) {
  Open(NewSession(7));
  const auto started = ApplyOne(*store_, StartTurn{FenceOf(*store_, key_), NewTurn(1)});
  ASSERT_TRUE(started.ok());
  for (const TurnNumber turn : {started->turn, started->turn + 100, kNoTurn}) {
    const absl::Status refused = AddOne(*store_, turn, 1, {}, {{NewFixed(1, 10), kLarge}});
    EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound) << refused;
  }
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(FileBytes(), 0u) << "the files of refused segments are removed";
}

TEST_P(SnapshotStoreTest, ASegmentThatIsMissingIsAFailedPrecondition) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  const auto code = [&](std::optional<SegmentKey> span, const std::vector<SegmentToWrite>& write) {
    return AddOne(*store_, turn, 1, span, write).code();
  };
  EXPECT_EQ(code({}, {}), absl::StatusCode::kFailedPrecondition) << "no fixed block";
  EXPECT_EQ(code(NewKey(2), {{NewFixed(1, 10)}}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(NewKey(3), {{NewSpan(3, 1, NewKey(2)), kLarge}, {NewFixed(1, 10)}}),
            absl::StatusCode::kFailedPrecondition)
      << "no span before the span";
  EXPECT_FALSE(Has(1) || Has(3)) << "a refused change leaves nothing";
  EXPECT_EQ(FileBytes(), 0u);
  EXPECT_THAT(*store_->Snapshots(turn, 1), IsEmpty());
  EXPECT_EQ(code(NewKey(3), {{NewSpan(2, 0, {})}, {NewSpan(3, 1, NewKey(2))}, {NewFixed(1, 10)}}),
            absl::StatusCode::kOk);
}

TEST_P(SnapshotStoreTest, SegmentsThatNobodyAddsAreGivenUp) {
  {
    const auto written = WriteAll(*store_, {{NewFixed(1, 10), kLarge}});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(FileBytes(), kLarge);
    const auto writer = store_->WriteSegments();
    ASSERT_TRUE((*writer)->Begin(NewFixed(2, 10)).ok());
    ASSERT_TRUE((*writer)->Append(std::string(kLarge, 'x')).ok());
    EXPECT_EQ(FileBytes(), 2 * kLarge);
  }
  EXPECT_EQ(FileBytes(), 0u);
  ExpectSound();
}

TEST_P(SnapshotStoreTest, SpansAreSharedAndLiveAsLongAsAnyNeedsThem) {
  Open(NewSession(7));
  const TurnNumber first = CommitOne(*store_, key_, 1, 64);
  ASSERT_TRUE(
      AddOne(*store_, first, 10, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(10, 64)}})
          .ok());
  SessionRow fork = NewSession(8);
  fork.head = first;
  Open(fork);
  const TurnNumber of_fork = CommitOne(*store_, fork.key, 1, 128);
  const TurnNumber second = CommitOne(*store_, key_, 2, 128);
  ASSERT_TRUE(AddOne(*store_, second, 11, NewKey(2),
                     {{NewSpan(2, 1, NewKey(1)), kLarge}, {NewFixed(11, 128)}}, {first})
                  .ok());
  EXPECT_FALSE(Has(10)) << "no head is at the first turn";
  ASSERT_TRUE(AddOne(*store_, of_fork, 12, NewKey(1), {{NewFixed(12, 128)}}).ok());
  EXPECT_EQ(FileBytes(), 2 * kLarge) << "the fork shares the span";
  EXPECT_THAT(TurnsWithSnapshots(second), ElementsAre(second));
  EXPECT_THAT(TurnsWithSnapshots(of_fork), ElementsAre(of_fork));

  ASSERT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(4)}), absl::StatusCode::kOk);
  ASSERT_EQ(*store_->Collect(At(40)), 1u);
  EXPECT_TRUE(Has(1)) << "the fork needs it";
  EXPECT_FALSE(Has(2) || Has(11));
  EXPECT_TRUE(Has(12));
  EXPECT_EQ(*CollectNow(), kLarge);
  EXPECT_EQ(FileBytes(), kLarge);
  ExpectSound();
  ASSERT_EQ(CodeOf(CloseSession{.key = fork.key, .fence = {}, .now = At(5)}),
            absl::StatusCode::kOk);
  ASSERT_EQ(*store_->Collect(At(40)), 2u);
  EXPECT_FALSE(Has(1) || Has(12));
  EXPECT_EQ(*CollectNow(), kLarge);
  EXPECT_EQ(FileBytes(), 0u);
  ExpectSound();
}

TEST_P(SnapshotStoreTest, DroppedSnapshotsGoUnlessAHeadIsThere) {
  Open(NewSession(7));
  std::vector<TurnNumber> turns;
  for (uint64_t i = 1; i <= 3; ++i) {
    turns.push_back(CommitOne(*store_, key_, i, 10 * i));
    ASSERT_TRUE(AddOne(*store_, turns.back(), i, {}, {{NewFixed(i, 10 * i)}}).ok());
  }
  SessionRow fork = NewSession(8);
  fork.head = turns[1];
  Open(fork);
  const TurnNumber last = CommitOne(*store_, key_, 4, 40);
  ASSERT_TRUE(
      AddOne(*store_, last, 4, {}, {{NewFixed(4, 40)}}, {turns[0], turns[1], turns[2], last, 12345})
          .ok());
  EXPECT_THAT(TurnsWithSnapshots(last), ElementsAre(last, turns[1]));
  EXPECT_FALSE(Has(1) || Has(3));
  EXPECT_TRUE(Has(2) && Has(4));
  ExpectSound();
}

TEST_P(SnapshotStoreTest, OneSnapshotOfEachCacheAndTheNextTakesItsPlace) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  const auto add = [&](const char* cache, uint64_t fixed) {
    const auto written = WriteAll(*store_, {{NewFixed(fixed, 10)}});
    const SnapshotRow row = {.turn = turn, .cache = cache, .span = {}, .fixed = NewKey(fixed)};
    return ApplyOne(*store_, AddSnapshot{"", row, *written, {}}).status();
  };
  ASSERT_TRUE(add("a", 1).ok());
  ASSERT_TRUE(add("b", 2).ok());
  ASSERT_TRUE(add("a", 3).ok());
  EXPECT_EQ(store_->Snapshots(turn, 1)->size(), 2u);
  EXPECT_FALSE(Has(1));
  EXPECT_TRUE(Has(2) && Has(3));
  ASSERT_TRUE(add("a", 3).ok()) << "with the same segments";
  EXPECT_TRUE(Has(3));
  ExpectSound();
}

TEST_P(SnapshotStoreTest, FindsTheNearestSnapshotsOnThePath) {
  Open(NewSession(7));
  std::vector<TurnNumber> turns;
  for (uint64_t i = 1; i <= 6; ++i) {
    turns.push_back(CommitOne(*store_, key_, i, 10 * i));
    if (i % 2 == 0) {
      ASSERT_TRUE(AddOne(*store_, turns.back(), i, {}, {{NewFixed(i, 10 * i)}}).ok());
    }
  }
  EXPECT_THAT(TurnsWithSnapshots(turns[5]), ElementsAre(turns[5], turns[3], turns[1]));
  EXPECT_THAT(TurnsWithSnapshots(turns[2]), ElementsAre(turns[1]));
  EXPECT_EQ(store_->Snapshots(turns[5], 3)->size(), 2u) << "of three turns";
  EXPECT_THAT(*store_->Snapshots(turns[5], 0), IsEmpty());
  EXPECT_THAT(*store_->Snapshots(kNoTurn, 3), IsEmpty());
  EXPECT_EQ(store_->Snapshots(12345, 3).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SnapshotStoreTest, ACollectedTurnHasNoSnapshot) {
  Open(NewSession(7));
  const TurnNumber rewound = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, rewound, 1, {}, {{NewFixed(1, 10)}}).ok());
  ASSERT_EQ(CodeOf(MoveHead{FenceOf(*store_, key_), kNoTurn, At(3)}), absl::StatusCode::kOk);
  EXPECT_TRUE(Has(1));
  ASSERT_EQ(*store_->Collect(At(40)), 1u);
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(AddOne(*store_, rewound, 1, {}, {{NewFixed(1, 10)}}).code(),
            absl::StatusCode::kNotFound);
  ExpectSound();
}

TEST_P(SnapshotStoreTest, ACollectedSegmentStaysReadableForAWhileAndIsWrittenAnew) {
  Open(NewSession(7));
  const TurnNumber first = CommitOne(*store_, key_, 1, 10),
                   second = CommitOne(*store_, key_, 2, 20);
  ASSERT_TRUE(AddOne(*store_, first, 1, {}, {{NewFixed(1, 10), kLarge}}).ok());
  const auto reader = store_->ReadSegment("", NewKey(1));
  ASSERT_TRUE(AddOne(*store_, second, 2, {}, {{NewFixed(2, 20)}}, {first}).ok());
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(AddOne(*store_, first, 1, {}, {}).code(), absl::StatusCode::kFailedPrecondition)
      << "a collected segment is never used again";
  ASSERT_TRUE(AddOne(*store_, first, 1, {}, {{NewFixed(1, 10), kLarge}}).ok());
  EXPECT_EQ(FileBytes(), 2 * kLarge);

  EXPECT_EQ(*store_->CollectSegments({.now = At(0)}), 0u) << "dead since now";
  EXPECT_EQ(*store_->CollectSegments({.now = At(599)}), 0u);
  EXPECT_EQ(*store_->CollectSegments({.now = At(600)}), kLarge);
  EXPECT_EQ(FileBytes(), kLarge);
  EXPECT_TRUE(*ReadAll(*store_, "", NewKey(1)) == SegmentBytes(NewKey(1), kLarge));
  std::string bytes(kLarge, '\0');
  const auto got = (*reader)->Read(absl::MakeSpan(bytes.data(), bytes.size()));
  ASSERT_TRUE(got.ok()) << "it was opened before: " << got.status();
  EXPECT_TRUE(bytes == SegmentBytes(NewKey(1), kLarge));
  ExpectSound();
}

TEST_P(SnapshotStoreTest, AClockThatJumpsBackOnlyDelaysTheRemoval) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, turn, 1, {}, {{NewFixed(1, 10), kLarge}}).ok());
  ASSERT_TRUE(AddOne(*store_, turn, 2, {}, {{NewFixed(2, 10)}}).ok());
  EXPECT_EQ(*store_->CollectSegments({.now = At(100'000)}), 0u);
  EXPECT_EQ(*store_->CollectSegments({.now = At(0)}), 0u);
  EXPECT_EQ(*store_->CollectSegments({.now = At(600)}), kLarge);
}

// A segment that was written again takes the place of the old one, whose bytes may be damaged.
TEST_P(SnapshotStoreTest, AWrittenSegmentTakesThePlaceOfTheOldOne) {
  Open(NewSession(7));
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  const std::vector<SegmentToWrite> both = {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 10), kLarge}};
  const auto first = WriteAll(*store_, both), second = WriteAll(*store_, both);
  const SnapshotRow row = {.turn = turn, .cache = "", .span = NewKey(1), .fixed = NewKey(2)};
  ASSERT_EQ(CodeOf(AddSnapshot{"", row, *first, {}}), absl::StatusCode::kOk);
  ASSERT_EQ(CodeOf(AddSnapshot{"", row, *second, {}}), absl::StatusCode::kOk);
  ASSERT_EQ(CodeOf(AddSnapshot{"", row, *second, {}}), absl::StatusCode::kOk) << "the same again";
  EXPECT_EQ(FileBytes(), 4 * kLarge);
  EXPECT_EQ(*CollectNow(), 2 * kLarge);
  for (const uint64_t key : {1, 2}) {
    EXPECT_TRUE(*ReadAll(*store_, "", NewKey(key)) == SegmentBytes(NewKey(key), kLarge));
  }
  ExpectSound();
}

TEST_P(SnapshotStoreTest, BeyondTheLimitTheOldestSnapshotsGoFirst) {
  constexpr uint64_t kMany = 60;
  std::vector<TurnNumber> turns;
  for (uint64_t i = 0; i < kMany; ++i) {
    const SessionRow row = NewSession(100 + i);
    Open(row);
    turns.push_back(CommitOne(*store_, row.key, 1, 10));
    ASSERT_TRUE(AddOne(*store_, turns.back(), i, {}, {{NewFixed(i, 10), 70'000}}).ok());
  }
  EXPECT_EQ(*CollectNow(70'000 * kMany), 0u);
  const auto removed = CollectNow(70'000 * 20);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_GE(*removed, 70'000u * 40);
  EXPECT_LE(FileBytes(), 70'000u * 20);
  EXPECT_FALSE(Has(0));
  EXPECT_TRUE(Has(kMany - 1));
  EXPECT_THAT(TurnsWithSnapshots(turns[0]), IsEmpty());
  EXPECT_THAT(TurnsWithSnapshots(turns.back()), ElementsAre(turns.back()));
  ASSERT_TRUE(CollectNow(0).ok());
  EXPECT_EQ(FileBytes(), 0u);
  ExpectSound();
}

TEST_P(SnapshotStoreTest, ALongChainOfSpansIsCollectedWhole) {
  Open(NewSession(7));
  constexpr uint64_t kMany = 2500;  // more than a driver looks at in one transaction
  std::vector<SegmentToWrite> segments = {{NewFixed(0, 1)}};
  for (uint64_t i = 1; i <= kMany; ++i) {
    segments.push_back({NewSpan(i, i, i == 1 ? std::nullopt : std::optional(NewKey(i - 1))), 10});
  }
  const TurnNumber turn = CommitOne(*store_, key_, 1, 10);
  ASSERT_TRUE(AddOne(*store_, turn, 0, NewKey(kMany), segments).ok());
  const auto rows = store_->Segments("", store_->Snapshots(turn, 1)->front());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), kMany + 1);
  EXPECT_EQ(rows->front().key, NewKey(1));
  EXPECT_EQ(rows->back().key, NewKey(0));
  ASSERT_EQ(CodeOf(CloseSession{.key = key_, .fence = {}, .now = At(4)}), absl::StatusCode::kOk);
  ASSERT_EQ(*store_->Collect(At(40)), 1u);
  EXPECT_FALSE(Has(0) || Has(1) || Has(kMany));
  ExpectSound();
}

// Threads write the same segments, read them and collect them. Every segment that is read has the
// bytes that were written.
TEST_P(SnapshotStoreTest, ThreadsShareSegments) {
  constexpr uint64_t kThreads = 4, kRounds = 25;
  std::vector<TurnNumber> turns;
  for (uint64_t i = 0; i < kThreads; ++i) {
    Open(NewSession(100 + i));
    turns.push_back(CommitOne(*store_, NewSession(100 + i).key, 1, 10));
  }
  std::atomic<int> num_added = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t round = 0; round < kRounds; ++round) {
        const absl::Status added =
            AddOne(*store_, turns[i], 1000 + round, NewKey(round),
                   {{NewSpan(round, 0, {}), 70'000}, {NewFixed(1000 + round, 10)}});
        EXPECT_TRUE(added.ok()) << added;
        num_added += added.ok() ? 1 : 0;
        if (i == 0) {
          EXPECT_TRUE(CollectNow().ok());
        }
        const auto bytes = ReadAll(*store_, "", NewKey(round));
        EXPECT_TRUE(!bytes.ok() || *bytes == SegmentBytes(NewKey(round), 70'000));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_added, static_cast<int>(kThreads * kRounds));
  ASSERT_TRUE(CollectNow().ok());
  EXPECT_EQ(FileBytes(), 70'000u) << "all turns have the last span";
  EXPECT_TRUE(*ReadAll(*store_, "", NewKey(kRounds - 1)) ==
              SegmentBytes(NewKey(kRounds - 1), 70'000));
  ExpectSound();
}

TEST_P(SnapshotStoreTest, TheBytesOfAHead) {
  Open(NewSession(7));
  EXPECT_EQ(*store_->HeadBytes("", kNoTurn), 0u);
  const auto turn_bytes = [&](TurnNumber turn) {
    const auto row = store_->Turn(turn);
    EXPECT_TRUE(row.ok()) << row.status();
    return row->request.size() + row->result.size();
  };
  const TurnNumber first = CommitOne(*store_, key_, 1, 10);
  EXPECT_EQ(*store_->HeadBytes("", first), turn_bytes(first));
  ASSERT_TRUE(
      AddOne(*store_, first, 2, NewKey(1), {{NewSpan(1, 0, {}), kLarge}, {NewFixed(2, 10), 30}})
          .ok());
  EXPECT_EQ(*store_->HeadBytes("", first), turn_bytes(first) + kLarge + 30);
  EXPECT_EQ(*store_->HeadBytes("other", first), turn_bytes(first)) << "segments of a tenant";

  const TurnNumber second = CommitOne(*store_, key_, 2, 20);
  EXPECT_EQ(*store_->HeadBytes("", second), turn_bytes(first) + turn_bytes(second) + kLarge + 30);
  ASSERT_TRUE(AddOne(*store_, second, 4, NewKey(3),
                     {{NewSpan(3, 1, NewKey(1)), 500}, {NewFixed(4, 20), 40}})
                  .ok());
  const uint64_t both = turn_bytes(first) + turn_bytes(second) + kLarge + 30 + 500 + 40;
  EXPECT_EQ(*store_->HeadBytes("", second), both) << "the span that both need counts once";
  EXPECT_EQ(*store_->HeadBytes("", first), turn_bytes(first) + kLarge + 30);
  Reopen();
  EXPECT_EQ(*store_->HeadBytes("", second), both);
}

TEST_P(SnapshotStoreTest, TheBytesOfAHeadOfManyTurns) {
  Open(NewSession(7));
  constexpr uint64_t kTurns = 600;  // more than are read at once
  uint64_t bytes = 0;
  TurnNumber last = kNoTurn;
  for (uint64_t i = 1; i <= kTurns; ++i) {
    last = CommitOne(*store_, key_, i, i);
    const auto row = store_->Turn(last);
    ASSERT_TRUE(row.ok()) << row.status();
    bytes += row->request.size() + row->result.size();
  }
  EXPECT_EQ(*store_->HeadBytes("", last), bytes);
}

INSTANTIATE_TEST_SUITE_P(Drivers, SnapshotStoreTest, AllDrivers(), NameOfDriver);

}  // namespace
}  // namespace longstream::store
