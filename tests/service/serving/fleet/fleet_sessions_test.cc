// Sessions that a fleet shares: which calls pass the gate, and what they do with its answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/fleet/session_owner.h"
#include "tests/service/serving/fleet/replicas.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Events = std::vector<std::string>;
using FleetSessionsTest = Replicas;

TEST_F(FleetSessionsTest, ATurnTellsTheGateHowItGoesOn) {
  ASSERT_TRUE(Open(a_).ok());
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("opened 1 1"));
  EXPECT_EQ(Row().owner, "a/1");
  const FleetTurn turn = Run(a_, kTurn);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_THAT(a_.gate.TakeEvents(),
              ElementsAre("turn", "started OK", "ran", "committed OK", "ended"));
  EXPECT_EQ(Row().version, 3);
}

TEST_F(FleetSessionsTest, ATurnWithoutAnIdAndAnAppendPassTheGate) {
  ASSERT_TRUE(Open(a_).ok());
  absl::StatusOr<NewTurn> turn = Load(a_);
  ASSERT_TRUE(turn.ok()) << turn.status();
  ASSERT_TRUE(turn->Lease().ok());
  TurnHandle handle = turn->Make(Generate(nullptr, "text", 5), nullptr);
  ASSERT_TRUE(turn->Start(handle).ok());
  FleetTurn result;
  ReadToEnd(handle, &result);
  EXPECT_TRUE(result.end.status.ok()) << result.end.status;
  EXPECT_THAT(a_.gate.TakeEvents(),
              ElementsAre("opened 1 1", "turn", "started OK", "ran", "committed OK", "ended"));
}

TEST_F(FleetSessionsTest, ARefusedTurnEndsItsUseBeforeAnythingIsMade) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.TakeEvents();
  EXPECT_TRUE(Load(a_, kTurn).ok());  // and is destroyed
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("turn", "ended"));
}

TEST_F(FleetSessionsTest, ErrorsOfTheGateAreThoseOfTheCalls) {
  ASSERT_TRUE(Open(a_).ok());
  for (const absl::Status& error :
       {absl::AbortedError("busy"), absl::UnavailableError("not now"),
        absl::FailedPreconditionError("elsewhere"), absl::NotFoundError("none")}) {
    a_.gate.AnswerNext(error);
    EXPECT_EQ(Load(a_, kTurn).status().code(), error.code());
    a_.gate.AnswerNext(error);
    EXPECT_EQ(RewindTo(a_, 0).status().code(), error.code());
    a_.gate.AnswerNext(error);
    EXPECT_EQ(Cancel(a_, kTurn).status().code(), error.code());
    a_.gate.AnswerNext(error);
    EXPECT_EQ(CloseAndWait(a_.sessions, {"", kId}).code(), error.code());
  }
  EXPECT_TRUE(Run(a_, kTurn).status().ok());
}

TEST_F(FleetSessionsTest, SessionsInMemoryNeverPassTheGate) {
  ASSERT_TRUE(Open(a_, kId, Durability::kMemory).ok());
  EXPECT_TRUE(Run(a_, kTurn).status().ok());
  EXPECT_TRUE(RewindTo(a_, 5).ok());
  EXPECT_TRUE(Show(a_).ok());
  EXPECT_TRUE(CloseAndWait(a_.sessions, {"", kId}).ok());
  EXPECT_THAT(a_.gate.TakeEvents(), IsEmpty());
}

TEST_F(FleetSessionsTest, TurnsAlternateBetweenReplicasWithTheTokensOfOne) {
  const std::vector<TurnId> ids = {{7, 1}, {7, 2}, {7, 3}, {7, 4}};
  const auto expected = Undisturbed(ids);
  ASSERT_TRUE(Open(a_).ok());
  for (size_t i = 0; i < ids.size(); ++i) {
    const FleetTurn turn = Run(i % 2 == 0 ? a_ : b_, ids[i]);
    EXPECT_TRUE(turn.status().ok()) << turn.status();
    EXPECT_EQ(turn.tokens, expected[i]) << i;
  }
  EXPECT_EQ(a_.restores, 1);  // its first copy was old
  EXPECT_EQ(b_.restores, 2);
}

