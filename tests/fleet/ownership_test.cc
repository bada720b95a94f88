// Single steps of the ownership of sessions: calls and transactions on the owner.
#include "service/sessions/fleet/ownership.h"

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "service/sessions/fleet/outcome.h"
#include "tests/fleet/ownership_fixture.h"

namespace longstream::fleet {
namespace {

TEST_F(OwnershipTest, AnOwnedSessionRunsATurnInTwoTransactions) {
  Open();
  Call(1);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 1);
  EXPECT_FALSE(Has<ShowTurn>());
  Outcome(fleet::Outcome::kMade);
  EXPECT_TRUE(Has<ShowTurn>());
  ASSERT_TRUE(Has<RunTurn>());
  EXPECT_FALSE(Find<RunTurn>().value().restore);
  run_operation_ = Find<RunTurn>().value().operation;
  Ran();
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kCommit);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 2);
  EXPECT_FALSE(AnswerOf(1).has_value());
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
  EXPECT_TRUE(Has<AdvanceCopy>());
  EXPECT_EQ(machine_.sessions().at(kKey).version, 3);
}

TEST_F(OwnershipTest, AFencedCommitDropsTheCopy) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kFenced);
  EXPECT_EQ(AnswerOf(1), Answer::kMoved);
  EXPECT_TRUE(Has<StopTurn>());
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_FALSE(Owns());
}

TEST_F(OwnershipTest, AnUnknownCommitIsMadeAgainWithTheSameFence) {
  Open();
  RunToCommit(1);
  const Transaction first = Find<Transact>().value().transaction;
  Outcome(fleet::Outcome::kUnknown);
  EXPECT_FALSE(AnswerOf(1).has_value());
  Row({.owner = kSelf, .epoch = 1, .version = 2, .turn = TurnState::kStarted, .owner_lives = true});
  EXPECT_FALSE(Has<Transact>());  // not at once: that could go on without a pause
  TimeOver();
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction, first);
  // The first attempt was made late, so the second is fenced.
  Outcome(fleet::Outcome::kFenced);
  Row({.owner = kSelf,
       .epoch = 1,
       .version = 3,
       .turn = TurnState::kCommitted,
       .owner_lives = true});
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
  EXPECT_TRUE(Owns());
}

TEST_F(OwnershipTest, ACommitThatWasMadeBeforeTheSessionMovedIsAcknowledged) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kUnknown);
  Row({.owner = kPeer,
       .epoch = 2,
       .version = 4,
       .turn = TurnState::kCommitted,
       .owner_lives = true});
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_FALSE(Owns());
}

// The first attempt may still be made, so a full store does not end the turn.
TEST_F(OwnershipTest, AFullStoreAfterAnUnknownOutcomeDecidesNothing) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kUnknown);
  Row({.owner = kSelf, .epoch = 1, .version = 2, .turn = TurnState::kStarted, .owner_lives = true});
  TimeOver();
  Outcome(fleet::Outcome::kFull);
  EXPECT_FALSE(AnswerOf(1).has_value());
  EXPECT_TRUE(Has<SetTimer>());
}

TEST_F(OwnershipTest, AFullStoreEndsTheTurnAndKeepsTheSession) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kFull);
  EXPECT_EQ(AnswerOf(1), Answer::kFull);
  EXPECT_TRUE(Has<StopTurn>());
  EXPECT_TRUE(Owns());
}

TEST_F(OwnershipTest, AChangeThatTheStoreRefusesKeepsTheCopy) {
  Open();
  Change(1);
  Outcome(fleet::Outcome::kRefused);
  EXPECT_EQ(AnswerOf(1), Answer::kRefused);
  EXPECT_FALSE(Has<DropCopy>());
  Row(OwnRow(1, 1));
  EXPECT_FALSE(Has<DropCopy>());
  EXPECT_TRUE(Owns());
}

TEST_F(OwnershipTest, ACommitThatTheStoreRefusesIsTriedAgainOnlyIfAnEarlierOneMayBeMade) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kUnknown);
  Row(OwnRow(1, 2));
  TimeOver();
  Outcome(fleet::Outcome::kRefused);
  EXPECT_FALSE(AnswerOf(1).has_value());
  EXPECT_FALSE(Has<Transact>());
  EXPECT_TRUE(Has<SetTimer>());
}

