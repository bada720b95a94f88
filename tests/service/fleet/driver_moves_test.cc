// Single steps of the driver: how sessions get from one replica to another, and the end of a
// replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/fleet/session_owner.h"
#include "tests/service/fleet/driver_fixture.h"
#include "tests/service/metric_value.h"

namespace longstream::fleet {
namespace {

class RedirectingDriverTest : public DriverTest {
 protected:
  RedirectingDriverTest() : DriverTest({.redirect = true}) {}
};

class ImpatientDriverTest : public DriverTest {
 protected:
  ImpatientDriverTest()
      : DriverTest({.times = {.peer_answer = absl::Milliseconds(20),
                              .giving = absl::Milliseconds(20),
                              .residency = absl::ZeroDuration()}}) {}
};

TEST_F(DriverTest, ASessionOfADeadOwnerIsClaimed) {
  Open("7/1");
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().epoch, 2);
  EXPECT_EQ(use->fence().version, 2);
  EXPECT_EQ(MetricValue(registry_, "longstream_claims_total"), 1);
}

TEST_F(DriverTest, AnOwnerThatLivesGivesTheSessionAndItsCaches) {
  Open(kPeerName);
  const std::shared_ptr<Reply> reply = EnterTurn(1);
  const Fetch fetch = peers_.Take<Fetch>();
  EXPECT_EQ(fetch.turn, (TurnId{0, 1}));
  driver_->MessageArrived(kPeerName, Given{kSession, fetch.request, 1, 1, true});
  const ScriptedPeers::Receive receive = peers_.TakeReceive();
  EXPECT_EQ(receive.request, fetch.request);
  absl::Notification refused;
  receive.begin("header", [&](const absl::StatusOr<std::shared_ptr<CacheWriter>>& writer) {
    EXPECT_TRUE(absl::IsResourceExhausted(writer.status()));
    refused.Notify();
  });
  refused.WaitForNotification();
  EXPECT_EQ(copies_.taken_version(), 2);
  EXPECT_FALSE(reply->has_arrived());
  receive.arrived(absl::ResourceExhaustedError("no memory"));  // goes on without them
  ASSERT_TRUE(reply->Wait().ok());
  EXPECT_EQ(reply->Wait()->use->fence().epoch, 2);
  EXPECT_EQ(peers_.Take<Moved>().epoch, 2);
  EXPECT_EQ(MetricValue(registry_, "longstream_handovers_total", {{"outcome", "taken"}}), 1);
  EXPECT_EQ(ObservedCount(registry_, "longstream_handover_seconds", {{"part", "whole"}}), 1u);
  EXPECT_EQ(ObservedCount(registry_, "longstream_handover_seconds", {{"part", "caches"}}), 0u);
  EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handover_caches_lost_total",
                          {{"op", "received"}, {"reason", "no_memory"}}),
            1);
}

TEST_F(DriverTest, ATurnThatRunsOnThePeerIsRelayed) {
  Open(kPeerName);
  const std::shared_ptr<Reply> reply = EnterTurn(1);
  const Fetch fetch = peers_.Take<Fetch>();
  driver_->MessageArrived(kPeerName, Refused{kSession, fetch.request, Refusal::kRunning});
  ASSERT_TRUE(reply->Wait().ok());
  EXPECT_EQ(reply->Wait()->how, Entry::How::kRelay);
  EXPECT_EQ(reply->Wait()->peer.name, kPeerName);
  EXPECT_EQ(reply->Wait()->peer.peer_address, "peer:1");
  driver_->RelayEnded(reply->Wait()->relay, absl::UnavailableError("broken"));
  driver_->RelayEnded(reply->Wait()->relay, absl::OkStatus());  // late
  EnterTurn(1);
  EXPECT_NE(peers_.Take<Fetch>().request, fetch.request);
}

TEST_F(ImpatientDriverTest, AnOwnerThatDoesNotAnswerIsNamed) {
  Open(kPeerName);
  const absl::Status status = EnterTurn(1)->Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(kPeerName), std::string::npos) << status;
  const Number request = peers_.Take<Fetch>().request;
  EXPECT_TRUE(WaitUntil([&] { return peers_.forgotten() == request; }));
}

TEST_F(RedirectingDriverTest, TheClientIsToldTheAddressOfTheOwner) {
  Open(kPeerName);
  const absl::Status status = EnterTurn(1)->Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("client:1"), std::string::npos) << status;
  const std::optional<SessionOwner> owner = OwnerOf(status);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->name, kPeerName);
  EXPECT_EQ(owner->client_address, "client:1");
}

// Its operator has given it another token.
TEST_F(DriverTest, AnOwnerThatRefusesTheCallsOfThisReplicaIsNamedWithItsReason) {
  Open(kPeerName);
  const std::shared_ptr<Reply> reply = EnterTurn(1);
  const Fetch fetch = peers_.Take<Fetch>();
  driver_->CallRefused(kPeerName, fetch.request, absl::UnauthenticatedError("no such token"));
  driver_->MessageArrived(kPeerName, Refused{kSession, fetch.request, Refusal::kNotYet});
  const absl::Status status = reply->Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("refuses the calls of this one: UNAUTHENTICATED: no such token"));
  EXPECT_EQ(MetricValue(registry_, "longstream_handovers_total", {{"outcome", "unanswered"}}), 1);
}