TEST_F(FleetSessionsTest, ACopyThatIsNotAtTheVersionOfItsUseIsReadAnew) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  Take("b/2");
  EXPECT_TRUE(Run(a_, kNext).status().ok());
  EXPECT_EQ(a_.restores, 1);
  EXPECT_EQ(Row().position, 28u);
}

TEST_F(FleetSessionsTest, AUseOfAnotherVersionThanTheRowIsAborted) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(b_, kTurn).status().ok());
  const ScriptedGate::Entry late = a_.gate.EntryOf({"", kId}, /*resumes=*/false);
  Take("b/2");
  a_.gate.AnswerNext(late);
  EXPECT_EQ(Load(a_, kNext).status().code(), absl::StatusCode::kAborted);
}

// Another replica takes the session while the turn runs.
TEST_F(FleetSessionsTest, ATurnThatIsFencedAtItsCommitIsAbortedAndItsRepeatGoesOn) {
  const auto expected = Undisturbed({kTurn, kNext});
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  const store::TurnNumber head = Row().head;
  a_.gate.TakeEvents();
  a_.gate.SetOnRan([this] {
    Take("b/2");
    return absl::OkStatus();
  });
  const FleetTurn fenced = Run(a_, kNext);
  EXPECT_EQ(fenced.status().code(), absl::StatusCode::kAborted) << fenced.status();
  EXPECT_EQ(Row().head, head);
  EXPECT_EQ(StateOf(kNext), store::TurnState::kStarted);
  EXPECT_THAT(a_.gate.TakeEvents(),
              ElementsAre("turn", "started OK", "ran", "committed ABORTED", "ended"));
  a_.gate.SetOnRan(nullptr);
  for (Replica* replica : {&b_, &a_}) {  // the second one reads the answer
    const FleetTurn repeat = Run(*replica, kNext);
    EXPECT_TRUE(repeat.status().ok()) << repeat.status();
    EXPECT_EQ(repeat.tokens, expected[1]);
  }
}

TEST_F(FleetSessionsTest, ATurnThatMayNotCommitIsRolledBack) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.SetOnRan([] { return absl::UnavailableError("the store cannot be used"); });
  const FleetTurn refused = Run(a_, kTurn);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_FALSE(a_.gate.Has("committed OK"));
  EXPECT_EQ(StateOf(kTurn), store::TurnState::kStarted);
  a_.gate.SetOnRan(nullptr);
  const FleetTurn repeat = Run(a_, kTurn);
  EXPECT_TRUE(repeat.status().ok()) << repeat.status();
  EXPECT_EQ(repeat.how, NewTurn::How::kLost);
  EXPECT_EQ(a_.restores, 0);
}

// The gate of a session that it knows does not read the log.
TEST_F(FleetSessionsTest, AUseThatDoesNotKnowTheTurnLearnsThatItHasStarted) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.SetOnRan([] { return absl::UnavailableError("the store cannot be used"); });
  ASSERT_FALSE(Run(a_, kTurn).status().ok());
  a_.gate.SetOnRan(nullptr);
  a_.gate.TakeEvents();
  a_.gate.AnswerNext(a_.gate.EntryOf({"", kId}, /*resumes=*/false));
  EXPECT_TRUE(Run(a_, kTurn).status().ok());
  EXPECT_THAT(a_.gate.TakeEvents(),
              ElementsAre("turn", "started ALREADY_EXISTS", "ran", "committed OK", "ended"));
}

TEST_F(FleetSessionsTest, ACommittedTurnIsReadFromTheLog) {
  ASSERT_TRUE(Open(a_).ok());
  const FleetTurn turn = Run(a_, kTurn);
  ASSERT_TRUE(turn.status().ok());
  fleet::Entry replay;
  replay.how = fleet::Entry::How::kReplay;
  b_.gate.AnswerNext(replay);
  const FleetTurn again = Run(b_, kTurn);
  EXPECT_TRUE(again.status().ok()) << again.status();
  EXPECT_EQ(again.how, NewTurn::How::kReplayed);
  EXPECT_EQ(again.tokens, turn.tokens);
  EXPECT_EQ(b_.restores, 0);
  b_.gate.AnswerNext(replay);
  EXPECT_EQ(Run(b_, kNext).status().code(), absl::StatusCode::kUnavailable)
      << "a turn that was not committed must not run";
}

