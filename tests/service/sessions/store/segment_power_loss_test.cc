// Power fails at a random write of the log or of a segment, or only the disk under the segments
// fails. Afterwards every acknowledged snapshot is there with all its bytes, no snapshot has a
// segment with other bytes, and a fault of the segments' disk has not hurt the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/service/sessions/store/faulty_vfs.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::IsEmpty;

// A session whose every turn adds a span and a fixed block.
struct KnownSegment {
  SessionKey key;
  std::optional<SegmentKey> span = std::nullopt;  // of the last snapshot that is there for sure
  uint64_t num_spans = 0;
  TurnNumber last_snapshot = kNoTurn;
  uint64_t num_turns = 0;
};

// A seed, and whether segments are sealed.
class SegmentPowerLossTest : public testing::TestWithParam<std::tuple<uint64_t, bool>> {
 protected:
  static constexpr uint64_t kSessions = 4;

  void Open() {
    auto store = SqliteStore::Open(
        directory_.string(), {.vfs = disk_.name(),
                              .segments = [this] { return segments_.View(); },
                              .sealing = std::get<1>(GetParam()) ? SealedWith("a") : Sealing()});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    for (uint64_t id = known_.size() + 1; id <= kSessions; ++id) {
      ASSERT_TRUE(ApplyOne(*store_, OpenSession{NewSession(id)}).ok());
      known_.push_back({.key = NewSession(id).key});
    }
  }

  size_t DrawSize() { return random_() % (random_() % 2 == 0 ? 300'000 : 1'000); }

  // Adds a snapshot of a new turn, which drops the one before it. Returns what failed.
  absl::Status Step() {
    if (random_() % 8 == 0) return CollectFiles();
    KnownSegment& known = known_[random_() % known_.size()];
    const TurnNumber turn = CommitOne(*store_, known.key, 1'000'000 + ++last_key_, 10);
    if (turn == kNoTurn) return absl::UnavailableError("the log");
    const SegmentRow span = NewSpan(++last_key_, known.num_spans, known.span);
    const SegmentRow fixed = NewFixed(++last_key_, 10);
    sizes_[span.key] = DrawSize();
    sizes_[fixed.key] = DrawSize();
    const auto written = WriteAll(*store_, {{span, sizes_[span.key]}, {fixed, sizes_[fixed.key]}});
    if (!written.ok()) return written.status();
    AddSnapshot add{
        "", {.turn = turn, .cache = "c", .span = span.key, .fixed = fixed.key}, *written, {}};
    if (known.last_snapshot != kNoTurn) add.drop.push_back(known.last_snapshot);
    const absl::Status status = ApplyOne(*store_, add).status();
    if (absl::IsUnknown(status)) {
      maybe_.insert(turn);
      maybe_.insert(add.drop.begin(), add.drop.end());
    }
    if (!status.ok()) return status;
    expected_[turn] = add.snapshot;
    if (known.last_snapshot != kNoTurn) expected_.erase(known.last_snapshot);
    known.last_snapshot = turn;
    known.span = span.key;
    ++known.num_spans;
    ++acknowledged_;
    return absl::OkStatus();
  }

  absl::Status CollectFiles() {
    return store_->CollectSegments({.now = At(0), .remove_after = absl::ZeroDuration()}).status();
  }