TEST_F(DriverTest, AChangeThatATurnOnThePeerHoldsUpNamesThePeer) {
  Open(kPeerName);
  const std::shared_ptr<Reply> reply = EnterChange();
  const auto fetch = peers_.Take<Fetch>();
  driver_->MessageArrived(kPeerName, Refused{kSession, fetch.request, Refusal::kBusy});
  const absl::Status status = reply->Wait().status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  const std::optional<SessionOwner> owner = OwnerOf(status);
  ASSERT_TRUE(owner.has_value());
  EXPECT_EQ(owner->name, kPeerName);
}

TEST_F(ImpatientDriverTest, AnIdleSessionIsGivenAndForgotten) {
  copies_.SetCachesAt(1);
  Open(self_);
  Given given;
  ASSERT_TRUE(WaitUntil([&] {  // min_residency is over soon
    driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
    if (driver_->Counts().drain.offered == 0) return false;
    given = peers_.Take<Given>();
    return true;
  }));
  EXPECT_TRUE(given.has_caches);
  EXPECT_TRUE(WaitUntil([&] { return peers_.caches_sent() > 0; }));
  ASSERT_TRUE(Apply(store::ChangeOwner{{kSession, given.epoch, given.version},
                                       kPeerName,
                                       store::OwnerCondition::kTransfer})
                  .ok());
  driver_->MessageArrived(kPeerName, Moved{.session = kSession, .epoch = given.epoch + 1});
  EXPECT_TRUE(WaitUntil([&] { return driver_->Counts().sessions == 0; }));
  EXPECT_EQ(driver_->Counts().handed_over, 1u);
  EXPECT_GT(copies_.drops(), 0);
}

TEST_F(ImpatientDriverTest, ASessionThatWasNotTakenIsKeptWithItsCopy) {
  Open(self_);
  ASSERT_TRUE(WaitUntil([&] {
    driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
    return driver_->Counts().drain.offered > 0;
  }));
  EXPECT_FALSE(peers_.Take<Given>().has_caches);  // the copies have none
  ASSERT_TRUE(WaitUntil([&] { return copies_.kept_version() == 2; }));
  EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handovers_total", {{"outcome", "kept"}}), 1);
  EXPECT_EQ(copies_.drops(), 0);
}

// The receiver was killed. Its time would be over only in more than a minute.
TEST_F(DriverTest, ASessionIsKeptSoonIfTheCallOfItsReceiverBreaksOff) {
  Open(self_);
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  EXPECT_EQ(peers_.Take<Given>().request, 9u);
  driver_->GivingBroken(kPeerName, 8);  // another one
  driver_->GivingBroken(kPeerName, 9);
  EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handovers_total", {{"outcome", "kept"}}), 1);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().epoch, 2);
  driver_->GivingBroken(kPeerName, 9);  // late
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  use->Committed(CommitTurn(*use, 1));
  EXPECT_EQ(ModelError(), "");
}

// It has made its transaction all the same.
TEST_F(DriverTest, ASessionWhoseReceiverHasItIsForgottenWhenTheCallBreaksOff) {
  Open(self_);
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  const Given given = peers_.Take<Given>();
  ASSERT_TRUE(Apply(store::ChangeOwner{{kSession, given.epoch, given.version},
                                       kPeerName,
                                       store::OwnerCondition::kTransfer})
                  .ok());
  driver_->GivingBroken(kPeerName, 9);
  EXPECT_TRUE(WaitUntil([&] { return driver_->Counts().sessions == 0; }));
  EXPECT_EQ(driver_->Counts().handed_over, 1u);
}

TEST_F(DriverTest, ASessionIsKeptIfTheLeaseOfItsReceiverIsOver) {
  Open(self_);
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  EXPECT_EQ(peers_.Take<Given>().request, 9u);
  driver_->LeaseRenewed({.generation = 1, .lapsed = false, .others = {{"2/1", "p:2", "c:2"}}});
  EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handovers_total", {{"outcome", "kept"}}), 1);
}

TEST_F(DriverTest, ReplicasLiveWhoseLeasesHeldAtTheLastRenewal) {
  EXPECT_TRUE(WaitUntil([&] { return driver_->Lives(kPeerName); }));
  EXPECT_FALSE(driver_->Lives("2/1"));
  driver_->LeaseRenewed({.generation = 1, .lapsed = false, .others = {{"2/1", "p:2", "c:2"}}});
  EXPECT_TRUE(WaitUntil([&] { return driver_->Lives("2/1"); }));
  EXPECT_FALSE(driver_->Lives(kPeerName));
}