TEST_F(FleetSessionsTest, ATurnThatRunsElsewhereIsRelayedOrAborted) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.TakeEvents();
  fleet::Entry relay;
  relay.how = fleet::Entry::How::kRelay;
  relay.peer.name = "b/2";
  relay.relay = 5;
  a_.gate.AnswerNext(relay);
  EXPECT_EQ(Load(a_, kTurn).status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("turn", "relay 5 ABORTED"));
  a_.gate.AnswerNext(relay);
  std::string peer;
  a_.sessions.LoadTurn(
      {"", kId}, kTurn, [](const absl::StatusOr<NewTurn>&) { ADD_FAILURE(); },
      [&](const fleet::Entry& entry) { peer = entry.peer.name; });
  EXPECT_EQ(peer, "b/2");
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("turn"));
}

TEST_F(FleetSessionsTest, ACallAttachesToATurnThatRunsHere) {
  ASSERT_TRUE(Open(a_).ok());
  FleetTurn first;
  const TurnHandle running = Begin(Load(a_, kTurn), kTurn, 10'000, &first);
  ASSERT_TRUE(running) << first.refused;
  // The use of the second call has no effect, whatever its version.
  FleetTurn second;
  TurnHandle attached = Begin(Load(a_, kTurn), kTurn, 10'000, &second);
  ASSERT_TRUE(attached) << second.refused;
  EXPECT_EQ(second.how, NewTurn::How::kAttached);
  EXPECT_EQ(a_.restores, 0);
  attached.Cancel();
  ReadToEnd(attached, &second);
  EXPECT_EQ(second.end.status.code(), absl::StatusCode::kCancelled);
}

// Another call has the use of the turn, and has not begun to run it, or has just ended.
TEST_F(FleetSessionsTest, ACallThatOnlyAttachesDoesNotRunTheTurn) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.SetOnRan([] { return absl::UnavailableError("the store cannot be used"); });
  ASSERT_FALSE(Run(a_, kTurn).status().ok());
  a_.gate.SetOnRan(nullptr);
  for (Replica* replica : {&a_, &b_}) {  // the second one has no copy yet
    replica->gate.TakeEvents();
    replica->gate.AnswerNext(replica->gate.EntryOf({"", kId}, /*resumes=*/true, /*attaches=*/true));
    const absl::Status attached = Run(*replica, kTurn).status();
    EXPECT_EQ(attached.code(), absl::StatusCode::kUnavailable) << attached;
    EXPECT_THAT(replica->gate.TakeEvents(), ElementsAre("turn", "ended"));
    EXPECT_EQ(StateOf(kTurn), store::TurnState::kStarted);
  }
  // The other call is not disturbed.
  const FleetTurn turn = Run(b_, kTurn);
  EXPECT_TRUE(turn.status().ok()) << turn.status();
  EXPECT_EQ(turn.how, NewTurn::How::kLost);
  b_.gate.AnswerNext(b_.gate.EntryOf({"", kId}, /*resumes=*/true, /*attaches=*/true));
  EXPECT_EQ(Run(b_, kTurn).how, NewTurn::How::kReplayed) << "it has been committed meanwhile";
}

TEST_F(FleetSessionsTest, ARunningTurnThatIsCancelledIsAbandonedWithinItsUse) {
  ASSERT_TRUE(Open(a_).ok());
  FleetTurn turn;
  TurnHandle handle = Begin(Load(a_, kTurn), kTurn, 10'000, &turn);
  ASSERT_TRUE(handle) << turn.refused;
  ASSERT_TRUE(WaitUntil([&] { return a_.gate.Has("started OK"); }));
  const absl::StatusOr<TurnView> cancelled = Cancel(a_, kTurn);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state, TurnState::kAbandoned);
  ReadToEnd(handle, &turn);
  EXPECT_THAT(a_.gate.TakeEvents(),
              ElementsAre("opened 1 1", "turn", "started OK", "abandons", "committed OK", "ended"));
  EXPECT_EQ(StateOf(kTurn), store::TurnState::kAbandoned);
  EXPECT_EQ(Run(a_, kTurn).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Run(a_, kNext).status().ok());
  EXPECT_EQ(a_.restores, 0);
}

TEST_F(FleetSessionsTest, ATurnThatDoesNotRunIsCancelledByAChange) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.SetOnRan([] { return absl::UnavailableError("the store cannot be used"); });
  ASSERT_FALSE(Run(a_, kTurn).status().ok());
  a_.gate.SetOnRan(nullptr);
  a_.gate.TakeEvents();
  EXPECT_TRUE(Cancel(b_, kTurn).ok());
  EXPECT_THAT(b_.gate.TakeEvents(), ElementsAre("change", "changed OK", "ended"));
  EXPECT_EQ(StateOf(kTurn), store::TurnState::kAbandoned);
  EXPECT_EQ(Cancel(b_, kNext).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FleetSessionsTest, ARewindIsAChange) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  b_.gate.TakeEvents();
  const absl::StatusOr<SessionView> rewound = RewindTo(b_, 6);
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  EXPECT_EQ(rewound->position, 6u);
  EXPECT_THAT(b_.gate.TakeEvents(), ElementsAre("change", "changed OK", "ended"));
  EXPECT_EQ(Show(a_)->position, 6u) << "an old copy was shown";
}