  // Compares all snapshots with what is known, and learns from those whose outcome was unknown.
  void Compare() {
    for (KnownSegment& known : known_) {
      const auto session = store_->Session(known.key);
      ASSERT_TRUE(session.ok()) << session.status();
      const auto snapshots = store_->Snapshots(session->head, 1'000'000);
      ASSERT_TRUE(snapshots.ok()) << snapshots.status();
      std::set<TurnNumber> found;
      for (const SnapshotRow& snapshot : *snapshots) {
        found.insert(snapshot.turn);
        ASSERT_NO_FATAL_FAILURE(CompareSegments(snapshot));
        const auto expected = expected_.find(snapshot.turn);
        ASSERT_TRUE(expected != expected_.end() ? expected->second == snapshot
                                                : maybe_.contains(snapshot.turn));
      }
      if (known.last_snapshot != kNoTurn && !maybe_.contains(known.last_snapshot)) {
        ASSERT_TRUE(found.contains(known.last_snapshot)) << known.last_snapshot;
      }
      ASSERT_LE(found.size(), 1u);
      if (found.empty()) continue;
      expected_.erase(known.last_snapshot);
      expected_[snapshots->front().turn] = snapshots->front();
      known.last_snapshot = snapshots->front().turn;
      known.span = snapshots->front().span;
      known.num_spans = store_->Segments("", snapshots->front())->size() - 1;
    }
    maybe_.clear();
    ASSERT_THAT(*store_->Check(10), IsEmpty());
    // A crash may have left the rows of files that were removed.
    ASSERT_TRUE(CollectFiles().ok());
    uint64_t bytes = 0;
    for (const auto& [name, content] : segments_.Files()) bytes += content.size();
    EXPECT_EQ(store_->Bytes().back().bytes, bytes) << "files without a row have gone";
  }

  void CompareSegments(const SnapshotRow& snapshot) {
    const auto rows = store_->Segments("", snapshot);
    ASSERT_TRUE(rows.ok()) << rows.status();
    for (const SegmentRow& row : *rows) {
      const auto bytes = ReadAll(*store_, "", row.key);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      ASSERT_TRUE(*bytes == SegmentBytes(row.key, sizes_.at(row.key)));
    }
  }

  // The log takes changes although the disk under the segments has failed.
  void ExpectLogWorks() {
    EXPECT_EQ(store_->Health().state, StoreState::kOk) << store_->Health().reason;
    EXPECT_NE(CommitOne(*store_, known_[0].key, 1'000'000 + ++last_key_, 10), kNoTurn);
    ++log_goes_on_;
  }

  const TemporaryDirectory directory_;  // for the lock; all other files are on the disks
  FaultyDisk disk_;
  FaultyDirectory segments_;
  std::mt19937_64 random_{std::get<0>(GetParam())};
  std::unique_ptr<SqliteStore> store_;
  std::vector<KnownSegment> known_;
  std::map<TurnNumber, SnapshotRow> expected_;
  std::set<TurnNumber> maybe_;  // snapshots that a change of unknown outcome has added or dropped
  std::map<SegmentKey, size_t> sizes_;
  uint64_t last_key_ = 0;
  int acknowledged_ = 0;
  int log_goes_on_ = 0;
};

TEST_P(SegmentPowerLossTest, AcknowledgedSnapshotsAreWholeAndTheLogGoesOn) {
  for (int round = 0; round < 70; ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_NO_FATAL_FAILURE(Compare());
    const uint64_t fault = random_() % 8;
    for (uint64_t steps = random_() % 4; steps > 0; --steps) ASSERT_TRUE(Step().ok());
    if (fault == 0) segments_.SetFsyncFails(true, false);
    if (fault == 1) segments_.SetFsyncFails(false, true);
    if (fault == 2) segments_.SetFull(true);
    if (fault == 3 || fault == 4) segments_.FailAfter(random_() % 40);
    if (fault > 4) disk_.FailAfter(random_() % 60);
    absl::Status status;
    for (int steps = 0; (status = Step()).ok(); ++steps) {
      ASSERT_LT(steps, 2000) << "nothing has failed";
    }
    if (fault <= 4) {
      ASSERT_NO_FATAL_FAILURE(ExpectLogWorks()) << status;
    }
    // The power has gone for both.
    disk_.FailAfter(0);
    segments_.FailAfter(0);
    store_.reset();
    disk_.LosePower(random_);
    segments_.LosePower(random_);
  }
  EXPECT_GT(acknowledged_, 100);
  EXPECT_GT(log_goes_on_, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SegmentPowerLossTest,
                         testing::Combine(testing::Range(uint64_t{1}, kEndOfSeeds),
                                          testing::Bool()));

}  // namespace
}  // namespace longstream::store