TEST_F(DriverTest, TheFirstReplicaIsThatWithTheLeastName) {
  const auto renew = [this](std::vector<Replica> others) {
    driver_->LeaseRenewed({.generation = 1, .lapsed = false, .others = std::move(others)});
  };
  renew({{"!/9", "p:0", "c:0"}, {"~/1", "p:9", "c:9"}});
  EXPECT_TRUE(WaitUntil([&] { return !driver_->IsFirst(); }));
  renew({{"~/1", "p:9", "c:9"}});
  EXPECT_TRUE(WaitUntil([&] { return driver_->IsFirst(); }));
  renew({});
  EXPECT_TRUE(driver_->IsFirst());
}

class OneOfferTest : public DriverTest {
 protected:
  OneOfferTest() : DriverTest({.max_offers = 1}) {}

  void AddPeer(const ReplicaName& name) {
    (void)database_.Join(name.substr(0, name.find('/')));
    (void)database_.Renew({name, "peer:" + name, "client:" + name, false});
    RenewLease();
  }
  void OpenSessions(uint64_t sessions) {
    for (uint64_t i = 1; i <= sessions; ++i) {
      const SessionKey key{"tenant", {0, i}};
      database_.WithModel([&](ModelStore& model) { model.Open(key, self_); });
      driver_->Opened(key, 1, 1);
    }
  }
};

// A peer that has just ended holds up a drain once, not for each session.
TEST_F(OneOfferTest, ADrainGoesOnWithThePeersThatAnswer) {
  AddPeer("2/1");
  OpenSessions(3);
  driver_->BeginDrain();
  ReplicaName gone, other;
  const Offer first = peers_.Take<Offer>(&gone);
  driver_->GivingBroken(gone, first.request);
  for (int i = 0; i < 3; ++i) {
    const Offer offer = peers_.Take<Offer>(&other);
    EXPECT_NE(other, gone);
    driver_->MessageArrived(other, Moved{.session = offer.session, .epoch = offer.epoch + 1});
  }
  exited_.WaitForNotification();
  EXPECT_EQ(last_counts_.handed_over, 3u);
}

// A cut that has ended: the only peer is asked again.
TEST_F(OneOfferTest, ADrainAsksTheOnlyPeerAgain) {
  OpenSessions(2);
  driver_->BeginDrain();
  driver_->GivingBroken(kPeerName, peers_.Take<Offer>().request);
  for (int i = 0; i < 2; ++i) {
    const Offer offer = peers_.Take<Offer>();
    driver_->MessageArrived(kPeerName, Moved{.session = offer.session, .epoch = offer.epoch + 1});
  }
  exited_.WaitForNotification();
  EXPECT_EQ(last_counts_.handed_over, 2u);
}

TEST_F(DriverTest, AnEvictedSessionIsReadAgain) {
  Open(self_);
  RunTurn(1);
  driver_->Evicted(kSession);
  EXPECT_TRUE(WaitUntil([&] { return driver_->Counts().sessions == 0; }));
  const std::shared_ptr<Reply> reply = EnterTurn(1);
  ASSERT_TRUE(reply->Wait().ok());
  EXPECT_EQ(reply->Wait()->how, Entry::How::kReplay);
  const std::shared_ptr<SessionUse> use = UseForTurn(2);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().epoch, 1);
  EXPECT_EQ(use->fence().version, 3);
}

TEST_F(DriverTest, ADrainOffersIdleSessionsAndExits) {
  Open(self_);
  driver_->BeginDrain();
  const Offer offer = peers_.Take<Offer>();
  EXPECT_TRUE(absl::IsUnavailable(EnterTurn(1)->Wait().status()));
  driver_->MessageArrived(kPeerName, Moved{.session = kSession, .epoch = offer.epoch + 1});
  exited_.WaitForNotification();
  EXPECT_TRUE(release_);
  EXPECT_EQ(last_counts_.handed_over, 1u);
  EXPECT_EQ(last_counts_.sessions, 0u);
  EXPECT_TRUE(last_counts_.exited);
}

TEST_F(DriverTest, TheEndOfTheGraceTimeStopsTurns) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  driver_->BeginDrain();
  EXPECT_FALSE(exited_.HasBeenNotified());
  driver_->GraceOver();
  EXPECT_TRUE(WaitUntil([&] { return absl::IsUnavailable(copies_.stopped()); }));
  EXPECT_TRUE(absl::IsUnavailable(Ran(*use, TurnEnd::kCommits)));
  driver_->DrainOver();
  exited_.WaitForNotification();
}

TEST_F(DriverTest, TheEndOfTheGraceTimeStopsATurnThatWaitsForAdmission) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  driver_->BeginDrain();
  driver_->GraceOver();
  EXPECT_TRUE(WaitUntil([&] { return absl::IsUnavailable(copies_.stopped()); }));
  use.reset();
  (void)peers_.Take<Offer>();  // it is idle now
}

// A start that becomes durable after the grace time: the engine runs already.
TEST_F(DriverTest, AStartAfterTheGraceTimeIsStopped) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  driver_->BeginDrain();
  driver_->GraceOver();
  use->Started(StartTurn(*use, 1));
  EXPECT_TRUE(absl::IsUnavailable(Ran(*use, TurnEnd::kCommits)));
  (void)peers_.Take<Offer>();
}

}  // namespace
}  // namespace longstream::fleet
