// The disk of the store hangs: calls end with UNAVAILABLE within the commit timeout, the changes go
// on, and a repeated call finds its result. A drain does not wait for the disk.
#include "tests/service/serving/hanging_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr TurnId kTurn{7, 7};

using testing::HasSubstr;
using testing::Not;

TEST_F(HangingStoreTest, AnOpenIsUnavailableAndItsRepeatFindsTheSession) {
  Hang();
  ExpectLate([&] { return Open().status(); });
  ExpectLate([&] { return Open().status(); });  // waits for the first one
  GoOn();
  absl::StatusOr<SessionView> session;
  ASSERT_TRUE(WaitUntil([&] {
    session = Open();
    return !absl::IsUnavailable(session.status());
  }));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id, kId);
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 1u);
}

TEST_F(HangingStoreTest, AForkIsUnavailableAndItsRepeatFindsTheSession) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Hang();
  ExpectLate([&] { return Fork().status(); });
  GoOn();
  absl::StatusOr<SessionView> fork;
  ASSERT_TRUE(WaitUntil([&] {
    fork = Fork();
    return !absl::IsUnavailable(fork.status());
  }));
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  EXPECT_EQ(fork->forked_from, kId);
}

TEST_F(HangingStoreTest, ARewindIsUnavailableAndStillMade) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Hang();
  ExpectLate([&] { return RewindTo(6).status(); });
  EXPECT_EQ(RewindTo(6).status().code(), absl::StatusCode::kAborted) << "the session is busy";
  GoOn();
  absl::StatusOr<SessionView> rewound;
  ASSERT_TRUE(WaitUntil([&] {
    rewound = RewindTo(6);
    return !absl::IsAborted(rewound.status());
  }));
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  EXPECT_EQ(rewound->position, 6u);
}

TEST_F(HangingStoreTest, ACloseIsUnavailableAndStillMade) {
  ASSERT_TRUE(Open().ok());
  Hang();
  ExpectLate([&] { return Close(kId); });
  ExpectLate(
      [&] { return Close(kId); });  // the session is in the store until the first one is made
  GoOn();
  absl::Status status;
  ASSERT_TRUE(WaitUntil([&] {
    status = Close(kId);
    return !absl::IsUnavailable(status);
  }));
  EXPECT_TRUE(status.ok() || absl::IsNotFound(status)) << status;
  EXPECT_EQ(sessions().View({"", kId}).status().code(), absl::StatusCode::kNotFound);
}

// No client knows the id of such a session.
TEST_F(HangingStoreTest, ALateSessionWithADrawnIdIsClosed) {
  Hang();
  ExpectLate([&] { return Open(std::nullopt).status(); });
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 1u);
  GoOn();
  EXPECT_TRUE(WaitUntil([&] { return sessions().List("", std::nullopt, 10).sessions.empty(); }));
}

// The commit timeout passes. Nothing here must be faster.
class ShortTimeoutTest : public HangingStoreTest {
 protected:
  ShortTimeoutTest() : HangingStoreTest(absl::Seconds(1)) {}
  void OpenInTheEnd() {
    ASSERT_TRUE(WaitUntil([&] { return Open().ok(); }));
  }
  static void ExpectTimedOut(const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("store.commit_timeout, 1s"));
  }
};

TEST_F(ShortTimeoutTest, AnOpenAndItsRepeatEnd) {
  Hang();
  ExpectTimedOut(Open().status());
  ExpectTimedOut(Open().status());
  GoOn();
  OpenInTheEnd();
}

TEST_F(ShortTimeoutTest, ACancelThatWaitsForACommitIsUnavailable) {
  ASSERT_NO_FATAL_FAILURE(OpenInTheEnd());
  const TurnId id{7, 7};
  Hang();
  const TurnHandle turn = Start(10, id);
  EXPECT_TRUE(absl::IsUnavailable(ReadToEnd(turn).status)) << "it waits for its start's commit";
  ExpectTimedOut(Cancel(id).status());
  GoOn();
  absl::StatusOr<TurnView> cancelled;
  ASSERT_TRUE(WaitUntil([&] {
    cancelled = Cancel(id);
    return !absl::IsUnavailable(cancelled.status());
  }));
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_FALSE(cancelled->running);
}

// All calls wait as long as they have to.
using HangingDrainTest = HangingStoreTest;

