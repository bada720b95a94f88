// Single steps of the driver: what a call is told, and what its use does.
#include <gtest/gtest.h>

#include "tests/service/fleet/driver_fixture.h"
#include "tests/service/metric_value.h"

namespace longstream::fleet {
namespace {

TEST_F(DriverTest, ATurnOfAnOwnedSessionStartsAtTheFenceOfTheRowAndCommitsAtTheNextVersion) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  EXPECT_FALSE(use->resumes());
  EXPECT_EQ(use->fence().key, kSession);
  EXPECT_EQ(use->fence().epoch, 1);
  EXPECT_EQ(use->fence().version, 1);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  use->Committed(CommitTurn(*use, 1));
  use.reset();
  use = UseForTurn(2);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().version, 3);
  EXPECT_EQ(copies_.drops(), 0);
  EXPECT_EQ(ModelError(), "");
}

TEST_F(DriverTest, TheSameTurnAttachesWhenItsStartIsDurableAndAnotherOneIsAborted) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  const std::shared_ptr<Reply> same = EnterTurn(1);
  EXPECT_TRUE(absl::IsAborted(EnterTurn(2)->Wait().status()));
  EXPECT_FALSE(same->has_arrived());
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(same->Wait().ok());
  const std::shared_ptr<SessionUse> attached = std::move(same->Wait()->use);
  ASSERT_NE(attached, nullptr);
  EXPECT_TRUE(attached->resumes());
  EXPECT_TRUE(attached->attaches());
  EXPECT_FALSE(use->attaches());
  EXPECT_TRUE(absl::IsAborted(Ran(*attached, TurnEnd::kCommits)));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  use->Committed(CommitTurn(*use, 1));
  const std::shared_ptr<SessionUse> next = UseForTurn(2);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->fence().version, 3);
}

TEST_F(DriverTest, APeersCallAttachesOnlyToATurnThatRunsHere) {
  Open(self_);
  auto reply = std::make_shared<Reply>();
  driver_->AttachRunning(kSession, {0, 1}, reply->Callback(reply));
  EXPECT_TRUE(absl::IsAborted(reply->Wait().status()));
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  reply = std::make_shared<Reply>();
  driver_->AttachRunning(kSession, {0, 1}, reply->Callback(reply));
  ASSERT_TRUE(reply->Wait().ok());
  EXPECT_TRUE(reply->Wait()->use->resumes());
}

TEST_F(DriverTest, AUseThatIsDestroyedBeforeItsStartChangesNothing) {
  Open(self_);
  UseForTurn(1).reset();
  const std::shared_ptr<SessionUse> use = UseForTurn(2);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().version, 1);
  EXPECT_EQ(copies_.drops(), 0);
  EXPECT_TRUE(absl::IsAborted(Ran(*use, TurnEnd::kCommits)));  // it has no start
  EXPECT_NE(UseForTurn(3), nullptr);
}

// The holder knows from the log that the turn has started, and computes at once.
TEST_F(DriverTest, ATurnThatWasLostGoesOnHere) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  use.reset();
  use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  EXPECT_FALSE(use->resumes());
  EXPECT_EQ(use->fence().version, 2);
  use->Started(absl::AlreadyExistsError("the log has the turn"));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  const Content content = After(0, {0, 1});
  use->Committed(
      Apply(store::CommitTurn{use->fence(), 1, 0, std::to_string(content), absl::Now()}));
  ASSERT_NE(UseForTurn(2), nullptr);
  EXPECT_EQ(ModelError(), "");
}

TEST_F(DriverTest, ATurnThatFailsIsOverAndStaysStarted) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  EXPECT_TRUE(Ran(*use, TurnEnd::kFails).ok());
  const std::shared_ptr<SessionUse> next = UseForTurn(2);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->fence().version, 2);
}

