// Single steps of the ownership of sessions: how a session gets from one replica to another.
#include <gtest/gtest.h>

#include "service/sessions/fleet/ownership.h"
#include "tests/fleet/ownership_fixture.h"

namespace longstream::fleet {
namespace {

class RedirectingTest : public OwnershipTest {
 protected:
  RedirectingTest() : OwnershipTest({.redirect = true}) {}
};

TEST_F(OwnershipTest, NobodyClaimsAfterARestartOfTheDatabase) {
  Call(1);
  OwnedRow row = PeersRow(false);
  row.claims_allowed = false;
  Row(row);
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
}

TEST_F(OwnershipTest, ALivingOwnerIsAskedAndItsCachesAreReceivedBeforeTheTransfer) {
  Call(1);
  Row(PeersRow(true));
  const Fetch fetch = Sent<Fetch>().value();
  EXPECT_EQ(fetch.epoch, 3);
  Handle(MessageArrives{kPeer, Given{kKey, fetch.request, 3, 9, true}});
  const Number operation = Find<ReceiveCaches>().value().operation;
  EXPECT_FALSE(Has<Transact>());
  Handle(CachesArrived{kKey, operation, true});
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(Sent<Moved>().value().epoch, 4);
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.epoch, 4);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 10);
}

TEST_F(OwnershipTest, ALostAnswerOfATransferIsSettledByTheRow) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Given{kKey, Sent<Fetch>().value().request, 3, 9, false}});
  Outcome(fleet::Outcome::kUnknown);
  Row({.owner = kSelf, .epoch = 4, .version = 10, .owner_lives = true});
  EXPECT_TRUE(Owns());
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
}

TEST_F(OwnershipTest, AnAnswerWithAnotherNumberIsLate) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Given{kKey, Sent<Fetch>().value().request + 1, 3, 9, false}});
  EXPECT_TRUE(actions_.empty());
}

TEST_F(OwnershipTest, APeerThatDoesNotAnswerIsNotWaitedForLong) {
  Call(1);
  Row(PeersRow(true));
  Handle(TimerFired{kKey, Find<SetTimer>().value().timer});
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
}

TEST_F(OwnershipTest, ATurnThatRunsOnTheOwnerIsRelayed) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Refused{kKey, Sent<Fetch>().value().request, Refusal::kRunning}});
  const Attach attach = Sent<Attach>().value();
  EXPECT_FALSE(AnswerOf(1).has_value());
  Handle(MessageArrives{kPeer, Attached{kKey, attach.relay, RelayEnd::kCommitted}});
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
}

TEST_F(RedirectingTest, TheClientLearnsTheOwner) {
  Call(1);
  Row(PeersRow(true));
  ASSERT_TRUE(Has<EndCall>());
  EXPECT_EQ(Find<EndCall>().value().answer, Answer::kElsewhere);
  EXPECT_EQ(Find<EndCall>().value().owner, kPeer);
}

TEST_F(OwnershipTest, ANewSessionIsGivenAtOnce) {
  Open();
  Handle(MessageArrives{kPeer, Fetch{kKey, 5, 1, kTurn}});
  EXPECT_EQ(Sent<Given>().value().request, 5u);
  EXPECT_EQ(Find<SendCaches>().value().to, kPeer);
  Call(1);  // no turn starts meanwhile
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Handle(MessageArrives{kPeer, Moved{.session = kKey, .epoch = 2}});
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_TRUE(machine_.sessions().empty());
}

TEST_F(OwnershipTest, ASessionThatHasComeIsGivenAfterMinResidency) {
  Change(1);
  Row(PeersRow(false));
  Outcome(fleet::Outcome::kMade);  // the claim
  const Number residency = Find<SetTimer>().value().timer;
  Outcome(fleet::Outcome::kMade);  // the change
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
  Handle(MessageArrives{kPeer, Fetch{kKey, 5, 4, kTurn}});
  EXPECT_EQ(Sent<Refused>().value().why, Refusal::kNotYet);
  Handle(TimerFired{kKey, residency});
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 4, kTurn}});
  EXPECT_EQ(Sent<Given>().value().request, 6u);
}

// Its own transaction fences the receiver's, which may still come.
TEST_F(OwnershipTest, AReceiverThatDoesNothingLosesTheSessionAgain) {
  Open();
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  Handle(TimerFired{kKey, Find<SetTimer>().value().timer});
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  EXPECT_EQ(Find<Transact>().value().transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  EXPECT_FALSE(Has<DropCopy>());
  Call(1);
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.epoch, 2);
}

// A change that was given up may be made after the row was read. Then each transaction of a
// receiver is fenced, and the receiver asks again at once.
TEST_F(OwnershipTest, AReceiverThatAsksAgainMakesTheOwnerLookAtTheRow) {
  Open();
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  EXPECT_TRUE(Sent<Given>().has_value());
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});  // repeated by the network
  EXPECT_TRUE(actions_.empty());
  Handle(MessageArrives{kPeer, Fetch{kKey, 7, 1, kTurn}});
  EXPECT_EQ(Sent<Refused>().value().why, Refusal::kNotYet);
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  Outcome(fleet::Outcome::kFenced);
  EXPECT_TRUE(Has<DropCopy>());
  Row(OwnRow(1, 2));
  Handle(MessageArrives{kPeer, Fetch{kKey, 8, 1, kTurn}});
  EXPECT_EQ(Sent<Given>().value().version, 2);
}