TEST_F(HangingDrainTest, EndsWithoutTheDiskAndSoDoAllThatWaitForIt) {
  ASSERT_TRUE(Open().ok());
  const TurnId id{7, 7};
  Hang();
  const TurnHandle turn = Start(10, id);
  absl::Status opened;
  absl::Notification answered;
  sessions().OpenSession("", "m", kFork, std::nullopt,
                         [&](const absl::StatusOr<SessionView>& view) {
                           opened = view.status();
                           answered.Notify();
                         });
  EXPECT_TRUE(
      WaitUntil([&] { return sessions().List("", std::nullopt, 10).sessions.size() >= 2; }));
  sessions().Drain(absl::Milliseconds(50));
  const absl::Status ended = ReadToEnd(turn).status;
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("the server is shutting down"));
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_THAT(std::string(opened.message()), HasSubstr("the server is shutting down"));
  EXPECT_TRUE(absl::IsUnavailable(Close(kId))) << "a call that begins after the drain";
  GoOn();
}

TEST_F(HangingDrainTest, ALateSessionWithADrawnIdIsClosedBeforeTheServerEnds) {
  Hang();
  absl::Status opened;
  absl::Notification answered;
  sessions().OpenSession("", "m", std::nullopt, std::nullopt,
                         [&](const absl::StatusOr<SessionView>& view) {
                           opened = view.status();
                           answered.Notify();
                         });
  sessions().Drain(absl::ZeroDuration());
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 1u);
  GoOn();
  End();
  const auto left = store().Sessions("", std::nullopt, 10, "");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_TRUE(left->empty());
}

TEST_F(HangingStoreTest, AReadThatHangsIsUnavailableAndDelaysNoOther) {
  const auto go_on = std::make_shared<absl::Notification>();  // shared with the thread that reads
  const auto result_of = [&](std::function<absl::StatusOr<int>()> read) {
    absl::StatusOr<int> result;
    absl::Notification done;
    sessions().Read<int>({}, std::move(read), [&](const absl::StatusOr<int>& found) {
      result = found;
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  };
  EXPECT_EQ(*result_of([] { return 7; }), 7);
  const auto began = std::make_shared<std::atomic<bool>>(false);
  const absl::Status late = WithoutPatience(
      sessions().timers(), [began] { return began->load(); },
      [&] {
        return result_of([go_on, began]() -> absl::StatusOr<int> {
                 began->store(true);
                 go_on->WaitForNotification();
                 return 8;
               })
            .status();
      });
  ExpectLateAnswer(late.code(), std::string(late.message()));
  EXPECT_THAT(std::string(late.message()), Not(HasSubstr("the change")));
  EXPECT_EQ(*result_of([] { return 9; }), 9) << "another thread reads";
  go_on->Notify();
}

TEST_F(HangingStoreTest, ATurnOfAStoredSessionIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Restart();
  HangReads();
  ExpectLateRead([&] { return Load(kId); });
  const auto in_memory = Open(std::nullopt, Durability::kMemory);
  ASSERT_TRUE(in_memory.ok()) << in_memory.status();
  EXPECT_TRUE(Load(in_memory->id).ok()) << "it needs no store";
  GoOn();
  absl::Status loaded;
  ASSERT_TRUE(WaitUntil([&] {
    loaded = Load(kId);
    return !absl::IsUnavailable(loaded);
  }));
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{8, 8})).status.ok());
  EXPECT_EQ(Load(kFork).code(), absl::StatusCode::kNotFound);
}

TEST_F(HangingStoreTest, ASessionInMemoryIsShownWhileReadsHang) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  absl::StatusOr<SessionView> shown = Show(kId);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_GT(shown->stored_bytes, 0u);
  HangReads();
  shown = WithoutPatience(
      sessions().timers(), [&] { return store().calls_waiting() > 0; }, [&] { return Show(kId); });
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->position, 14u);
  EXPECT_EQ(shown->stored_bytes, 0u) << "nobody knows";
  ExpectLateRead([&] { return Show(kFork).status(); });
  GoOn();
  EXPECT_EQ(Show(kFork).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HangingStoreTest, ARestoredSessionIsFreeWhenCallsFindIt) {
  ASSERT_TRUE(Open().ok());
  int restores = 0;
  Restart([&](const std::shared_ptr<Session>& session) {
    ++restores;
    const absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
    EXPECT_TRUE(lease.ok()) << lease.status();
  });
  EXPECT_TRUE(Load(kId).ok());
  EXPECT_EQ(restores, 1);
}

