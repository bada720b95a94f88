// Sessions that move without their caches: each is counted with its reason, and told to the
// program.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/service/fleet/driver_fixture.h"
#include "tests/service/metric_value.h"

namespace longstream::fleet {
namespace {

// Keeps what on_lost_caches tells the program.
class Told {
 public:
  void Add(const LostCaches& lost) {
    const absl::MutexLock lock(&mutex_);
    lost_.push_back(lost);
  }
  std::vector<LostCaches> all() const {
    const absl::MutexLock lock(&mutex_);
    return lost_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<LostCaches> lost_ ABSL_GUARDED_BY(mutex_);
};

class LostCachesTest : public DriverTest {
 protected:
  // `limit`: for the caches of a session to arrive.
  explicit LostCachesTest(absl::Duration limit = absl::Minutes(1))
      : LostCachesTest(limit, std::make_shared<Told>()) {}

  // The peer takes the session that it was given.
  void PeerTakes(int64_t epoch) {
    WaitForDriver();
    EXPECT_TRUE(told_->all().empty()) << "the peer may still refuse it";
    driver_->MessageArrived(kPeerName, Moved{.session = kSession, .epoch = epoch + 1});
  }
  // Waits for a session that was lost so, and expects that it is the only one.
  void ExpectLost(const std::string& op, const std::string& reason, const ReplicaName& peer) {
    EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handover_caches_lost_total",
                            {{"op", op}, {"reason", reason}}),
              1);
    ASSERT_TRUE(WaitUntil([&] { return !told_->all().empty(); }));
    WaitForDriver();
    const std::vector<LostCaches> all = told_->all();
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].op, op);
    EXPECT_EQ(all[0].reason, reason);
    EXPECT_EQ(all[0].session, kSession);
    EXPECT_EQ(all[0].peer, peer);
    EXPECT_FALSE(all[0].why.ok());
  }
  // Until the driver has done all that it was told before.
  void WaitForDriver() {
    absl::Notification answered;
    // It is not here, which the driver knows at once.
    driver_->EnterChangeHere({"tenant", {0, 99}}, [&](const absl::StatusOr<Entry>& entry) {
      EXPECT_FALSE(entry.ok());
      answered.Notify();
    });
    answered.WaitForNotification();
  }
  // A turn has asked the peer for the session, whose caches come.
  ScriptedPeers::Receive BeginToReceive() {
    Open(kPeerName);
    reply_ = EnterTurn(1);
    const Fetch fetch = peers_.Take<Fetch>();
    driver_->MessageArrived(kPeerName, Given{kSession, fetch.request, 1, 1, true});
    return peers_.TakeReceive();
  }

  std::shared_ptr<Reply> reply_;
  const std::shared_ptr<Told> told_;

 private:
  LostCachesTest(absl::Duration limit, const std::shared_ptr<Told>& told)
      : DriverTest({.times = {.caches = limit},
                    .on_lost_caches = [told](const LostCaches& lost) { told->Add(lost); }}),
        told_(told) {}
};

TEST_F(LostCachesTest, TheGiverHasEvictedThem) {
  Open(self_);
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  const Given given = peers_.Take<Given>();
  EXPECT_FALSE(given.has_caches);
  PeerTakes(given.epoch);
  ExpectLost("sent", "evicted", kPeerName);
}

TEST_F(LostCachesTest, ASessionWithoutTokensHasNone) {
  Open(self_);
  copies_.SetEmpty();
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  const Given given = peers_.Take<Given>();
  EXPECT_FALSE(given.has_caches);
  PeerTakes(given.epoch);
  WaitForDriver();
  EXPECT_TRUE(told_->all().empty());
}

TEST_F(LostCachesTest, TheGiverCannotReadThem) {
  Open(self_);
  copies_.SetCachesAt(1);
  driver_->MessageArrived(kPeerName, Fetch{kSession, 9, 1, {0, 1}});
  const Given given = peers_.Take<Given>();
  EXPECT_TRUE(given.has_caches);
  EXPECT_TRUE(WaitUntil([&] { return peers_.caches_sent() == 1; })) << "the peer is told";
  PeerTakes(given.epoch);
  ExpectLost("sent", "in_use", kPeerName);
}

TEST_F(LostCachesTest, TheyBreakOff) {
  const ScriptedPeers::Receive receive = BeginToReceive();
  receive.arrived(absl::UnavailableError("the peer has ended"));
  ExpectLost("received", "broken", kPeerName);
  EXPECT_TRUE(reply_->Wait().ok());
}

TEST_F(LostCachesTest, TheyAreOfAnotherModel) {
  const ScriptedPeers::Receive receive = BeginToReceive();
  receive.arrived(absl::FailedPreconditionError("another layout"));
  ExpectLost("received", "other_model", kPeerName);
  EXPECT_TRUE(reply_->Wait().ok());
}

class LateCachesTest : public LostCachesTest {
 protected:
  LateCachesTest() : LostCachesTest(absl::Milliseconds(200)) {}
};

TEST_F(LateCachesTest, TheyAreCountedOnce) {
  const ScriptedPeers::Receive receive = BeginToReceive();
  EXPECT_TRUE(reply_->Wait().ok());
  receive.arrived(absl::UnavailableError("the call was ended"));
  ExpectLost("received", "late", kPeerName);
}

TEST_F(LostCachesTest, TheyHaveComeAndWereNotUsed) {
  driver_->CachesLost(kSession, absl::DeadlineExceededError("they have waited for too long"));
  ExpectLost("received", "late", "");
  driver_->CachesLost(kSession, absl::AbortedError("the session has moved"));
  EXPECT_EQ(WaitForMetric(registry_, 1, "longstream_handover_caches_lost_total",
                          {{"op", "received"}, {"reason", "changed"}}),
            1);
}

// Nobody takes the session, so it will be claimed, and computed again. That is counted as a claim.
TEST_F(LostCachesTest, PeersThatDoNotWantTheSessionLoseNothing) {
  Open(self_);
  driver_->BeginDrain();
  for (int i = 0; i < 2; ++i) {
    const Offer offer = peers_.Take<Offer>();
    driver_->MessageArrived(kPeerName, Refused{kSession, offer.request, Refusal::kNotTaken});
  }
  EXPECT_EQ(WaitForMetric(registry_, 2, "longstream_handovers_total", {{"outcome", "refused"}}), 2);
  exited_.WaitForNotification();
  EXPECT_EQ(last_counts_.handed_over, 0u);
  EXPECT_TRUE(told_->all().empty()) << "the session has not moved";
}

TEST_F(LostCachesTest, NothingIsLostIfTheyCome) {
  const ScriptedPeers::Receive receive = BeginToReceive();
  receive.arrived(absl::OkStatus());
  EXPECT_TRUE(reply_->Wait().ok());
  WaitForDriver();
  EXPECT_TRUE(told_->all().empty());
}

}  // namespace
}  // namespace longstream::fleet