TEST_F(OwnershipTest, AReceiverThatWasFasterHasTheSession) {
  Open();
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  Handle(TimerFired{kKey, Find<SetTimer>().value().timer});
  Outcome(fleet::Outcome::kFenced);
  EXPECT_TRUE(Has<DropCopy>());
  Row(PeersRow(true));
  EXPECT_TRUE(machine_.sessions().empty());
}

// A claim that was given up, and made late.
TEST_F(OwnershipTest, AnOwnerThatDidNotKnowItGivesTheSession) {
  Handle(MessageArrives{kPeer, Fetch{kKey, 5, 8, kTurn}});
  Row({.owner = kSelf, .epoch = 8, .version = 20, .owner_lives = true});
  ASSERT_TRUE(Sent<Given>().has_value());
  EXPECT_EQ(Sent<Given>().value().version, 20);
  EXPECT_FALSE(Sent<Given>().value().has_caches);
}

TEST_F(OwnershipTest, ALeaseThatLapsedHasItsRowsReadAgain) {
  Open();
  Handle(LeaseOver{});
  Call(1);
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Handle(LeaseRenewed{.generation = 1, .lapsed = true});
  Row(PeersRow(true));
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_TRUE(machine_.sessions().empty());
}

TEST_F(OwnershipTest, ARestartedDatabaseIsReadBeforeTheCommit) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kMade);
  run_operation_ = Find<RunTurn>().value().operation;
  Handle(LeaseRenewed{.generation = 2});
  Ran();
  EXPECT_FALSE(Has<Transact>());
  Row({.owner = kSelf, .epoch = 1, .version = 2, .turn = TurnState::kStarted, .owner_lives = true});
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kCommit);
}

TEST_F(OwnershipTest, ACloseIsFencedAndTheOwnerIsTold) {
  Handle(CloseArrives{1, kKey});
  Row(PeersRow(true));
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kClose);
  EXPECT_EQ(Find<Transact>().value().transaction.fence.version, 9);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(1), Answer::kClosed);
  EXPECT_TRUE(Sent<Moved>().value().closed);
}

TEST_F(OwnershipTest, ACloseCancelsTheTurnThatRuns) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kMade);
  Handle(CloseArrives{2, kKey});
  EXPECT_EQ(AnswerOf(1), Answer::kCancelled);
  EXPECT_TRUE(Has<StopTurn>());
  Row({.owner = kSelf, .epoch = 1, .version = 2, .owner_lives = true});
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(2), Answer::kClosed);
  EXPECT_TRUE(Has<DropCopy>());
}

TEST_F(OwnershipTest, AnUnknownSessionIsNotFound) {
  Call(1);
  NoRow();
  EXPECT_EQ(AnswerOf(1), Answer::kNotFound);
}

TEST_F(OwnershipTest, ADrainOffersSessionsAndExits) {
  Open();
  Handle(PeersChanged{{kPeer}});
  Handle(DrainBegins{});
  const Offer offer = Sent<Offer>().value();
  EXPECT_FALSE(Has<Exit>());
  Call(1);
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Handle(MessageArrives{kPeer, Moved{.session = kKey, .epoch = offer.epoch + 1}});
  ASSERT_TRUE(Has<Exit>());
  EXPECT_TRUE(Find<Exit>().value().release_lease);
  EXPECT_TRUE(machine_.exited());
}

TEST_F(OwnershipTest, ADrainWaitsForTheTurnUntilGraceIsOver) {
  Open();
  Call(1);
  Outcome(fleet::Outcome::kMade);
  Handle(DrainBegins{});
  EXPECT_FALSE(Has<Exit>());
  Handle(GraceOver{});
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_TRUE(Has<Exit>());
}

TEST_F(OwnershipTest, ATurnWhoseStartIsMadeAfterTheGraceTimeDoesNotRun) {
  Open();
  Call(1);
  const Number operation = Find<Transact>().value().operation;
  Handle(DrainBegins{});
  Handle(GraceOver{});
  EXPECT_FALSE(Has<Exit>());
  Handle(Transacted{kKey, operation, fleet::Outcome::kMade});
  EXPECT_FALSE(Has<RunTurn>());
  EXPECT_FALSE(Has<ShowTurn>());
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_TRUE(Has<Exit>());
}

TEST_F(OwnershipTest, AnOfferIsTakenByATransaction) {
  Handle(MessageArrives{kPeer, Offer{kKey, 4, 3, 9, true}});
  Handle(CachesArrived{kKey, Find<ReceiveCaches>().value().operation, true});
  EXPECT_EQ(Find<Transact>().value().transaction.kind, TransactionKind::kTransfer);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(Sent<Moved>().value().epoch, 4);
  EXPECT_TRUE(Owns());
}

TEST_F(OwnershipTest, ALaterIncarnationEndsEverything) {
  Open();
  Call(1);
  Handle(LeaseReplaced{});
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_FALSE(Find<Exit>().value().release_lease);
}

}  // namespace
}  // namespace longstream::fleet