TEST_F(HangingDrainTest, CallsForASessionWaitForItsRestore) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  Restart();
  HangReads();
  const int reads = store().session_reads();
  absl::BlockingCounter answered(3);
  absl::Status leased;
  absl::StatusOr<TurnView> cancelled;
  absl::StatusOr<SessionView> fork;
  sessions().LoadTurn({"", kId}, std::nullopt, [&](absl::StatusOr<NewTurn> turn) {
    leased = turn.status();
    if (turn.ok()) leased = NewTurn(*std::move(turn)).Lease();  // and gives it back
    answered.DecrementCount();
  });
  EXPECT_TRUE(WaitUntil([&] { return store().session_reads() > reads; }));
  sessions().CancelTurn({"", kId}, kTurn, [&](absl::StatusOr<TurnView> turn) {
    cancelled = std::move(turn);
    answered.DecrementCount();
  });
  sessions().ForkSession({"", kId}, std::nullopt, std::nullopt,
                         [&](absl::StatusOr<SessionView> view) {
                           fork = std::move(view);
                           answered.DecrementCount();
                         });
  GoOn();
  answered.Wait();
  EXPECT_TRUE(leased.ok()) << leased;
  EXPECT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(store().session_reads(), reads + 1) << "one call restores the session";
}

TEST_F(HangingStoreTest, AnExportIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, TurnId{7, 7})).status.ok());
  Restart();
  HangReads();
  ExpectLateRead([&] { return Export(); });
  GoOn();
  absl::Status exported;
  ASSERT_TRUE(WaitUntil([&] {
    exported = Export();
    return !absl::IsUnavailable(exported);
  }));
  EXPECT_TRUE(exported.ok()) << exported;
}

TEST_F(HangingStoreTest, TheLookUpOfATurnOfASessionInMemoryIsUnavailableWhileItHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  Restart();
  ASSERT_TRUE(Load(kId).ok());
  HangReads();
  ExpectLateRead([&] { return LoadTurn(kId, kTurn).status(); });
  EXPECT_TRUE(Load(kId).ok()) << "a turn whose id the server draws is looked up nowhere";
  GoOn();
  absl::StatusOr<NewTurn> turn = LoadTurn(kId, kTurn);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(*turn->Name(kTurn, TurnKind::kGenerate, "digest"), NewTurn::How::kReplayed);
}

TEST_F(HangingStoreTest, TheAnswerOfACommittedTurnIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  const TurnEnd end = ReadToEnd(Start(10, kTurn));
  HangReads();
  absl::StatusOr<NewTurn> turn = LoadTurn(kId, kTurn);
  ASSERT_TRUE(turn.ok()) << turn.status();
  EXPECT_EQ(*turn->Name(kTurn, TurnKind::kGenerate, "digest"), NewTurn::How::kReplayed);
  ExpectLateRead([&] { return LoadAnswer(*turn).status(); });
  GoOn();
  const absl::StatusOr<SessionTurns::Committed> answer = LoadAnswer(*turn);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->end.position, end.position);
  EXPECT_EQ(answer->digest, "digest");
}

TEST_F(HangingStoreTest, ACancelOfATurnThatIsNotInMemoryIsUnavailableWhileItsReadHangs) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  Restart();
  ASSERT_TRUE(Load(kId).ok());
  HangReads();
  ExpectLate([&] { return Cancel(kTurn).status(); });
  GoOn();
  const absl::StatusOr<TurnView> cancelled = Cancel(kTurn);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state, TurnState::kCommitted);
  EXPECT_EQ(Cancel(TurnId{9, 9}).status().code(), absl::StatusCode::kNotFound);
}

// The search for sessions whose time has passed in the store waits for the disk.
TEST_F(HangingStoreTest, IdleSessionsLeaveTheMemoryWhileReadsHang) {
  End();
  store().Hold();
  Restart();
  EXPECT_TRUE(WaitUntil([&] { return store().waiting() > 0; }));
  const auto idle = Open(std::nullopt, Durability::kMemory, absl::Milliseconds(1));
  ASSERT_TRUE(idle.ok()) << idle.status();
  // A session that is not in memory is looked for in the store.
  const auto load = [&] {
    return WithoutPatience(
        sessions().timers(), [&] { return store().calls_waiting() > 0; },
        [&] { return Load(idle->id); });
  };
  EXPECT_TRUE(WaitUntil([&] { return absl::IsUnavailable(load()); }));
  GoOn();
  EXPECT_EQ(Load(idle->id).code(), absl::StatusCode::kNotFound);
}

