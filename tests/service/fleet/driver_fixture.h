// A driver whose peers, sessions and holders the test plays. The database is the model, without
// faults.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_DRIVER_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_DRIVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/fleet/fleet_driver.h"
#include "tests/service/fleet/database.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {

inline const SessionKey kSession{"tenant", {0, 1}};
inline constexpr char kPeerName[] = "1/1";

// Remembers what was sent.
class ScriptedPeers : public Peers {
 public:
  struct Receive {
    ReplicaName from;
    Number request = 0;
    BeginCaches begin;
    std::function<void(const absl::Status&)> arrived;
  };

  void SetReplicas(const std::vector<Replica>& /*replicas*/) override {}
  void Send(const ReplicaName& to, const PeerMessage& message) override {
    const absl::MutexLock lock(&mutex_);
    sent_.emplace_back(to, message);
  }
  void SendCaches(const ReplicaName& /*to*/, Number /*request*/,
                  std::shared_ptr<CacheReader> /*caches*/) override {
    ++caches_sent_;
  }
  void ReceiveCaches(const ReplicaName& from, Number request, BeginCaches begin,
                     std::function<void(const absl::Status&)> arrived) override {
    const absl::MutexLock lock(&mutex_);
    receive_ = Receive{from, request, std::move(begin), std::move(arrived)};
  }
  void Forget(const ReplicaName& /*peer*/, Number request) override { forgotten_ = request; }

  // Waits for a message of this type, and takes it. *to: its receiver.
  template <typename T>
  T Take(ReplicaName* to = nullptr) {
    std::optional<T> taken;
    EXPECT_TRUE(WaitUntil([&] {
      const absl::MutexLock lock(&mutex_);
      for (auto each = sent_.begin(); each != sent_.end(); ++each) {
        if (!std::holds_alternative<T>(each->second)) continue;
        taken = std::get<T>(each->second);
        if (to != nullptr) *to = each->first;
        sent_.erase(each);
        return true;
      }
      return false;
    }));
    return taken.value_or(T{});
  }
  Receive TakeReceive() {
    EXPECT_TRUE(WaitUntil([&] {
      const absl::MutexLock lock(&mutex_);
      return receive_.has_value();
    }));
    const absl::MutexLock lock(&mutex_);
    return *std::exchange(receive_, std::nullopt);
  }
  int caches_sent() const { return caches_sent_; }
  Number forgotten() const { return forgotten_; }

 private:
  absl::Mutex mutex_;
  std::vector<std::pair<ReplicaName, PeerMessage>> sent_ ABSL_GUARDED_BY(mutex_);
  std::optional<Receive> receive_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> caches_sent_{0};
  std::atomic<Number> forgotten_{0};
};

// Remembers what it is told.
class ScriptedCopies : public SessionCopies {
 public:
  void Drop(const SessionKey& /*session*/) override { ++drops_; }
  void Stop(const SessionKey& /*session*/, const absl::Status& why) override {
    const absl::MutexLock lock(&mutex_);
    stopped_ = why;
  }
  void Keep(const Fence& /*from*/, const Fence& to) override { kept_version_ = to.version; }
  absl::Status FindCaches(const Fence& at) const override {
    if (at.version == caches_at_) return absl::OkStatus();
    return is_empty_ ? absl::OutOfRangeError("no tokens") : absl::NotFoundError("evicted");
  }
  void ReadCaches(const Fence& /*at*/, std::function<void(Reading)> ready) override {
    ready(absl::UnavailableError("in use"));
  }
  void TakeCaches(
      const SessionKey& /*session*/, const std::string& /*header*/, const Fence& at,
      std::function<void(absl::StatusOr<std::shared_ptr<CacheWriter>>)> ready) override {
    taken_version_ = at.version;
    ready(absl::ResourceExhaustedError("no memory"));
  }

  void SetCachesAt(int64_t version) { caches_at_ = version; }
  // The session has no tokens.
  void SetEmpty() { is_empty_ = true; }
  int drops() const { return drops_; }
  int64_t kept_version() const { return kept_version_; }
  int64_t taken_version() const { return taken_version_; }
  // OK: no turn was stopped.
  absl::Status stopped() const {
    const absl::MutexLock lock(&mutex_);
    return stopped_;
  }

 private:
  std::atomic<int> drops_{0};
  std::atomic<int64_t> kept_version_{0};
  std::atomic<int64_t> taken_version_{0};
  std::atomic<int64_t> caches_at_{0};
  std::atomic<bool> is_empty_{false};
  mutable absl::Mutex mutex_;
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
};

class DriverTest : public testing::Test {
 protected:
  // The answer of the gate.
  class Reply {
   public:
    SessionGate::Entered Callback(std::shared_ptr<Reply> self) {
      return [self = std::move(self)](absl::StatusOr<Entry> entry) {
        self->entry_ = std::move(entry);
        self->arrived_.Notify();
      };
    }
    bool has_arrived() const { return arrived_.HasBeenNotified(); }
    absl::StatusOr<Entry>& Wait() {
      EXPECT_TRUE(arrived_.WaitForNotificationWithTimeout(absl::Seconds(60)));
      return entry_;
    }