TEST_F(FleetSessionsTest, ACloseIsFencedAndTellsTheGate) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  a_.gate.TakeEvents();
  EXPECT_TRUE(CloseAndWait(b_.sessions, {"", kId}).ok());
  EXPECT_THAT(b_.gate.TakeEvents(), testing::IsSupersetOf({"close", "changed OK"}));
  EXPECT_EQ(Show(a_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Load(a_, kNext).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CloseAndWait(a_.sessions, {"", kId}).code(), absl::StatusCode::kNotFound);
  fleet::Entry closed;
  closed.how = fleet::Entry::How::kClosed;
  a_.gate.AnswerNext(closed);
  EXPECT_EQ(CloseAndWait(a_.sessions, {"", kId}).code(), absl::StatusCode::kNotFound);
  // The old copy does not keep the id.
  EXPECT_TRUE(Open(a_).ok());
}

TEST_F(FleetSessionsTest, AnExpiredSessionThatIsUsedAtTheLastMomentStays) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.TakeEvents();
  const auto close_expired = [&](const store::SessionRow& row) {
    absl::Status status;
    absl::Notification done;
    a_.sessions.fleet()->CloseExpired(row, [&](const absl::StatusOr<uint64_t>& position) {
      status = position.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status.code();
  };
  const store::SessionRow expired = Row();
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  a_.gate.TakeEvents();
  EXPECT_EQ(close_expired(expired), absl::StatusCode::kAborted);
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("change", "ended"));
  EXPECT_TRUE(Show(a_).ok());
  a_.gate.AnswerNext(absl::AbortedError("a turn runs"));
  EXPECT_EQ(close_expired(Row()), absl::StatusCode::kAborted);
  a_.gate.TakeEvents();
  EXPECT_EQ(close_expired(Row()), absl::StatusCode::kOk);
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("change", "changed OK", "evicted", "ended"));
  EXPECT_EQ(Show(a_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FleetSessionsTest, AnExpiredSessionThatIsNotInMemoryIsForgotten) {
  store::SessionRow row;
  row.key = {"", kId};
  row.model = "m";
  row.owner = "c/3";
  row.create_time = row.last_use_time = absl::Now() - absl::Hours(2);
  row.delete_time = absl::Now() - absl::Hours(1);
  const store::Change open = store::OpenSession{row};
  ASSERT_TRUE(store_->Apply({&open, 1})[0].ok());
  // It looks for such sessions soon after its start.
  Replica replica(&models_, store_.get(), &commits_, "c/3");
  EXPECT_TRUE(WaitUntil([&] { return replica.gate.Has("evicted"); }));
  EXPECT_EQ(store_->Session(row.key).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FleetSessionsTest, OldCopiesAreNotShown) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  ASSERT_TRUE(Run(b_, kNext).status().ok());
  const absl::StatusOr<SessionView> shown = Show(a_);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->position, 28u);
  EXPECT_EQ(shown->head_turn, kNext);
  const SessionPage page = a_.sessions.List("", std::nullopt, 10);
  ASSERT_EQ(page.sessions.size(), 1u);
  EXPECT_EQ(page.sessions[0].position, 28u);
  uint64_t next = 0;
  const auto turns = a_.sessions.ListTurns({"", kId}, 0, 10, &next);
  ASSERT_TRUE(turns.ok()) << turns.status();
  ASSERT_EQ(turns->size(), 2u);
  EXPECT_EQ((*turns)[1].state, TurnState::kCommitted);
  constexpr SessionId kFork{3, 4};
  const absl::StatusOr<SessionView> fork = Fork(a_, kFork);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 28u);
  EXPECT_EQ(a_.restores, 0);
  const FleetTurn of_fork = Run(a_, {7, 3}, 10, kFork);
  EXPECT_TRUE(of_fork.status().ok()) << of_fork.status();
  EXPECT_EQ(of_fork.tokens, Run(b_, {7, 3}).tokens);
}

