// Caches come back from a disk that hangs, is slow, fails or is full: no turn waits for it for
// long, none fails, and each has the tokens of an undisturbed run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "service/engine/policy/join_spans.h"
#include "tests/service/serving/caches/kept_sessions.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream {
namespace {

using testing::HasSubstr;

const TestModel kDense{LONGSTREAM_BINARY_DIR "/plugins/dense.cpu.so",
                       LONGSTREAM_SOURCE_DIR "/models/demo/dense"};
constexpr uint64_t kTokens = 4;

std::string Text(int turn) { return std::string(160, static_cast<char>('a' + turn)); }

// Lets accesses of a disk pass, wait or fail.
class Gate {
 public:
  // From the `after`-th access from now on, `count` accesses wait.
  void Close(int after = 0, int count = 1 << 30) {
    absl::MutexLock lock(&mutex_);
    first_ = num_ + after;
    end_ = first_ + count;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    end_ = first_ = 0;
  }
  // The `after`-th access from now on fails.
  void Fail(int after) {
    absl::MutexLock lock(&mutex_);
    fails_ = num_ + after;
  }
  absl::Status Pass() {
    absl::MutexLock lock(&mutex_);
    const int number = num_++;
    if (number == fails_) return absl::UnavailableError("the disk failed");
    if (number < first_ || number >= end_) return absl::OkStatus();
    ++waiting_;
    const auto open = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return end_ == 0; };
    mutex_.Await(absl::Condition(&open));
    --waiting_;
    return absl::OkStatus();
  }
  // Waits until so many accesses wait.
  void WaitFor(int waiting) {
    absl::MutexLock lock(&mutex_);
    const auto wait = [this, waiting]()
                          ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_ == waiting; };
    mutex_.Await(absl::Condition(&wait));
  }

 private:
  absl::Mutex mutex_;
  int num_ ABSL_GUARDED_BY(mutex_) = 0;
  int first_ ABSL_GUARDED_BY(mutex_) = 0;
  int end_ ABSL_GUARDED_BY(mutex_) = 0;
  int fails_ ABSL_GUARDED_BY(mutex_) = -1;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class KeptRestores : public testing::Test {
 protected:
  explicit KeptRestores(absl::Duration restore_limit = absl::Hours(1), uint64_t cache_bytes = 0)
      : sessions_(kDense, cache_bytes, "{}", restore_limit) {
    disk_.SetBeforeRead([this](const std::string&) { return reads_.Pass(); });
    disk_.SetBeforeCreate([this] { creates_.Pass().IgnoreError(); });
    sessions_.Stop();
    sessions_.SetDisk(&disk_);
    sessions_.Start();
  }
  ~KeptRestores() override {
    reads_.Open();
    creates_.Open();
    sessions_.Stop();
  }

  KeptTurn Run(const SessionId& session, int turn) {
    const int saves = sessions_.Saves("ok");
    const KeptTurn result = sessions_.Turn(session, Text(turn), kTokens);
    sessions_.WaitForSaves(saves + 1);
    return result;
  }
  // A session with one turn, whose caches are only in the store.
  SessionId Stored() {
    const SessionId session = sessions_.Open();
    Run(session, 0);
    return session;
  }
  // The turns of a session that nothing disturbs.
  std::vector<KeptTurn> Undisturbed(int end) {
    const SessionId session = sessions_.Open();
    std::vector<KeptTurn> turns;
    for (int turn = 0; turn < end; ++turn) turns.push_back(Run(session, turn));
    return turns;
  }
  // Evicts the caches, and runs a turn that reads them.
  void ExpectRestored(const SessionId& session, int turn, const std::vector<KeptTurn>& expected) {
    sessions_.Evict();
    const KeptTurn result = Run(session, turn);
    const auto i = static_cast<size_t>(turn);
    EXPECT_EQ(result.tokens, expected[i].tokens);
    EXPECT_EQ(result.end.usage.restored_tokens, expected[i - 1].end.position - 1);
  }
  uint64_t Reserved() { return sessions_.engine().model().backend().memory().reserved; }
  // Lets all reads go on, and waits until they have ended. A cancelled turn does not wait for its
  // read, so another turn's accesses would be counted together with those of this read.
  void EndReads() {
    reads_.Open();
    sessions_.Restart();
  }

  store::FaultyDirectory disk_;
  Gate reads_;
  Gate creates_;
  KeptSessions sessions_;
};

class LimitedKeptRestores : public KeptRestores {
 protected:
  LimitedKeptRestores() : KeptRestores(absl::Milliseconds(1)) {}
};