   private:
    absl::Notification arrived_;
    absl::StatusOr<Entry> entry_ = absl::UnknownError("no answer");
  };

  explicit DriverTest(FleetDriverOptions options = {})
      : link_(&database_, &dice_), self_(database_.Join("0")) {
    link_.SetName(self_);
    options.self = self_;
    options.metrics = &metrics_;
    options.on_exit = [this](bool release) {
      release_ = release;
      last_counts_ = driver_->Counts();
      exited_.Notify();
    };
    commits_.emplace(&link_, store::CommitQueue::Options{});
    driver_.emplace(std::move(options), &link_, &*commits_);
    driver_->Start(&copies_, &peers_);
    (void)database_.Join("1");
    (void)database_.Renew({kPeerName, "peer:1", "client:1", false});
    RenewLease();
  }
  ~DriverTest() override {
    driver_->Stop();
    driver_.reset();
  }

  void RenewLease() {
    driver_->LeaseRenewed(*database_.Renew({self_, "peer:0", "client:0", false}));
  }
  // Adds a session to the database. If it is of this replica, it is in memory here.
  void Open(const ReplicaName& owner) {
    database_.WithModel([&](ModelStore& model) { model.Open(kSession, owner); });
    if (owner == self_) driver_->Opened(kSession, 1, 1);
  }
  std::shared_ptr<Reply> EnterTurn(uint64_t turn) {
    auto reply = std::make_shared<Reply>();
    driver_->EnterTurn(kSession, {0, turn}, reply->Callback(reply));
    return reply;
  }
  std::shared_ptr<Reply> EnterChange() {
    auto reply = std::make_shared<Reply>();
    driver_->EnterChange(kSession, reply->Callback(reply));
    return reply;
  }
  std::shared_ptr<Reply> EnterClose() {
    auto reply = std::make_shared<Reply>();
    driver_->EnterClose(kSession, reply->Callback(reply));
    return reply;
  }
  // The use that the turn gets, which must be one.
  std::shared_ptr<SessionUse> UseForTurn(uint64_t turn) {
    const std::shared_ptr<Reply> reply = EnterTurn(turn);
    absl::StatusOr<Entry>& entry = reply->Wait();
    EXPECT_TRUE(entry.ok()) << entry.status();
    if (!entry.ok() || entry->use == nullptr) return nullptr;
    return std::move(entry->use);
  }
  absl::Status Apply(store::Change change) {
    return database_.Apply(std::move(change), self_).status();
  }
  absl::Status StartTurn(const SessionUse& use, uint64_t turn) {
    store::StartTurn start{use.fence(), {}};
    start.turn.id = {0, turn};
    return Apply(start);
  }
  // At the version after a start.
  absl::Status CommitTurn(const SessionUse& use, uint64_t turn) {
    const Content content =
        After(database_.WithModel([](ModelStore& model) { return model.ContentOf(kSession); }),
              {0, turn});
    return Apply(store::CommitTurn{NextFence(use), static_cast<store::TurnNumber>(turn), 0,
                                   std::to_string(content), absl::Now()});
  }
  static Fence NextFence(const SessionUse& use) {
    const Fence& fence = use.fence();
    return {fence.key, fence.epoch, fence.version + (use.resumes() ? 0 : 1)};
  }
  // The status that Ran's go_on gets.
  static absl::Status Ran(SessionUse& use, TurnEnd end) {
    struct GoneOn {
      absl::Notification arrived;
      absl::Status status;
    };
    const auto answer = std::make_shared<GoneOn>();
    use.Ran(end, [answer](const absl::Status& status) {
      answer->status = status;
      answer->arrived.Notify();
    });
    EXPECT_TRUE(answer->arrived.WaitForNotificationWithTimeout(absl::Seconds(60)));
    return answer->status;
  }
  // A whole turn.
  void RunTurn(uint64_t turn) {
    const std::shared_ptr<SessionUse> use = UseForTurn(turn);
    ASSERT_NE(use, nullptr);
    use->Started(StartTurn(*use, turn));
    ASSERT_TRUE(Ran(*use, TurnEnd::kCommits).ok());
    use->Committed(CommitTurn(*use, turn));
  }
  std::string ModelError() {
    return database_.WithModel([](ModelStore& model) { return model.error(); });
  }

  Dice dice_{1};
  Database database_{absl::Hours(1), &dice_};
  DatabaseLink link_;
  prometheus::Registry registry_;
  FleetMetrics metrics_{&registry_};
  const ReplicaName self_;
  std::optional<store::CommitQueue> commits_;
  ScriptedPeers peers_;
  ScriptedCopies copies_;
  absl::Notification exited_;
  FleetCounts last_counts_;  // as on_exit has seen them
  std::atomic<bool> release_{false};
  std::optional<FleetDriver> driver_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_DRIVER_FIXTURE_H_
