// Every store of a fleet has leases, incarnations, claims, transfers, and rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/service/sessions/fleet_store/fleet_under_test.h"

namespace longstream::fleet {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Implementation {
  const char* name;
  std::unique_ptr<FleetUnderTest> (*make)();
};

class FleetStoreTest : public testing::TestWithParam<Implementation> {
 protected:
  // A replica with a lease.
  ReplicaName Start(const std::string& replica_id) {
    const ReplicaName name = fleet_->Join(replica_id);
    EXPECT_TRUE(fleet_->Renew(name).has_value());
    return name;
  }
  OwnedRow Row() { return fleet_->Read(session_, std::nullopt); }
  // A transaction at the present epoch and version.
  Outcome Make(TransactionKind kind, const ReplicaName& owner, const TurnId& turn = {}) {
    const OwnedRow row = Row();
    return fleet_->Apply({kind, {session_, row.epoch, row.version}, turn, owner});
  }
  std::optional<TurnState> StateOf(const TurnId& turn) { return fleet_->Read(session_, turn).turn; }

  static constexpr absl::Duration kMostOfTtl = absl::Hours(9);
  const SessionKey session_{"tenant", {1, 2}};
  const std::unique_ptr<FleetUnderTest> fleet_ = GetParam().make();
};

TEST_P(FleetStoreTest, ALeaseHoldsUntilItsEnd) {
  const ReplicaName a = fleet_->Join("1");
  fleet_->Open(session_, a);
  EXPECT_FALSE(Row().owner_lives) << "it has no lease yet";
  EXPECT_FALSE(fleet_->Renew(a)->lapsed) << "the first renewal";
  EXPECT_TRUE(Row().owner_lives);
  fleet_->Pass(kMostOfTtl);
  EXPECT_TRUE(Row().owner_lives);
  EXPECT_FALSE(fleet_->Renew(a)->lapsed);
  fleet_->Pass(kMostOfTtl);
  EXPECT_TRUE(Row().owner_lives);
  fleet_->Pass(kMostOfTtl);
  EXPECT_FALSE(Row().owner_lives);
  EXPECT_TRUE(fleet_->Renew(a)->lapsed);
  EXPECT_TRUE(Row().owner_lives);
  EXPECT_FALSE(fleet_->Renew(a)->lapsed);
}

TEST_P(FleetStoreTest, TheFirstRenewalOfAnIncarnationEndsTheLeaseOfTheEarlierOne) {
  const ReplicaName first = Start("1");
  fleet_->Open(session_, first);
  const ReplicaName second = fleet_->Join("1");
  EXPECT_NE(second, first);
  EXPECT_TRUE(Row().owner_lives) << "the second one has joined only";
  EXPECT_FALSE(fleet_->Renew(first)->lapsed);
  EXPECT_FALSE(fleet_->Renew(second)->lapsed);
  EXPECT_FALSE(Row().owner_lives);
  EXPECT_FALSE(fleet_->Renew(first).has_value());
  EXPECT_FALSE(Row().owner_lives);
  fleet_->Release(first);
  EXPECT_FALSE(fleet_->Renew(second)->lapsed) << "the release was that of another incarnation";
}

TEST_P(FleetStoreTest, ALeaseThatIsReleasedIsOver) {
  const ReplicaName a = Start("1"), b = Start("2");
  fleet_->Open(session_, a);
  fleet_->Release(a);
  fleet_->Release(a);
  EXPECT_FALSE(Row().owner_lives);
  EXPECT_THAT(fleet_->Renew(b)->others, IsEmpty());
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kMade);
}

TEST_P(FleetStoreTest, ARenewalNamesTheOthersWhoseLeasesHold) {
  const ReplicaName a = Start("1"), b = Start("2");
  fleet_->Join("3");
  EXPECT_THAT(fleet_->Renew(a)->others, ElementsAre(b));
  const ReplicaName c = Start("3");
  EXPECT_THAT(fleet_->Renew(b)->others, ElementsAre(a, c));
  fleet_->Pass(kMostOfTtl);
  EXPECT_THAT(fleet_->Renew(c)->others, ElementsAre(a, b));
  fleet_->Pass(kMostOfTtl);
  EXPECT_THAT(fleet_->Renew(c)->others, IsEmpty());
  const ReplicaName next = Start("1");
  EXPECT_THAT(fleet_->Renew(c)->others, ElementsAre(next));
}

TEST_P(FleetStoreTest, AClaimTakesOnlyWhatNoLeaseHolds) {
  const ReplicaName a = Start("1"), b = Start("2");
  fleet_->Open(session_, a);
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kNotAllowed);
  fleet_->Pass(kMostOfTtl);
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kNotAllowed);
  fleet_->Renew(b);
  fleet_->Pass(kMostOfTtl);
  const OwnedRow before = Row();
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kMade);
  const OwnedRow after = Row();
  EXPECT_EQ(after.owner, b);
  EXPECT_EQ(after.epoch, before.epoch + 1);
  EXPECT_EQ(after.version, before.version + 1);
  const Transaction late = {
      TransactionKind::kClaim, {session_, before.epoch, before.version}, {}, b};
  EXPECT_EQ(fleet_->Apply(late), Outcome::kFenced);
  fleet_->Pass(kMostOfTtl);
  EXPECT_EQ(Make(TransactionKind::kClaim, a), Outcome::kNotAllowed) << "its own lease is over";
  EXPECT_EQ(Make(TransactionKind::kClaim, "3/9"), Outcome::kNotAllowed) << "it has no lease";
  EXPECT_EQ(Row(), (OwnedRow{.open = true, .owner = b, .epoch = 2, .version = 2}));
}