TEST_F(DriverTest, AnAbandonmentRaisesTheVersionAndEndsTheTurnForGood) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kAbandons).ok());
  use->Committed(Apply(store::AbandonTurn{NextFence(*use), 1, "", absl::Now()}));
  use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  EXPECT_EQ(use->fence().version, 3);
  use->Started(absl::AlreadyExistsError("the log has the turn"));
  EXPECT_TRUE(WaitUntil([&] { return absl::IsFailedPrecondition(copies_.stopped()); }));
  EXPECT_TRUE(absl::IsFailedPrecondition(Ran(*use, TurnEnd::kCommits)));
}

TEST_F(DriverTest, AFencedStartDropsTheCopyAndTheOwnerIsAsked) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  ASSERT_TRUE(
      Apply(store::ChangeOwner{{kSession, 1, 1}, kPeerName, store::OwnerCondition::kTransfer})
          .ok());
  const absl::Status started = StartTurn(*use, 1);
  EXPECT_TRUE(absl::IsAborted(started));
  use->Started(started);
  EXPECT_TRUE(WaitUntil([&] { return copies_.drops() > 0; }));
  EnterTurn(1);
  EXPECT_EQ(peers_.Take<Fetch>().epoch, 2);
}

TEST_F(DriverTest, AFencedCommitIsCountedAndTheNextCallFindsTheOwner) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  ASSERT_TRUE(
      Apply(store::ChangeOwner{{kSession, 1, 2}, kPeerName, store::OwnerCondition::kTransfer})
          .ok());
  use->Committed(CommitTurn(*use, 1));
  EXPECT_TRUE(WaitUntil([&] { return copies_.drops() > 0; }));
  EXPECT_EQ(MetricValue(registry_, "longstream_fenced_commits_total"), 1);
}

TEST_F(DriverTest, ACommitThatTheStoreCouldNotMakeLeavesTheSessionUsable) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  use->Committed(absl::UnavailableError("the database is away"));
  const std::shared_ptr<SessionUse> next = UseForTurn(2);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->fence().version, 2);
  EXPECT_EQ(copies_.drops(), 0);
}

TEST_F(DriverTest, AnUnknownCommitThatWasMadeIsReplayed) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  ASSERT_TRUE(CommitTurn(*use, 1).ok());
  use->Committed(absl::UnknownError("the connection was lost"));
  use.reset();
  ASSERT_TRUE(WaitUntil([&] {
    const std::shared_ptr<SessionUse> next = EnterTurn(2)->Wait().value_or(Entry{}).use;
    return next != nullptr && next->fence().version == 3;
  }));
}

// Another transaction decides whether the commit can still be made.
TEST_F(DriverTest, AnUnknownCommitThatWasNotMadeIsFencedAndTheCopyKept) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
  use.reset();  // before Committed
  std::shared_ptr<SessionUse> next;
  ASSERT_TRUE(WaitUntil([&] {
    next = EnterTurn(2)->Wait().value_or(Entry{}).use;
    return next != nullptr;
  }));
  EXPECT_EQ(next->fence().epoch, 2);
  EXPECT_EQ(next->fence().version, 3);
  EXPECT_EQ(copies_.kept_version(), 3);
  EXPECT_EQ(copies_.drops(), 0);
}

TEST_F(DriverTest, AChangeIsMadeAtTheFenceAndMayBeRefused) {
  Open(self_);
  EnterChange()->Wait()->use.reset();
  const std::shared_ptr<Reply> reply = EnterChange();
  ASSERT_TRUE(reply->Wait().ok());
  const std::shared_ptr<SessionUse> use = reply->Wait()->use;
  EXPECT_EQ(use->fence().version, 1);
  use->Changed(Apply(store::MoveHead{use->fence(), store::kNoTurn, std::nullopt, "7"}));
  const std::shared_ptr<SessionUse> next = UseForTurn(1);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->fence().version, 2);
}