TEST_F(OwnershipTest, ALongCommitEndsTheCallAndGoesOn) {
  Open();
  RunToCommit(1);
  const Number operation = Find<Transact>().value().operation;
  Handle(TimerFired{kKey, Find<SetTimer>().value().timer});
  EXPECT_EQ(AnswerOf(1), Answer::kCommitWaits);
  Call(2);  // attaches to the same turn
  EXPECT_FALSE(AnswerOf(2).has_value());
  Handle(Transacted{kKey, operation, fleet::Outcome::kMade});
  EXPECT_EQ(AnswerOf(2), Answer::kCommitted);
}

TEST_F(OwnershipTest, AnotherTurnIsAbortedAndTheSameOneAttaches) {
  Open();
  Call(1);
  Call(2, kOther);
  EXPECT_EQ(AnswerOf(2), Answer::kBusy);
  Call(3);
  EXPECT_EQ(AnswerOf(1), Answer::kAttached);
  EXPECT_FALSE(AnswerOf(3).has_value());
}

TEST_F(OwnershipTest, ACommittedTurnIsReplayedWhereverItIsAsked) {
  Call(1);
  OwnedRow row = PeersRow(true);
  row.turn = TurnState::kCommitted;
  Row(row);
  EXPECT_EQ(AnswerOf(1), Answer::kReplay);
  EXPECT_TRUE(machine_.sessions().empty());
}

TEST_F(OwnershipTest, ADeadOwnersSessionIsClaimedAndItsTurnResumed) {
  Call(1);
  OwnedRow row = PeersRow(false);
  row.turn = TurnState::kStarted;
  Row(row);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kClaim);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.epoch, 3);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 9);
  EXPECT_EQ(Find<Transact>().value().transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  ASSERT_TRUE(Has<RunTurn>());
  EXPECT_TRUE(Find<RunTurn>().value().restore);
  EXPECT_TRUE(Find<RunTurn>().value().resume);
}

// Another turn was committed since its start, so no commit of it would be made.
TEST_F(OwnershipTest, AnAbandonedTurnIsNotRun) {
  Call(1);
  OwnedRow row = PeersRow(false);
  row.turn = TurnState::kAbandoned;
  Row(row);
  EXPECT_EQ(AnswerOf(1), Answer::kAbandoned);
  EXPECT_FALSE(Has<Transact>());
}

TEST_F(OwnershipTest, ACommitThatIsRefusedTwiceEndsTheTurn) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kTurnExists);
  EXPECT_TRUE(Has<StopTurn>());
  OwnedRow row = OwnRow(1, 2);
  row.turn = TurnState::kStarted;
  Row(row);
  run_operation_ = Find<RunTurn>().value().operation;
  Ran();
  Outcome(fleet::Outcome::kTurnExists);
  EXPECT_EQ(AnswerOf(1), Answer::kFailed);
  EXPECT_TRUE(Owns());
}

// The turn that ran here before has nothing to do with the change.
TEST_F(OwnershipTest, AChangeAsksForTheSessionWithoutATurn) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kMade);
  Handle(LeaseOver{});
  Handle(LeaseRenewed{.generation = 1, .lapsed = true});
  Change(2);
  Row(PeersRow(true));
  const Fetch fetch = Sent<Fetch>().value();
  EXPECT_EQ(fetch.turn, TurnId{});
  Handle(MessageArrives{kPeer, Refused{kKey, fetch.request, Refusal::kRunning}});
  EXPECT_FALSE(Sent<Attach>().has_value());
  EXPECT_EQ(AnswerOf(2), Answer::kBusy);
}

// Made late, a start would look like the change: it raises the version by one.
TEST_F(OwnershipTest, AStartThatWasGivenUpIsFencedBeforeAChange) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kUnknown);
  while (!AnswerOf(1).has_value()) {
    Row(OwnRow(1, 1));
    if (AnswerOf(1).has_value()) break;
    TimeOver();
    Outcome(fleet::Outcome::kUnknown);
  }
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Row(OwnRow(1, 1));
  Handle(CopyEvicted{kKey});
  Change(2);
  if (Has<ReadRow>()) Row(OwnRow(1, 1));
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  EXPECT_EQ(Find<Transact>().value().transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kChange);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.epoch, 2);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 2);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(2), Answer::kCommitted);
}

// The holder of the request has refused it: nothing was made, and the session stays as it is.
TEST_F(OwnershipTest, AStartThatIsWithdrawnKeepsTheCopy) {
  Open();
  Call(1);
  Withdraw();
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_FALSE(Has<DropCopy>());
  Call(2, kOther);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 1);
}