TEST_F(HangingStoreTest, ASessionThatACallHasFoundDoesNotExpire) {
  ASSERT_TRUE(Open(kId, Durability::kDefault, absl::Milliseconds(1)).ok());
  absl::StatusOr<NewTurn> turn = sessions().TurnOf({"", kId});
  ASSERT_TRUE(turn.ok()) << turn.status();
  ASSERT_TRUE(Open(kFork, Durability::kMemory, absl::Milliseconds(1)).ok());
  EXPECT_TRUE(WaitUntil([&] { return absl::IsNotFound(Load(kFork)); }));
  EXPECT_TRUE(turn->Lease().ok());
}

// The session is closed in the store only when the disk works again.
TEST_F(HangingStoreTest, AnOpenDuringACloseMakesANewSession) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  Hang();
  absl::BlockingCounter answered(3);
  absl::Status closed;
  sessions().CloseSession({"", kId}, [&](const absl::StatusOr<uint64_t>& position) {
    closed = position.status();
    answered.DecrementCount();
  });
  absl::StatusOr<SessionView> opened[2];
  for (absl::StatusOr<SessionView>& one : opened) {
    sessions().OpenSession("", "m", kId, std::nullopt, [&](absl::StatusOr<SessionView> session) {
      one = std::move(session);
      answered.DecrementCount();
    });
  }
  // It is made behind the opens, because reads of a session come one after the other.
  EXPECT_EQ(LoadTurn(kId, kTurn).status().code(), absl::StatusCode::kNotFound);
  GoOn();
  answered.Wait();
  EXPECT_TRUE(closed.ok()) << closed;
  for (const absl::StatusOr<SessionView>& one : opened) {
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(one->position, 0u) << "the session that was being closed";
  }
  EXPECT_EQ(Show(kId)->position, 0u);
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
}

TEST_F(HangingStoreTest, TooManyOpensDuringACloseAreUnavailable) {
  ASSERT_TRUE(Open().ok());
  Hang();
  absl::Notification closed;
  sessions().CloseSession({"", kId},
                          [&](const absl::StatusOr<uint64_t>& /*position*/) { closed.Notify(); });
  constexpr int kCalls = 100;
  absl::BlockingCounter answered(kCalls);
  std::atomic<int> refused{0}, opened{0};
  for (int i = 0; i < kCalls; ++i) {
    sessions().OpenSession("", "m", kId, std::nullopt,
                           [&](const absl::StatusOr<SessionView>& session) {
                             if (session.ok()) ++opened;
                             if (absl::IsUnavailable(session.status())) ++refused;
                             answered.DecrementCount();
                           });
  }
  EXPECT_TRUE(WaitUntil([&] { return refused > 0; }));
  GoOn();
  answered.Wait();
  closed.WaitForNotification();
  EXPECT_GT(opened, 0);
  EXPECT_EQ(refused + opened, kCalls);
}

// The session leaves the memory when a call has found it there.
TEST_F(HangingStoreTest, ACallFindsASessionThatIsLeavingTheMemory) {
  ASSERT_TRUE(Open(kId, Durability::kDefault, absl::Milliseconds(1)).ok());
  EXPECT_TRUE(ReadToEnd(Start(10, kTurn)).status.ok());
  std::atomic<bool> waits{false}, has_waited{false};
  Restart(nullptr, [&](const std::shared_ptr<Session>& session) {
    if (!waits.exchange(false)) return;
    EXPECT_TRUE(WaitUntil([&] { return session->closed(); }));
    has_waited = true;
  });
  const auto expect_turn = [](absl::StatusOr<NewTurn> turn) {
    ASSERT_TRUE(turn.ok()) << turn.status();
    const absl::Status leased = turn->Lease();
    ASSERT_TRUE(leased.ok()) << leased;
    EXPECT_EQ(turn->history().tokens.size(), 14u);
  };
  // If the session is not in memory when a call begins, that call restores it.
  const std::function<absl::StatusOr<NewTurn>()> calls[] = {[&] {
                                                              return sessions().TurnOf({"", kId});
                                                            },
                                                            [&] { return LoadTurn(kId); }};
  for (const auto& call : calls) {
    has_waited = false;
    ASSERT_TRUE(WaitUntil([&] {
      waits = true;
      expect_turn(call());
      return has_waited || HasFatalFailure();
    }));
  }
  End();  // it calls the function above
}

}  // namespace
}  // namespace longstream