// Housekeeping must not move the session.
TEST_F(DriverTest, AChangeOnlyHereLeavesTheSessionWhereItIs) {
  const auto change_here = [this] {
    auto reply = std::make_shared<Reply>();
    driver_->EnterChangeHere(kSession, reply->Callback(reply));
    return reply;
  };
  EXPECT_TRUE(absl::IsAborted(change_here()->Wait().status()));
  Open(kPeerName);
  EXPECT_TRUE(absl::IsAborted(change_here()->Wait().status()));
  ASSERT_TRUE(
      Apply(store::ChangeOwner{{kSession, 1, 1}, self_, store::OwnerCondition::kTransfer}).ok());
  RunTurn(1);
  const std::shared_ptr<Reply> reply = change_here();
  ASSERT_TRUE(reply->Wait().ok()) << reply->Wait().status();
  EXPECT_EQ(reply->Wait()->use->fence().version, 4);
  EXPECT_TRUE(absl::IsAborted(change_here()->Wait().status())) << "it is in use";
}

TEST_F(DriverTest, ACloseEndsATurnThatWaitsForAdmission) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  const std::shared_ptr<Reply> reply = EnterClose();
  EXPECT_TRUE(WaitUntil([&] { return absl::IsCancelled(copies_.stopped()); }));
  use.reset();
  ASSERT_TRUE(reply->Wait().ok());
  const std::shared_ptr<SessionUse> close = reply->Wait()->use;
  ASSERT_NE(close, nullptr);
  close->Changed(Apply(store::CloseSession{kSession, close->fence(), absl::Now()}));
  EXPECT_TRUE(absl::IsNotFound(EnterTurn(2)->Wait().status()));
}

TEST_F(DriverTest, ACloseStopsATurnThatRuns) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  const std::shared_ptr<Reply> reply = EnterClose();
  ASSERT_TRUE(reply->Wait().ok());
  EXPECT_TRUE(absl::IsCancelled(copies_.stopped()));
  EXPECT_TRUE(absl::IsCancelled(Ran(*use, TurnEnd::kCommits)));
}

TEST_F(DriverTest, AnUnknownSessionIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(EnterTurn(1)->Wait().status()));
}

TEST_F(DriverTest, WithoutALeaseNothingBegins) {
  Open(self_);
  driver_->LeaseOver();
  const absl::Status status = EnterTurn(1)->Wait().status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("no lease"), std::string::npos) << status;
  EXPECT_NE(status.message().find(kSession.id.ToString()), std::string::npos) << status;
  RenewLease();
  EXPECT_NE(UseForTurn(1), nullptr);
}

TEST_F(DriverTest, ALaterIncarnationEndsTheReplica) {
  Open(self_);
  const std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  driver_->LeaseReplaced();
  exited_.WaitForNotification();
  EXPECT_FALSE(release_);
  EXPECT_TRUE(WaitUntil([&] { return copies_.drops() > 0; }));
  EXPECT_TRUE(WaitUntil([&] { return absl::IsUnavailable(copies_.stopped()); }));
  EXPECT_TRUE(absl::IsUnavailable(EnterTurn(2)->Wait().status()));
}

TEST_F(DriverTest, StopAnswersEverything) {
  Open(kPeerName);
  const std::shared_ptr<Reply> reply = EnterTurn(1);
  (void)peers_.Take<Fetch>();
  driver_->Stop();
  EXPECT_TRUE(absl::IsUnavailable(reply->Wait().status()));
  EXPECT_TRUE(absl::IsUnavailable(EnterTurn(1)->Wait().status()));
}

TEST_F(DriverTest, AUseMayOutliveTheDriver) {
  Open(self_);
  std::shared_ptr<SessionUse> use = UseForTurn(1);
  ASSERT_NE(use, nullptr);
  use->Started(StartTurn(*use, 1));
  driver_->Stop();
  EXPECT_TRUE(absl::IsUnavailable(Ran(*use, TurnEnd::kCommits)));
  use->Committed(absl::OkStatus());
}

}  // namespace
}  // namespace longstream::fleet
