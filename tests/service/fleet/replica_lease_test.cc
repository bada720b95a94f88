// The lease of a replica, with a database that the test plays.
#include "service/fleet/replica_lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {
namespace {

class ScriptedStore : public FleetStore {
 public:
  absl::StatusOr<ReplicaName> Join(const std::string& replica_id) override {
    if (++joins_ < 3) return absl::UnavailableError("the database starts");
    return replica_id + "/5";
  }
  absl::StatusOr<RenewedLease> Renew(const Replica& self, absl::Duration /*ttl*/) override {
    now_ms_ += takes_ms_;
    ++renewals_;
    draining_ = self.draining;
    const absl::MutexLock lock(&mutex_);
    if (!answer_.ok()) return answer_;
    return RenewedLease{.generation = 3, .lapsed = false, .others = {}};
  }
  absl::Status Release(const ReplicaName& /*self*/) override {
    while (hangs_) absl::SleepFor(absl::Milliseconds(1));
    released_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<OwnedRow> ReadRow(const SessionKey& /*session*/,
                                   const std::optional<TurnId>& /*turn*/) override {
    return absl::UnimplementedError("");
  }

  void Answer(absl::Status answer) {
    const absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }

  std::atomic<int> joins_{0};
  std::atomic<int> renewals_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> released_{false};
  std::atomic<bool> hangs_{false};
  std::atomic<int> now_ms_{0};    // of the clock of the test
  std::atomic<int> takes_ms_{0};  // a renewal, by this clock

 private:
  absl::Mutex mutex_;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
};

class CountedEvents : public LeaseEvents {
 public:
  void LeaseRenewed(const RenewedLease& /*renewed*/) override { ++renewed_; }
  void LeaseOver() override { ++over_; }
  void LeaseReplaced() override { ++replaced_; }

  std::atomic<int> renewed_{0};
  std::atomic<int> over_{0};
  std::atomic<int> replaced_{0};
};

TEST(ReplicaLeaseTest, JoinWaitsForTheDatabase) {
  ScriptedStore store;
  EXPECT_EQ(*ReplicaLease::Join(&store, "a", absl::Seconds(60)), "a/5");
  store.joins_ = 0;
  EXPECT_TRUE(absl::IsUnavailable(ReplicaLease::Join(&store, "a", absl::ZeroDuration()).status()));
}

TEST(ReplicaLeaseTest, RenewsAgainAndAgainUntilItIsReleased) {
  ScriptedStore store;
  CountedEvents events;
  ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Milliseconds(300)});
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ >= 3; }));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(store.released_);
  EXPECT_EQ(events.replaced_, 0);
}

// A third of an hour is never over here.
TEST(ReplicaLeaseTest, TriesAgainSoonIfTheDatabaseDoesNotAnswer) {
  ScriptedStore store;
  store.Answer(absl::UnavailableError("it restarts"));
  CountedEvents events;
  const ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Hours(1)});
  EXPECT_TRUE(WaitUntil([&] { return store.renewals_ >= 3; }));
  store.Answer(absl::OkStatus());
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ == 1; }));
}

TEST(ReplicaLeaseTest, IsReleasedWithoutAWait) {
  ScriptedStore store;
  CountedEvents events;
  ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Hours(1)});
  lease.BeginRelease();
  EXPECT_TRUE(WaitUntil([&] { return store.released_.load(); }));
  EXPECT_TRUE(lease.Release().ok());
  EXPECT_TRUE(lease.Release(MonotonicTime::Now()).ok());
}

// The exit of the replica comes in time.
TEST(ReplicaLeaseTest, AReleaseDoesNotWaitForADatabaseThatHangs) {
  ScriptedStore store;
  CountedEvents events;
  ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Hours(1)});
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ == 1; }));
  store.hangs_ = true;
  const absl::Status late = lease.Release(MonotonicTime::Now() + absl::Milliseconds(10));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  store.hangs_ = false;
  EXPECT_TRUE(lease.Release().ok());
}

TEST(ReplicaLeaseTest, IsOverWhenNoRenewalIsAnswered) {
  ScriptedStore store;
  CountedEvents events;
  ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Milliseconds(60)});
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ >= 1; }));
  store.Answer(absl::UnavailableError("away"));
  EXPECT_TRUE(WaitUntil([&] { return events.over_ >= 1; }));
  EXPECT_EQ(lease.TimeLeft(), absl::ZeroDuration());
  store.Answer(absl::OkStatus());
  const int renewed = events.renewed_;
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ > renewed; }));
}

TEST(ReplicaLeaseTest, AnAnswerThatTakesAsLongAsTheLeaseGivesNone) {
  ScriptedStore store;
  store.takes_ms_ = 100;
  CountedEvents events;
  const auto clock = [&store] {
    return MonotonicTime() + absl::Milliseconds(store.now_ms_.load());
  };
  ReplicaLease lease(&store, &events,
                     {.self = {"a/5"}, .ttl = absl::Milliseconds(90), .clock = clock});
  EXPECT_TRUE(WaitUntil([&] { return store.renewals_ >= 3; }));
  EXPECT_EQ(events.renewed_, 0);
  EXPECT_EQ(lease.TimeLeft(), absl::ZeroDuration());
}

TEST(ReplicaLeaseTest, ALaterIncarnationIsReportedOnce) {
  ScriptedStore store;
  store.Answer(absl::FailedPreconditionError("a later incarnation"));
  CountedEvents events;
  const ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Milliseconds(30)});
  EXPECT_TRUE(WaitUntil([&] { return events.replaced_ == 1; }));
  EXPECT_EQ(store.renewals_, 1);
  EXPECT_EQ(events.over_, 0);
}

TEST(ReplicaLeaseTest, ADrainIsShownAtOnce) {
  ScriptedStore store;
  CountedEvents events;
  ReplicaLease lease(&store, &events, {.self = {"a/5"}, .ttl = absl::Hours(1)});
  EXPECT_TRUE(WaitUntil([&] { return events.renewed_ == 1; }));
  EXPECT_FALSE(store.draining_);
  EXPECT_GT(lease.TimeLeft(), absl::Minutes(30));
  lease.BeginDrain();
  EXPECT_TRUE(WaitUntil([&] { return store.draining_.load(); }));
}

}  // namespace
}  // namespace longstream::fleet