TEST_F(OwnershipTest, AnUnknownCommitThatIsWithdrawnIsFencedBeforeTheNextWork) {
  Open();
  RunToCommit(1);
  Outcome(fleet::Outcome::kUnknown);
  Row(OwnRow(1, 2));
  TimeOver();
  Withdraw();
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_TRUE(Has<StopTurn>());
  Row(OwnRow(1, 2));
  Call(2, kOther);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 2);
  Outcome(fleet::Outcome::kMade);
  ASSERT_TRUE(Has<KeepCopy>());
  EXPECT_EQ(Find<KeepCopy>().value().from.version, 2);
  EXPECT_EQ(Find<KeepCopy>().value().to.version, 3);
  EXPECT_EQ(Find<KeepCopy>().value().to.epoch, 2);
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
}

TEST_F(OwnershipTest, ALateWithdrawalChangesNothing) {
  Open();
  Call(1);
  const Number operation = Find<Transact>().value().operation;
  Outcome(fleet::Outcome::kMade);
  Handle(Withdrawn{kKey, operation});
  EXPECT_TRUE(actions_.empty());
  EXPECT_TRUE(Owns());
}

TEST_F(OwnershipTest, ACancelledTurnIsAbandonedInTheLog) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kMade);
  Handle(TurnRan{kKey, Find<RunTurn>().value().operation, TurnEnd::kAbandons});
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kAbandon);
  EXPECT_EQ(Find<Transact>().value().transaction.turn, kTurn);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 2);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(1), Answer::kAbandoned);
  EXPECT_EQ(machine_.sessions().at(kKey).version, 3);
  EXPECT_TRUE(Owns());
}

// A change at the same version could take the place of the other one.
TEST_F(OwnershipTest, AnAbandonmentThatIsGivenUpIsFencedBeforeTheNextWork) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kMade);
  Handle(TurnRan{kKey, Find<RunTurn>().value().operation, TurnEnd::kAbandons});
  Outcome(fleet::Outcome::kUnknown);
  Row(OwnRow(1, 2));
  TimeOver();
  Withdraw();
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Row(OwnRow(1, 2));
  Change(2);
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
}

// A replica may have very many of them.
TEST_F(OwnershipTest, AnIdleSessionTakesLittleMemory) {
  static_assert(sizeof(SessionState) <= 128);
  Open();
  RunToCommit(1);
  EXPECT_NE(&machine_.sessions().at(kKey).now(), &SessionState().now());
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(&machine_.sessions().at(kKey).now(), &SessionState().now());  // that of all idle ones
}

TEST(OutcomeTest, AnUnknownStatusIsAnUnknownOutcome) {
  using enum TransactionKind;
  for (const TransactionKind kind :
       {kClaim, kTransfer, kStart, kCommit, kAbandon, kChange, kClose}) {
    EXPECT_EQ(OutcomeOf(absl::OkStatus(), kind), Outcome::kMade);
    EXPECT_EQ(OutcomeOf(absl::AbortedError(""), kind), Outcome::kFenced);
    EXPECT_EQ(OutcomeOf(absl::ResourceExhaustedError(""), kind), Outcome::kFull);
    EXPECT_EQ(OutcomeOf(absl::UnavailableError(""), kind), Outcome::kUnavailable);
    EXPECT_EQ(OutcomeOf(absl::InvalidArgumentError(""), kind), Outcome::kRefused);
    EXPECT_EQ(OutcomeOf(absl::DataLossError(""), kind), Outcome::kRefused);
    EXPECT_EQ(OutcomeOf(absl::UnknownError(""), kind), Outcome::kUnknown);
    EXPECT_EQ(OutcomeOf(absl::InternalError(""), kind), Outcome::kUnknown);
  }
}

// The same status means different things for different transactions.
TEST(OutcomeTest, AStatusIsReadForItsTransaction) {
  using enum TransactionKind;
  EXPECT_EQ(OutcomeOf(absl::AlreadyExistsError(""), kStart), Outcome::kTurnExists);
  EXPECT_EQ(OutcomeOf(absl::FailedPreconditionError(""), kCommit), Outcome::kTurnExists);
  EXPECT_EQ(OutcomeOf(absl::FailedPreconditionError(""), kStart), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(absl::FailedPreconditionError(""), kChange), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(absl::NotFoundError(""), kChange), Outcome::kRefused);
  EXPECT_EQ(OutcomeOf(absl::NotFoundError(""), kCommit), Outcome::kFenced);
}

}  // namespace
}  // namespace longstream::fleet
