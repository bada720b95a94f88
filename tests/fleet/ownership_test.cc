// Single steps of the ownership of sessions: which actions follow from which events.
#include "service/sessions/fleet/ownership.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "service/sessions/fleet/outcome.h"

namespace longstream::fleet {
namespace {

const SessionKey kKey{"", SessionId{0, 1}};
const TurnId kTurn{0, 1};
const TurnId kOther{0, 2};
constexpr char kSelf[] = "0/1";
constexpr char kPeer[] = "1/1";

// A replica whose answers the test plays.
class OwnershipTest : public testing::Test {
 protected:
  explicit OwnershipTest(OwnershipOptions options = {}) : machine_(kSelf, options) {
    Handle(LeaseRenewed{.generation = 1});
  }

  void Handle(const Event& event) { actions_ = machine_.Handle(event); }

  // The only action of this type; nothing else is asked for.
  template <typename T>
  std::optional<T> Find() const {
    std::optional<T> found;
    for (const Action& action : actions_) {
      if (const T* each = std::get_if<T>(&action)) found = *each;
    }
    return found;
  }
  template <typename T>
  bool Has() const {
    return Find<T>().has_value();
  }
  std::optional<Answer> AnswerOf(CallId call) const {
    for (const Action& action : actions_) {
      const auto* end = std::get_if<EndCall>(&action);
      if (end != nullptr && end->call == call) return end->answer;
    }
    return std::nullopt;
  }
  template <typename T>
  std::optional<T> Sent() const {
    std::optional<T> found;
    for (const Action& action : actions_) {
      const auto* send = std::get_if<Send>(&action);
      if (send == nullptr) continue;
      if (const T* message = std::get_if<T>(&send->message)) found = *message;
    }
    return found;
  }

  void Open() { Handle(SessionOpened{kKey}); }
  void Call(CallId call, const TurnId& turn = kTurn) { Handle(TurnArrives{call, kKey, turn}); }
  void Change(CallId call) { Handle(ChangeArrives{call, kKey}); }
  void Row(OwnedRow row) {
    row.open = true;
    Handle(RowRead{kKey, Find<ReadRow>()->operation, row});
  }
  void NoRow() { Handle(RowRead{kKey, Find<ReadRow>()->operation, OwnedRow{}}); }
  void Outcome(fleet::Outcome outcome) {
    Handle(Transacted{kKey, Find<Transact>()->operation, outcome});
  }
  void TimeOver() { Handle(TimerFired{kKey, Find<SetTimer>()->timer}); }
  void Ran() { Handle(TurnRan{kKey, run_operation_}); }
  // Runs a turn of an open session up to its commit transaction.
  void RunToCommit(CallId call) {
    Call(call);
    Outcome(fleet::Outcome::kMade);
    run_operation_ = Find<RunTurn>()->operation;
    Ran();
  }
  static OwnedRow OwnRow(int64_t epoch, int64_t version) {
    return {.owner = kSelf, .epoch = epoch, .version = version, .owner_lives = true};
  }
  // A row of the peer, which lives or not.
  static OwnedRow PeersRow(bool lives) {
    return {.owner = kPeer, .epoch = 3, .version = 9, .owner_lives = lives};
  }
  bool Owns() const {
    const auto found = machine_.sessions().find(kKey);
    return found != machine_.sessions().end() && found->second.owned;
  }

  Ownership machine_;
  Actions actions_;
  Number run_operation_ = 0;
};

class RedirectingTest : public OwnershipTest {
 protected:
  RedirectingTest() : OwnershipTest({.redirect = true}) {}
};

TEST_F(OwnershipTest, AnOwnedSessionRunsATurnInTwoTransactions) {
  Open();
  Call(1);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 1);
  EXPECT_FALSE(Has<ShowTurn>());
  Outcome(fleet::Outcome::kMade);
  EXPECT_TRUE(Has<ShowTurn>());
  ASSERT_TRUE(Has<RunTurn>());
  EXPECT_FALSE(Find<RunTurn>()->restore);
  run_operation_ = Find<RunTurn>()->operation;
  Ran();
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kCommit);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 2);
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
  const Transaction first = Find<Transact>()->transaction;
  Outcome(fleet::Outcome::kUnknown);
  EXPECT_FALSE(AnswerOf(1).has_value());
  Row({.owner = kSelf, .epoch = 1, .version = 2, .turn = TurnState::kStarted, .owner_lives = true});
  EXPECT_FALSE(Has<Transact>());  // not at once: that could go on without a pause
  TimeOver();
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>()->transaction, first);
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
  const Number operation = Find<Transact>()->operation;
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
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
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kClaim);
  EXPECT_EQ(Find<Transact>()->transaction.fence.epoch, 3);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 9);
  EXPECT_EQ(Find<Transact>()->transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  ASSERT_TRUE(Has<RunTurn>());
  EXPECT_TRUE(Find<RunTurn>()->restore);
  EXPECT_TRUE(Find<RunTurn>()->resume);
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
  run_operation_ = Find<RunTurn>()->operation;
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
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kTransfer);
  EXPECT_EQ(Find<Transact>()->transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  ASSERT_TRUE(Has<Transact>());
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kChange);
  EXPECT_EQ(Find<Transact>()->transaction.fence.epoch, 2);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 2);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(2), Answer::kCommitted);
}

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
  const Number operation = Find<ReceiveCaches>()->operation;
  EXPECT_FALSE(Has<Transact>());
  Handle(CachesArrived{kKey, operation, true});
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kTransfer);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(Sent<Moved>()->epoch, 4);
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>()->transaction.fence.epoch, 4);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 10);
}

