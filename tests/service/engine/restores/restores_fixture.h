// Sessions whose caches are in a store of which the test decides what it reads, and when.
#ifndef LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_RESTORES_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_RESTORES_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/engine/policy/turn_demand.h"
#include "service/security/tenants/tenants.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/restores/dense_model.h"
#include "tests/service/wait_until.h"

namespace longstream {

// The test decides when, and with which bytes, a snapshot is read.
class FakeStored final : public StoredCaches {
 public:
  std::vector<StoredPlace> Find(const SessionState& state, uint64_t /*unchanged*/) override {
    absl::MutexLock lock(&mutex_);
    std::vector<StoredPlace> places;
    if (place_.has_value() && place_->position <= state.feed.end()) places.push_back(*place_);
    return places;
  }
  void Reload(int64_t /*turn*/) override {}
  void Follow(StoredCaches& /*source*/, int64_t /*turn*/) override {}
  void CopyKeys(const StoredCaches& /*source*/) override {}
  uint64_t LastPosition() const override { return 0; }
  void Fill(const StoredPlace& /*place*/, std::shared_ptr<CacheFill> fill, FillDone done) override {
    absl::MutexLock lock(&mutex_);
    fill_ = std::move(fill);
    done_ = std::move(done);
    ++num_fills_;
  }
  void Reject(const StoredPlace& /*place*/) override {
    absl::MutexLock lock(&mutex_);
    place_.reset();
    ++num_rejected_;
  }
  bool BeginSave() override { return false; }
  void Save(SavedCaches /*saved*/) override {}
  void CancelSave() override {}
  void SkipSave() override {}

  void SetPlace(uint64_t position) {
    absl::MutexLock lock(&mutex_);
    place_ = StoredPlace{1, position, "cache", ""};
  }
  // Waits until the engine wants a snapshot.
  std::shared_ptr<CacheFill> WaitForFill() {
    absl::MutexLock lock(&mutex_);
    const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return fill_ != nullptr; };
    mutex_.Await(absl::Condition(&wanted));
    return std::exchange(fill_, nullptr);
  }
  // The snapshot that the engine has wanted. nullptr: none.
  std::shared_ptr<CacheFill> TakeFill() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(fill_, nullptr);
  }
  // The reader has ended.
  void Done(const absl::Status& status) {
    FillDone done;
    {
      absl::MutexLock lock(&mutex_);
      done = std::exchange(done_, nullptr);
    }
    done({status, 0, absl::Milliseconds(1), {}});
  }
  int num_fills() const {
    absl::MutexLock lock(&mutex_);
    return num_fills_;
  }
  int num_rejected() const {
    absl::MutexLock lock(&mutex_);
    return num_rejected_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::optional<StoredPlace> place_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<CacheFill> fill_ ABSL_GUARDED_BY(mutex_);
  FillDone done_ ABSL_GUARDED_BY(mutex_);
  int num_fills_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_rejected_ ABSL_GUARDED_BY(mutex_) = 0;
};

class EngineRestores : public testing::Test {
 protected:
  explicit EngineRestores(absl::Duration least_limit = absl::Hours(1),
                          const std::vector<TenantConfig>& tenants = {})
      : tenants_(tenants, std::make_shared<HostMemory>(0)),
        engine_("{}", kBudget, Options(least_limit), kDense) {
    TurnLease lease = engine_.NewSession(SessionId{7, 7}, tenants_.all()[0]);
    session_ = lease.session();
    session_->SetStoredCaches(stored_);
    absl::Notification opened;
    engine_->Open(std::move(lease), [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      opened.Notify();
    });
    opened.WaitForNotification();
    // The tokens of an undisturbed session.
    const auto other = engine_.Open();
    Run(other, kFirst);
    expected_ = Run(other, kSecond).tokens;
    Run(session_, kFirst);
    Save();
  }

  Engine::Options Options(absl::Duration least_limit) const {
    Engine::Options options;
    options.max_batch_sequences = 4;
    options.max_waiting_turns = kMostWaiting;
    options.tenants = tenants_.all();
    options.least_restore_limit = least_limit;
    options.restored_safe = absl::ZeroDuration();
    return options;
  }

  std::shared_ptr<SessionTurn> NewTurn(const std::shared_ptr<Session>& session,
                                       const std::string& text) {
    return std::make_shared<SessionTurn>(Generate(session, text, 20));
  }
  Outcome Run(const std::shared_ptr<Session>& session, const std::string& text) {
    Outcome outcome = RunTurn(*engine_, NewTurn(session, text));
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    return outcome;
  }
  // Starts the second turn of the session.
  std::shared_ptr<SessionTurn> Start() {
    auto turn = NewTurn(session_, kSecond);
    EXPECT_TRUE(engine_.Start(turn).ok());
    return turn;
  }
  void Cancel(const std::shared_ptr<SessionTurn>& turn) {
    turn->Cancel();
    engine_->Wake();
    EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
    engine_->Flush();
  }