TEST_F(LimitedKeptRestores, OfADiskThatHangsAreComputed) {
  constexpr int kStages = 4;
  const std::vector<KeptTurn> expected = Undisturbed(kStages + 1);
  const SessionId session = Stored();
  for (int stage = 0; stage < kStages; ++stage) {
    SCOPED_TRACE(stage);
    sessions_.Evict();
    reads_.Close(stage);
    const KeptTurn turn = Run(session, stage + 1);
    EXPECT_EQ(turn.tokens, expected[static_cast<size_t>(stage) + 1].tokens);
    EXPECT_EQ(turn.end.usage.restored_tokens, 0u);
    EXPECT_THAT(turn.end.usage.recompute_reason, HasSubstr("longer than computing"));
    EXPECT_EQ(sessions_.Restores("slow"), stage + 1);
    reads_.Open();
  }
  EXPECT_EQ(sessions_.Restores("ok"), 0);
}

TEST_F(KeptRestores, GoOnBesideASlowOne) {
  const std::vector<KeptTurn> expected = Undisturbed(2);
  const SessionId slow = Stored();
  const SessionId other = Stored();
  sessions_.Evict();
  reads_.Close(0, 1);
  const TurnHandle turn = sessions_.StartTurn(slow, Text(1), kTokens);
  reads_.WaitFor(1);
  const KeptTurn result = Run(other, 1);
  EXPECT_EQ(result.tokens, expected[1].tokens);
  EXPECT_EQ(result.end.usage.restored_tokens, expected[0].end.position - 1);
  reads_.Open();
  const KeptTurn late = sessions_.ReadTurn(turn);
  EXPECT_EQ(late.tokens, expected[1].tokens);
  EXPECT_EQ(late.end.usage.restored_tokens, expected[0].end.position - 1);
}

TEST_F(KeptRestores, AreRefusedAtOnceWhileAllReadersHang) {
  const std::vector<KeptTurn> expected = Undisturbed(3);
  constexpr int kReaders = 4;
  std::vector<SessionId> hanging;
  for (int i = 0; i < kReaders; ++i) hanging.push_back(Stored());
  const SessionId session = Stored();
  sessions_.Evict();
  const uint64_t reserved = Reserved();
  reads_.Close();
  std::vector<TurnHandle> turns;
  for (const SessionId& id : hanging) turns.push_back(sessions_.StartTurn(id, Text(1), kTokens));
  reads_.WaitFor(kReaders);
  for (TurnHandle& turn : turns) {
    turn.Cancel();
    EXPECT_TRUE(absl::IsCancelled(sessions_.ReadTurn(turn).end.status));
  }
  sessions_.engine().Flush();
  EXPECT_EQ(Reserved(), reserved) << "the readers have not ended";
  EXPECT_EQ(sessions_.Restores("cancelled"), kReaders);
  const KeptTurn turn = Run(session, 1);
  EXPECT_EQ(turn.tokens, expected[1].tokens);
  EXPECT_THAT(turn.end.usage.recompute_reason, HasSubstr("hangs"));
  EXPECT_EQ(sessions_.Restores("failed"), 1);
  EndReads();
  ExpectRestored(session, 2, expected);
  for (const SessionId& id : hanging) EXPECT_EQ(Run(id, 1).tokens, expected[1].tokens);
}

TEST_F(KeptRestores, CanBeCancelledAtEveryAccessOfTheDisk) {
  const std::vector<KeptTurn> expected = Undisturbed(2);
  const SessionId session = Stored();
  constexpr int kStages = 4;
  for (int stage = 0; stage < kStages; ++stage) {
    SCOPED_TRACE(stage);
    sessions_.Evict();
    const uint64_t reserved = Reserved();
    reads_.Close(stage);
    TurnHandle turn = sessions_.StartTurn(session, Text(1), kTokens);
    reads_.WaitFor(1);
    turn.Cancel();
    EXPECT_TRUE(absl::IsCancelled(sessions_.ReadTurn(turn).end.status));
    sessions_.engine().Flush();
    EXPECT_EQ(Reserved(), reserved);
    EndReads();
  }
  ExpectRestored(session, 1, expected);
}

// Such an error is of the moment, so the snapshot is tried again.
TEST_F(KeptRestores, OfADiskThatFailsInTheMiddleAreComputed) {
  const std::vector<KeptTurn> expected = Undisturbed(3);
  const SessionId session = Stored();
  sessions_.Evict();
  reads_.Fail(2);
  const KeptTurn turn = Run(session, 1);
  EXPECT_EQ(turn.tokens, expected[1].tokens);
  EXPECT_EQ(turn.end.usage.restored_tokens, 0u);
  EXPECT_EQ(sessions_.Restores("failed"), 1);
  ExpectRestored(session, 2, expected);
}

// Its bytes are those that were written, but they are no caches.
TEST_F(KeptRestores, OfASnapshotThatTheBackendRefusesAreNotTriedAgain) {
  const std::vector<KeptTurn> expected = Undisturbed(3);
  const SessionId session = Stored();
  const store::SnapshotRow row = sessions_.Snapshots(session)[0];
  const auto fixed = sessions_.store().FindSegment("", row.fixed);
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  const auto writer = sessions_.store().WriteSegments();
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Begin(*fixed).ok());  // without bytes
  const auto written = (*writer)->Finish();
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_TRUE(store::ApplyOne(sessions_.store(), store::AddSnapshot{"", row, *written, {}}).ok());
  disk_.SetFull(true);
  sessions_.Evict();
  EXPECT_EQ(sessions_.Turn(session, Text(1), kTokens).tokens, expected[1].tokens);
  EXPECT_EQ(sessions_.Restores("ok"), 1) << "all bytes were read";
  sessions_.Evict();
  const KeptTurn third = sessions_.Turn(session, Text(2), kTokens);
  EXPECT_EQ(third.tokens, expected[2].tokens);
  EXPECT_EQ(sessions_.Restores("ok"), 1);
}