TEST_F(FleetSessionsTest, AForkOfASessionThatRunsElsewhereHasItsCommittedHead) {
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  FleetTurn running;
  TurnHandle handle = Begin(Load(a_, kNext), kNext, 10'000, &running);
  ASSERT_TRUE(handle) << running.refused;
  const absl::StatusOr<SessionView> fork = Fork(b_, {3, 4});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  handle.Cancel();
  ReadToEnd(handle, &running);
}

// As on every other replica.
TEST_F(FleetSessionsTest, TheCommittedHeadIsReadWhereATurnRuns) {
  const auto expected = Undisturbed({kTurn, kNext});
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  FleetTurn running;
  TurnHandle handle = Begin(Load(a_, TurnId{7, 9}), TurnId{7, 9}, 10'000, &running);
  ASSERT_TRUE(handle) << running.refused;
  ASSERT_TRUE(WaitUntil([&] { return Row().version == 4; })) << "the turn has started";
  const absl::StatusOr<SessionView> fork = Fork(a_, {3, 4});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->position, 14u);
  absl::StatusOr<NewTurn> history = absl::UnknownError("not called");
  absl::Notification done;
  a_.sessions.LoadHistory({"", kId}, [&](absl::StatusOr<NewTurn> loaded) {
    history = std::move(loaded);
    done.Notify();
  });
  done.WaitForNotification();
  ASSERT_TRUE(history.ok()) << history.status();
  const absl::StatusOr<std::vector<int32_t>> tokens = history->CopyTokens();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->size(), 14u);
  handle.Cancel();
  ReadToEnd(handle, &running);
  const FleetTurn of_fork = Run(a_, kNext, 10, {3, 4});
  EXPECT_TRUE(of_fork.status().ok()) << of_fork.status();
  EXPECT_EQ(of_fork.tokens, expected[1]);
}