  // Keeps the bytes of a snapshot of the session as it is now.
  void Save() {
    absl::StatusOr<TurnLease> lease = TurnLease::Take(session_);
    ASSERT_TRUE(lease.ok()) << lease.status();
    absl::Notification done;
    CacheCharge charge;
    engine_->BeginSnapshot(*std::move(lease), &charge, [&](absl::StatusOr<Snapshot> begun) {
      ASSERT_TRUE(begun.ok()) << begun.status();
      position_ = begun->info().position;
      bytes_.clear();
      for (const auto segment : {Snapshot::Segment::kSpan, Snapshot::Segment::kFixed}) {
        std::vector<std::byte> piece(1 << 20);
        for (size_t read = piece.size(); read == piece.size();) {
          read = *begun->Read(segment, piece);
          bytes_.insert(bytes_.end(), piece.begin(),
                        piece.begin() + static_cast<std::ptrdiff_t>(read));
        }
      }
      engine_->Free(*std::move(begun));
      done.Notify();
    });
    done.WaitForNotification();
    stored_->SetPlace(position_);
  }
  void SetBudget(uint64_t bytes) {
    absl::Notification done;
    engine_->SetBudget(bytes, [&done](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
  }
  // Evicts all idle sessions.
  void Evict() {
    SetBudget(LeastBudget());
    SetBudget(kBudget);
    ASSERT_EQ(session_->View().bytes.kv, 0u);
  }
  uint64_t LeastBudget() { return TurnDemand::Held(info(), 1); }
  uint64_t Reserved() { return engine_->model().backend().memory().reserved; }
  const ls_model_info& info() { return engine_->model().backend().info(); }
  std::span<const std::byte> bytes() const { return bytes_; }

  // The next turn has the tokens of an undisturbed session. It computes its caches.
  void ExpectGoesOn() {
    stored_->SetPlace(UINT64_MAX);
    EXPECT_EQ(Run(session_, kSecond).tokens, expected_);
  }

  static constexpr uint64_t kBudget = 64 << 20;
  static constexpr size_t kMostWaiting = 8;
  const std::string kFirst = std::string(300, 'a');
  const std::string kSecond = "and then";

  const Tenants tenants_;
  const std::shared_ptr<FakeStored> stored_ = std::make_shared<FakeStored>();
  TestEngine engine_;
  std::shared_ptr<Session> session_;
  std::vector<int32_t> expected_;
  uint64_t position_ = 0;
  std::vector<std::byte> bytes_;
};

// Another session holds memory, so the turn's does not fit after the budget was lowered.
class EngineRestoresWithoutRoom : public EngineRestores {
 protected:
  explicit EngineRestoresWithoutRoom(const std::vector<TenantConfig>& tenants = {})
      : EngineRestores(absl::Hours(1), tenants) {}

  // Starts the turn, and lowers the budget while its caches are read.
  std::shared_ptr<SessionTurn> StartAndLowerTheBudget() {
    Evict();
    SessionTurnRequest request;
    request.kind = TurnKind::kAppend;
    request.session = engine_.Open();
    request.prompt = Bytes(kFirst);
    holder_ = std::make_shared<SessionTurn>(request);
    EXPECT_TRUE(engine_.Start(holder_).ok());
    engine_->Flush();
    engine_->Flush();
    auto turn = Start();
    fill_ = stored_->WaitForFill();
    SetBudget(Reserved());
    EXPECT_TRUE(fill_->Write(bytes()).ok());
    return turn;
  }
  void WaitUntilItWaits() {
    ASSERT_TRUE(WaitUntil([this] { return engine_->lacks_memory(); }));
  }
  void EndHolder() {
    holder_->CloseInput();
    engine_->Wake();
    EXPECT_TRUE(ReadToEnd(*holder_).end.status.ok());
  }

  std::shared_ptr<SessionTurn> holder_;
  std::shared_ptr<CacheFill> fill_;
};

// The caches of the session have read a part of what the snapshot has.
class EngineRestoresWithCaches : public EngineRestores {
 protected:
  explicit EngineRestoresWithCaches(const std::vector<TenantConfig>& tenants = {})
      : EngineRestores(absl::Hours(1), tenants) {
    SessionState first;
    first = StateOf(session_);
    Run(session_, std::string(300, 'b'));
    Save();
    const SessionState second = StateOf(session_);
    const auto same = engine_.Open();
    Run(same, kFirst);
    Run(same, std::string(300, 'b'));
    expected_ = Run(same, kSecond).tokens;
    Rewind(first);
    Rewind(second);
  }
  void Rewind(SessionState state) {
    absl::StatusOr<TurnLease> lease = TurnLease::Take(session_);
    ASSERT_TRUE(lease.ok()) << lease.status();
    absl::Notification done;
    engine_->Rewind(*std::move(lease), std::move(state), "rewound",
                    [&](const absl::Status&) { done.Notify(); });
    done.WaitForNotification();
  }
  void ExpectComputesTheRest(const Outcome& outcome) {
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.tokens, expected_);
    EXPECT_EQ(outcome.end.usage.reused_tokens, 319u);
    EXPECT_EQ(outcome.end.usage.recomputed_tokens, position_ - 319);
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_ENGINE_RESTORES_RESTORES_FIXTURE_H_