TEST_F(OwnershipTest, ALostAnswerOfATransferIsSettledByTheRow) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Given{kKey, Sent<Fetch>()->request, 3, 9, false}});
  Outcome(fleet::Outcome::kUnknown);
  Row({.owner = kSelf, .epoch = 4, .version = 10, .owner_lives = true});
  EXPECT_TRUE(Owns());
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kStart);
}

TEST_F(OwnershipTest, AnAnswerWithAnotherNumberIsLate) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Given{kKey, Sent<Fetch>()->request + 1, 3, 9, false}});
  EXPECT_TRUE(actions_.empty());
}

TEST_F(OwnershipTest, APeerThatDoesNotAnswerIsNotWaitedForLong) {
  Call(1);
  Row(PeersRow(true));
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
}

TEST_F(OwnershipTest, ATurnThatRunsOnTheOwnerIsRelayed) {
  Call(1);
  Row(PeersRow(true));
  Handle(MessageArrives{kPeer, Refused{kKey, Sent<Fetch>()->request, Refusal::kRunning}});
  const Attach attach = Sent<Attach>().value();
  EXPECT_FALSE(AnswerOf(1).has_value());
  Handle(MessageArrives{kPeer, Attached{kKey, attach.relay, RelayEnd::kCommitted}});
  EXPECT_EQ(AnswerOf(1), Answer::kCommitted);
}

TEST_F(RedirectingTest, TheClientLearnsTheOwner) {
  Call(1);
  Row(PeersRow(true));
  ASSERT_TRUE(Has<EndCall>());
  EXPECT_EQ(Find<EndCall>()->answer, Answer::kElsewhere);
  EXPECT_EQ(Find<EndCall>()->owner, kPeer);
}

TEST_F(OwnershipTest, AnIdleSessionIsGivenAfterMinResidency) {
  Open();
  const Number residency = Find<SetTimer>()->timer;
  Handle(MessageArrives{kPeer, Fetch{kKey, 5, 1, kTurn}});
  EXPECT_EQ(Sent<Refused>()->why, Refusal::kNotYet);
  Handle(TimerFired{kKey, residency});
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  EXPECT_EQ(Sent<Given>()->request, 6u);
  EXPECT_EQ(Find<SendCaches>()->to, kPeer);
  Call(1);  // no turn starts meanwhile
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  Handle(MessageArrives{kPeer, Moved{.session = kKey, .epoch = 2}});
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_TRUE(machine_.sessions().empty());
}

// Its own transaction fences the receiver's, which may still come.
TEST_F(OwnershipTest, AReceiverThatDoesNothingLosesTheSessionAgain) {
  Open();
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kTransfer);
  EXPECT_EQ(Find<Transact>()->transaction.owner, kSelf);
  Outcome(fleet::Outcome::kMade);
  EXPECT_FALSE(Has<DropCopy>());
  Call(1);
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kStart);
  EXPECT_EQ(Find<Transact>()->transaction.fence.epoch, 2);
}

TEST_F(OwnershipTest, AReceiverThatWasFasterHasTheSession) {
  Open();
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
  Handle(MessageArrives{kPeer, Fetch{kKey, 6, 1, kTurn}});
  Handle(TimerFired{kKey, Find<SetTimer>()->timer});
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
  EXPECT_EQ(Sent<Given>()->version, 20);
  EXPECT_FALSE(Sent<Given>()->has_caches);
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
  run_operation_ = Find<RunTurn>()->operation;
  Handle(LeaseRenewed{.generation = 2});
  Ran();
  EXPECT_FALSE(Has<Transact>());
  Row({.owner = kSelf, .epoch = 1, .version = 2, .turn = TurnState::kStarted, .owner_lives = true});
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kCommit);
}

TEST_F(OwnershipTest, ACloseIsFencedAndTheOwnerIsTold) {
  Handle(CloseArrives{1, kKey});
  Row(PeersRow(true));
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kClose);
  EXPECT_EQ(Find<Transact>()->transaction.fence.version, 9);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(AnswerOf(1), Answer::kClosed);
  EXPECT_TRUE(Sent<Moved>()->closed);
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
  EXPECT_TRUE(Find<Exit>()->release_lease);
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
  const Number operation = Find<Transact>()->operation;
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
  Handle(CachesArrived{kKey, Find<ReceiveCaches>()->operation, true});
  EXPECT_EQ(Find<Transact>()->transaction.kind, TransactionKind::kTransfer);
  Outcome(fleet::Outcome::kMade);
  EXPECT_EQ(Sent<Moved>()->epoch, 4);
  EXPECT_TRUE(Owns());
}

TEST(OutcomeTest, AnUnknownStatusIsAnUnknownOutcome) {
  using enum TransactionKind;
  for (const TransactionKind kind : {kClaim, kTransfer, kStart, kCommit, kChange, kClose}) {
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

TEST_F(OwnershipTest, ALaterIncarnationEndsEverything) {
  Open();
  Call(1);
  Handle(LeaseReplaced{});
  EXPECT_EQ(AnswerOf(1), Answer::kNotNow);
  EXPECT_TRUE(Has<DropCopy>());
  EXPECT_FALSE(Find<Exit>()->release_lease);
}

}  // namespace
}  // namespace longstream::fleet