TEST_F(KeptRestores, AreKnownToAForkThatWasMadeWhileTheyWereWritten) {
  const SessionId session = Stored();
  creates_.Close();
  const int saves = sessions_.Saves("ok");
  sessions_.Turn(session, Text(1), kTokens);
  creates_.WaitFor(1);
  const SessionView fork = sessions_.Fork(session);
  creates_.Open();
  sessions_.WaitForSaves(saves + 1);
  sessions_.Evict();
  const KeptTurn third = Run(fork.id, 2);
  const std::vector<KeptTurn> expected = Undisturbed(3);
  EXPECT_EQ(third.tokens, expected[2].tokens);
  EXPECT_EQ(third.end.usage.restored_tokens, expected[1].end.position - 1);
}

// A turn can have a snapshot for each of several kernels.
TEST_F(KeptRestores, KeepTheLastTurnsHoweverManySnapshotsEachHas) {
  const SessionId session = sessions_.Open();
  constexpr int kTurns = 5;
  for (int turn = 0; turn < kTurns; ++turn) {
    Run(session, turn);
    store::SnapshotRow row = sessions_.Snapshots(session)[0];
    row.cache += " of others";
    ASSERT_TRUE(store::ApplyOne(sessions_.store(), store::AddSnapshot{"", row, nullptr, {}}).ok());
    sessions_.Restart();
  }
  EXPECT_EQ(sessions_.Snapshots(session).size(), 2u * kTurns);
}

TEST_F(KeptRestores, OfManySmallTurnsHaveFewSegments) {
  constexpr int kTurns = static_cast<int>(kMostSpans) + 3;
  const auto run = [&](const SessionId& session) {
    const int saves = sessions_.Saves("ok");
    const KeptTurn turn = sessions_.Turn(session, std::string(62, 'a'), kTokens);
    sessions_.WaitForSaves(saves + 1);
    return turn;
  };
  const SessionId session = sessions_.Open(), undisturbed = sessions_.Open();
  KeptTurn last;
  for (int turn = 0; turn < kTurns; ++turn) {
    last = run(session);
    EXPECT_EQ(run(undisturbed).tokens, last.tokens);
  }
  const auto segments = sessions_.store().Segments("", sessions_.Snapshots(session)[0]);
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_LE(segments->size(), kMostSpans + 1);
  uint64_t end = 0;
  for (const store::SegmentRow& segment : *segments) {
    if (segment.kind == store::SegmentKind::kFixed) continue;
    EXPECT_EQ(segment.begin, end);
    end = segment.end;
  }
  const KeptTurn expected = run(undisturbed);
  sessions_.Restart();
  const KeptTurn next = run(session);
  EXPECT_EQ(next.tokens, expected.tokens);
  EXPECT_EQ(next.end.usage.restored_tokens, last.end.position - 1);
}

// Memory for one long session.
class ScarceKeptRestores : public KeptRestores {
 protected:
  ScarceKeptRestores() : KeptRestores(absl::Hours(1), CacheBytes()) {}

  static uint64_t CacheBytes() {
    TestEngine engine("{}", 0, {}, kDense);
    return TurnDemand::Held(engine->model().backend().info(), kLong);
  }

  static constexpr uint64_t kLong = 400;
};

TEST_F(ScarceKeptRestores, SnapshotsAreGivenUpForATurnThatWaitsForTheirMemory) {
  creates_.Close();
  const SessionId first = sessions_.Open(), second = sessions_.Open(), third = sessions_.Open();
  sessions_.Turn(first, Text(0), kTokens);
  creates_.WaitFor(1);
  sessions_.Turn(second, Text(0), kTokens);
  // Both are evicted, but their snapshots hold pages.
  const TurnHandle turn = sessions_.StartTurn(third, Text(0), kLong - Text(0).size() - 1);
  while (!sessions_.engine().lacks_memory()) absl::SleepFor(absl::Milliseconds(1));
  creates_.Open();
  const KeptTurn result = sessions_.ReadTurn(turn);
  EXPECT_TRUE(result.end.status.ok()) << result.end.status;
  EXPECT_EQ(sessions_.Saves("given_up"), 1);
  sessions_.WaitForSaves(2);  // of the first session, and a second later of the third one
  EXPECT_EQ(sessions_.Snapshots(first).size(), 1u);
  EXPECT_TRUE(sessions_.Snapshots(second).empty());
  EXPECT_EQ(sessions_.Snapshots(third).size(), 1u);
}

}  // namespace
}  // namespace longstream