// An answer from memory could be old, and a list without rows looks like no sessions.
TEST_F(FleetSessionsTest, ReadsAreUnavailableWhileTheDatabaseIsDown) {
  constexpr SessionId kInMemory{5, 6};
  ASSERT_TRUE(Open(a_).ok());
  ASSERT_TRUE(Run(a_, kTurn).status().ok());
  ASSERT_TRUE(Open(a_, kInMemory, Durability::kMemory).ok());
  store_->FailReads(absl::UnavailableError("the database is down"));
  for (Replica* replica : {&a_, &b_}) {
    SCOPED_TRACE(replica == &a_ ? "the owner" : "another replica");
    EXPECT_EQ(replica->sessions.List("", std::nullopt, 10).status.code(),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(Show(*replica).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Open(*replica).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Fork(*replica, {3, 4}).status().code(), absl::StatusCode::kUnavailable);
    uint64_t next = 0;
    EXPECT_EQ(replica->sessions.ListTurns({"", kId}, 0, 10, &next).status().code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(Show(a_, kInMemory).ok());
  store_->FailReads(absl::OkStatus());
  const SessionPage page = a_.sessions.List("", std::nullopt, 10);
  EXPECT_TRUE(page.status.ok()) << page.status;
  EXPECT_EQ(page.sessions.size(), 2u);
  EXPECT_TRUE(Open(a_).ok()) << "a repeat";
}

TEST_F(FleetSessionsTest, ATurnIsCancelledWhereItRuns) {
  ASSERT_TRUE(Open(a_).ok());
  FleetTurn running;
  TurnHandle handle = Begin(Load(a_, kTurn), kTurn, 10'000, &running);
  ASSERT_TRUE(handle) << running.refused;
  ASSERT_TRUE(WaitUntil([&] { return a_.gate.Has("started OK"); }));
  b_.gate.AnswerNext(fleet::WithOwner(absl::AbortedError("busy"), {"a/1", "host:1"}));
  const absl::Status asked = Cancel(b_, kTurn).status();
  EXPECT_EQ(asked.code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(fleet::OwnerOf(asked).has_value());
  EXPECT_EQ(fleet::OwnerOf(asked)->name, "a/1");
  EXPECT_EQ(CancelRunning(b_, kTurn).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(CancelRunning(a_, kNext).status().code(), absl::StatusCode::kAborted);
  const absl::StatusOr<TurnView> cancelled = CancelRunning(a_, kTurn);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->state, TurnState::kAbandoned);
  ReadToEnd(handle, &running);
  EXPECT_EQ(running.end.status.code(), absl::StatusCode::kCancelled) << running.end.status;
}

// The quota of a tenant counts what other replicas open and close.
TEST_F(FleetSessionsTest, TenantsAreCountedFromTheStore) {
  prometheus::Registry registry;
  ModelRegistry::Options options{model_.plugins(), model_.host(), &registry, {}};
  options.tenants = {{.name = "t", .quotas = {}}};
  ModelRegistry models(options, {model_.Source()}, nullptr);
  ASSERT_TRUE(models.WaitUntilLoaded().ok());
  store::SessionRow row;
  row.key = {"t", kId};
  row.model = "m";
  row.delete_time = absl::Now() + absl::Hours(1);
  const store::Change open = store::OpenSession{row};
  ASSERT_TRUE(store_->Apply({&open, 1})[0].ok());
  // Its first count comes soon after its start.
  const Replica replica(&models, store_.get(), &commits_, "c/3");
  const std::shared_ptr<Tenant> tenant = *models.tenants().Find("t");
  EXPECT_TRUE(WaitUntil([&] { return tenant->use().sessions == 1; }));
}

TEST_F(FleetSessionsTest, ASessionHasItsTtlOnEveryReplica) {
  constexpr absl::Duration kTtl = absl::Hours(50);
  ASSERT_TRUE(Open(a_, kId, Durability::kDefault, kTtl).ok());
  for (const auto& [replica, turn] : {std::pair(&a_, kTurn), std::pair(&b_, kNext)}) {
    ASSERT_TRUE(Run(*replica, turn).status().ok());
    EXPECT_EQ(Row().delete_time - Row().last_use_time, kTtl);
  }
  for (Replica* replica : {&a_, &b_}) EXPECT_EQ(Show(*replica)->ttl, kTtl);
  // A replica that reads a copy of the session forks it.
  const absl::StatusOr<SessionView> fork = Fork(a_, SessionId{5, 6});
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->ttl, kTtl);
}

TEST_F(FleetSessionsTest, ASessionThatLeavesTheMemoryIsTold) {
  ASSERT_TRUE(Open(a_).ok());
  a_.gate.TakeEvents();
  a_.sessions.EndSessionsOn(**models_.Find("m"));
  EXPECT_THAT(a_.gate.TakeEvents(), ElementsAre("evicted"));
  EXPECT_TRUE(Run(a_, kTurn).status().ok());
  EXPECT_EQ(a_.restores, 1);
}

}  // namespace
}  // namespace longstream