TEST_P(FleetStoreTest, TheOwnerOfBeforeTheFleetIsNobody) {
  fleet_->Open(session_, "");
  EXPECT_FALSE(Row().owner_lives);
  EXPECT_EQ(Make(TransactionKind::kClaim, Start("1")), Outcome::kMade);
}

TEST_P(FleetStoreTest, ATransferNeedsTheLeaseOfItsReceiverOnly) {
  const ReplicaName a = Start("1"), b = Start("2");
  fleet_->Open(session_, a);
  EXPECT_EQ(Make(TransactionKind::kTransfer, b), Outcome::kMade);
  EXPECT_EQ(Row().owner, b);
  EXPECT_EQ(Make(TransactionKind::kTransfer, b), Outcome::kMade) << "to itself";
  EXPECT_EQ(Row().epoch, 3);
  EXPECT_EQ(Make(TransactionKind::kTransfer, fleet_->Join("3")), Outcome::kNotAllowed);
  fleet_->Pass(kMostOfTtl);
  fleet_->Renew(b);
  fleet_->Pass(kMostOfTtl);
  EXPECT_EQ(Make(TransactionKind::kTransfer, a), Outcome::kNotAllowed);
  EXPECT_EQ(Row().owner, b);
}

TEST_P(FleetStoreTest, AfterARestartNothingIsClaimedForTheTimeOfALease) {
  const ReplicaName a = Start("1"), b = Start("2");
  fleet_->Open(session_, a);
  const int64_t generation = fleet_->Renew(b)->generation;
  fleet_->Pass(kMostOfTtl);
  EXPECT_EQ(fleet_->Renew(b)->generation, generation);
  fleet_->Pass(kMostOfTtl);
  const std::optional<Renewal> noticed = fleet_->Restart(b);
  EXPECT_EQ(noticed->generation, generation + 1);
  EXPECT_FALSE(Row().owner_lives);
  EXPECT_FALSE(Row().claims_allowed);
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kNotAllowed);
  fleet_->Pass(kMostOfTtl);
  EXPECT_EQ(fleet_->Renew(b)->generation, generation + 1);
  EXPECT_EQ(Make(TransactionKind::kClaim, b), Outcome::kNotAllowed);
  EXPECT_EQ(Make(TransactionKind::kTransfer, b), Outcome::kMade) << "its owner may give it";
  fleet_->Open({"tenant", {3, 4}}, a);
  fleet_->Pass(kMostOfTtl);
  fleet_->Renew(b);
  EXPECT_TRUE(Row().claims_allowed);
  const Transaction claim = {TransactionKind::kClaim, {{"tenant", {3, 4}}, 1, 1}, {}, b};
  EXPECT_EQ(fleet_->Apply(claim), Outcome::kMade);
}

TEST_P(FleetStoreTest, TheRowHasTheStateOfATurn) {
  const ReplicaName a = Start("1");
  const TurnId first{5, 1}, second{5, 2}, third{5, 3}, fourth{5, 4};
  EXPECT_EQ(Row(), OwnedRow{}) << "there is no such session";
  fleet_->Open(session_, a);
  EXPECT_EQ(fleet_->Read({"other", session_.id}, first), OwnedRow{});
  EXPECT_EQ(StateOf(first), std::nullopt);
  EXPECT_EQ(Make(TransactionKind::kStart, "", first), Outcome::kMade);
  EXPECT_EQ(StateOf(first), TurnState::kStarted);
  EXPECT_EQ(Make(TransactionKind::kStart, "", first), Outcome::kTurnExists);
  EXPECT_EQ(Make(TransactionKind::kStart, "", second), Outcome::kMade);
  EXPECT_EQ(Make(TransactionKind::kCommit, "", first), Outcome::kMade);
  EXPECT_EQ(StateOf(first), TurnState::kCommitted);
  EXPECT_EQ(StateOf(second), TurnState::kAbandoned) << "the head has moved";
  EXPECT_EQ(Make(TransactionKind::kCommit, "", second), Outcome::kTurnExists);
  EXPECT_EQ(Make(TransactionKind::kStart, "", third), Outcome::kMade);
  EXPECT_EQ(StateOf(third), TurnState::kStarted);
  EXPECT_EQ(Make(TransactionKind::kTransfer, a), Outcome::kMade);
  EXPECT_EQ(StateOf(third), TurnState::kStarted) << "a new owner goes on with it";
  EXPECT_EQ(Make(TransactionKind::kChange, ""), Outcome::kMade);
  EXPECT_EQ(StateOf(third), TurnState::kAbandoned);
  EXPECT_EQ(Make(TransactionKind::kStart, "", fourth), Outcome::kMade);
  EXPECT_EQ(Make(TransactionKind::kAbandon, "", fourth), Outcome::kMade);
  EXPECT_EQ(StateOf(fourth), TurnState::kAbandoned);
  EXPECT_EQ(Make(TransactionKind::kAbandon, "", fourth), Outcome::kRefused);
  const OwnedRow row = Row();
  EXPECT_EQ(Make(TransactionKind::kClose, ""), Outcome::kMade);
  EXPECT_EQ(fleet_->Read(session_, first), OwnedRow{});
  const Transaction late = {TransactionKind::kTransfer, {session_, row.epoch, row.version}, {}, a};
  EXPECT_EQ(fleet_->Apply(late), Outcome::kFenced);
}

INSTANTIATE_TEST_SUITE_P(Stores, FleetStoreTest,
                         testing::Values(Implementation{"Model", NewModelFleet},
                                         Implementation{"Postgres", NewPostgresFleet}),
                         [](const testing::TestParamInfo<Implementation>& test) {
                           return std::string(test.param.name);
                         });

}  // namespace
}  // namespace longstream::fleet
