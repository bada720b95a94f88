// Caches that have arrived with a session: the first call that uses it takes them, and a replica
// that gives the session away sends them on.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/serving/fleet/sent_caches.h"

namespace longstream {
namespace {

class ArrivedCachesTest : public SentCaches {
 protected:
  using SentCaches::SentCaches;

  // After a turn on `a_`, its session and its caches are on `b_`, and no call has used it there.
  void Move() {
    ASSERT_TRUE(Open(a_).ok());
    ASSERT_TRUE(Run(a_, kTurn).status().ok());
    SendTo(a_, b_, "b/2");
  }
  void SendTo(Replica& from, Replica& to, const std::string& owner) {
    Send(from, to, size_t{1} << 20);
    Replicas::Take(owner);
    from.copies().Drop({"", kId});
  }
  void ExpectCaches(Replica& on, const TurnId& turn, const SessionId& session = kId) {
    const FleetTurn next = Run(on, turn, 10, session);
    EXPECT_TRUE(next.status().ok()) << next.status();
    EXPECT_EQ(next.end.usage.recomputed_tokens, 0u) << next.end.usage.recompute_reason;
    EXPECT_NE(next.end.usage.restore_source, RestoreSource::kStore);
  }
};

TEST_F(ArrivedCachesTest, ARewindTakesThem) {
  Move();
  if (HasFatalFailure()) return;
  const absl::StatusOr<SessionView> rewound = RewindTo(b_, Row().position);
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  ExpectCaches(b_, kNext);
  EXPECT_EQ(b_.restores, 1);
}

TEST_F(ArrivedCachesTest, ACancelTakesThem) {
  Move();
  if (HasFatalFailure()) return;
  EXPECT_EQ(Cancel(b_, {7, 77}).status().code(), absl::StatusCode::kNotFound);
  ExpectCaches(b_, kNext);
}

TEST_F(ArrivedCachesTest, AForkHasThemToo) {
  constexpr SessionId kFork{3, 4};
  Move();
  if (HasFatalFailure()) return;
  const absl::StatusOr<SessionView> fork = Fork(b_, kFork);
  ASSERT_TRUE(fork.ok()) << fork.status();
  ExpectCaches(b_, kNext, kFork);
  ExpectCaches(b_, kNext);
}

TEST_F(ArrivedCachesTest, AnExportHasThemToo) {
  Move();
  if (HasFatalFailure()) return;
  absl::StatusOr<std::shared_ptr<SessionExport>> exported;
  absl::Notification done;
  b_.sessions.ExportSession({"", kId}, [&](const auto& made) {
    exported = made;
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_TRUE(exported.ok()) << exported.status();
  std::string file;
  for (std::string piece = "x"; !piece.empty();) {
    ASSERT_TRUE((*exported)->Read(1000, &piece).ok());
    file += piece;
  }
  SessionImport::Wanted wanted;
  wanted.id = SessionId{3, 4};
  const auto import = a_.sessions.ImportSession("", wanted);
  ASSERT_TRUE(import.ok()) << import.status();
  absl::Notification written;
  (*import)->Write(file, [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    written.Notify();
  });
  written.WaitForNotification();
  const absl::StatusOr<SessionView> view =
      WaitForSession([&](SessionManager::Opened opened) { (*import)->Finish(std::move(opened)); });
  ASSERT_TRUE(view.ok()) << view.status();
  ExpectCaches(a_, kNext, *wanted.id);
}

// The call has come when the session was of this replica, but not yet its caches.
TEST_F(ArrivedCachesTest, ATurnThatWasLoadedBeforeThemIsNotDisturbed) {
  constexpr size_t kPiece = size_t{1} << 20;
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  const fleet::Fence from = At(Row());
  const std::shared_ptr<fleet::CacheReader> reader = Read(a_, from);
  ASSERT_NE(reader, nullptr);
  const auto writer = Take(b_, reader->header(), {from.key, from.epoch + 1, from.version + 1});
  ASSERT_TRUE(writer.ok()) << writer.status();
  Replicas::Take("b/2");
  a_.copies().Drop(from.key);
  absl::StatusOr<NewTurn> loaded = Load(b_, kNext);
  WriteAll(*reader, **writer, kPiece);
  if (HasFatalFailure()) return;
  // If a call looks whether they are for this session, the turn starts between two reads.
  store_->HoldSessionRead(1);
  b_.sessions.fleet()->SettleArrived(MonotonicTime::Now());
  for (int i = 0; i < 50 && store_->waiting() == 0; ++i) absl::SleepFor(absl::Milliseconds(5));
  FleetTurn turn;
  TurnHandle running = Begin(std::move(loaded), kNext, 200, &turn);
  EXPECT_TRUE(WaitUntil([&] { return b_.gate.Has("started OK"); }));
  store_->Release();
  ASSERT_TRUE(turn.refused.ok()) << turn.refused;
  ReadToEnd(running, &turn);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_FALSE(turn.tokens.empty());
}

// A client uses the session on a third replica before anybody has used it on the second one. Here
// the third one is the first one again.
TEST_F(ArrivedCachesTest, TheyAreSentOnBeforeTheSessionWasUsed) {
  const auto expected = Undisturbed({kTurn, kNext});
  Move();
  if (HasFatalFailure()) return;
  SendTo(b_, a_, "a/1");
  if (HasFatalFailure()) return;
  const FleetTurn turn = Run(a_, kNext);
  EXPECT_EQ(turn.tokens, expected[1]);
  EXPECT_EQ(turn.end.usage.recomputed_tokens, 0u) << turn.end.usage.recompute_reason;
}

// The peer that asked for the session did not take it.
TEST_F(ArrivedCachesTest, TheyStayWithASessionThatIsKept) {
  Move();
  if (HasFatalFailure()) return;
  const fleet::Fence from = At(Row());
  Replicas::Take("b/2");
  b_.copies().Keep(from, At(Row()));
  ExpectCaches(b_, kNext);
}

// The driver hears of the commit before the engine has ended the turn. If it drains, it offers the
// session at once.
TEST_F(ArrivedCachesTest, ASessionWhoseTurnJustEndsIsSentWithItsCaches) {
  ASSERT_TRUE(Open(a_).ok());
  std::shared_ptr<fleet::CacheReader> reader;
  absl::Notification read;
  a_.gate.SetOnCommitted([&] {
    const fleet::Fence at = At(Row());
    EXPECT_TRUE(a_.copies().FindCaches(at).ok());
    a_.copies().ReadCaches(at, [&](ServedCopies::Reading ready) {
      reader = ready.value_or(nullptr);
      read.Notify();
    });
  });
  EXPECT_TRUE(Run(a_, kTurn).status().ok());
  read.WaitForNotification();
  EXPECT_NE(reader, nullptr);
  a_.gate.SetOnCommitted(nullptr);
}

// Two replicas want the session: the offer to one of them has just begun.
TEST_F(ArrivedCachesTest, ASecondReaderWaitsForTheFirstOne) {
  constexpr SessionId kBusy{8, 8};
  ASSERT_TRUE(Open(a_, kBusy).ok());
  FleetTurn busy;
  TurnHandle running = Begin(Load(a_, kTurn, kBusy), kTurn, 100'000, &busy);
  ASSERT_TRUE(busy.refused.ok()) << busy.refused;
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  const fleet::Fence at = At(Row());
  std::shared_ptr<fleet::CacheReader> first;
  absl::Notification read;
  a_.copies().ReadCaches(at, [&](ServedCopies::Reading ready) {
    first = ready.value_or(nullptr);
    read.Notify();
  });
  EXPECT_NE(Read(a_, at), nullptr);
  read.WaitForNotification();
  EXPECT_NE(first, nullptr);
  a_.copies().Stop({"", kBusy}, absl::AbortedError("over"));
  ReadToEnd(running, &busy);
}

// The session is still of the other replica, so it cannot be restored here.
TEST_F(ArrivedCachesTest, AReaderHearsAtOnceThatTheSessionIsNotRestored) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Send(a_, b_, size_t{1} << 20);
  if (HasFatalFailure()) return;
  const std::optional<fleet::Fence> at = b_.copies().ArrivedFor({"", kId});
  ASSERT_TRUE(at.has_value());
  ServedCopies::Reading reading;
  absl::Notification read;
  b_.copies().ReadCaches(*at, [&](ServedCopies::Reading ready) {
    reading = std::move(ready);
    read.Notify();
  });
  EXPECT_TRUE(read.WaitForNotificationWithTimeout(kReadPatience / 2));
  read.WaitForNotification();
  EXPECT_EQ(reading.status().code(), absl::StatusCode::kAborted) << reading.status();
}

class HangingEngineTest : public ArrivedCachesTest {
 protected:
  static constexpr absl::Duration kPatience = absl::Milliseconds(500);
  HangingEngineTest() : ArrivedCachesTest(kPatience) {}
  ~HangingEngineTest() override { go_on_->Notify(); }

  // The engine answers the close of a session, and waits.
  void HangEngine() {
    constexpr SessionId kOther{3, 3};
    ASSERT_TRUE(Open(b_, kOther, Durability::kMemory).ok());
    absl::Notification hangs;
    b_.sessions.CloseSession(
        {"", kOther}, [&hangs, go_on = go_on_](const absl::StatusOr<uint64_t>& /*position*/) {
          hangs.Notify();
          go_on->WaitForNotification();
        });
    hangs.WaitForNotification();
  }

  // Shared with the engine's thread, which may still be in it when the test ends.
  const std::shared_ptr<absl::Notification> go_on_ = std::make_shared<absl::Notification>();
};

TEST_F(HangingEngineTest, OnlyOneCallOfASessionWaitsForIt) {
  Move();
  if (HasFatalFailure()) return;
  HangEngine();
  if (HasFatalFailure()) return;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 20; ++i) {
    const absl::Status rewind = RewindTo(b_, Row().position).status();
    EXPECT_TRUE(absl::IsUnavailable(rewind)) << rewind;
    const absl::Status turn = Load(b_, kNext).status();
    EXPECT_TRUE(absl::IsUnavailable(turn)) << turn;
    const absl::Status fork = Fork(b_, {8, 8}).status();
    EXPECT_TRUE(absl::IsUnavailable(fork)) << fork;
  }
  EXPECT_LT(absl::Now() - begin, 10 * kPatience);
}

TEST_F(ArrivedCachesTest, ReadersThatWaitAreAnsweredWhenTheServerEnds) {
  ASSERT_TRUE(Open(a_).ok());
  FleetTurn busy;
  TurnHandle running = Begin(Load(a_, kTurn), kTurn, 100'000, &busy);
  ASSERT_TRUE(busy.refused.ok()) << busy.refused;
  ASSERT_TRUE(WaitUntil([&] { return a_.gate.Has("started OK"); }));
  std::vector<absl::StatusCode> answers;  // by this thread, because StopReading answers
  const auto read = [&] {
    a_.copies().ReadCaches(At(Row()), [&](const ServedCopies::Reading& ready) {
      answers.push_back(ready.status().code());
    });
  };
  read();
  EXPECT_TRUE(answers.empty());
  a_.copies().StopReading();
  read();
  EXPECT_EQ(answers, std::vector(2, absl::StatusCode::kUnavailable));
  a_.copies().Stop({"", kId}, absl::AbortedError("over"));
  ReadToEnd(running, &busy);
}

}  // namespace
}  // namespace longstream
