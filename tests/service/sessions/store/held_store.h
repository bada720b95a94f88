// A store whose reads can be held or fail, and that knows which threads must not read it.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_HELD_STORE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_HELD_STORE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/sessions/store/session_store.h"

namespace longstream::store {

// Passes all calls on. Thread-safe.
class HeldStore final : public SessionStore {
 public:
  explicit HeldStore(std::unique_ptr<SessionStore> store) : store_(std::move(store)) {}

  // Reads wait until Release. A read on this thread, or on one of `others`, fails the test and does
  // not wait.
  void Hold(const std::vector<std::thread::id>& others = {}) {
    absl::MutexLock lock(&mutex_);
    forbidden_ = others;
    forbidden_.push_back(std::this_thread::get_id());
    holds_ = true;
  }
  // The read of a session's row that comes after so many others waits until Release.
  void HoldSessionRead(int others) {
    absl::MutexLock lock(&mutex_);
    reads_before_ = others;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    holds_ = holds_one_ = false;
    reads_before_.reset();
  }
  // Reads return this error from now on. OK: they work.
  void FailReads(const absl::Status& failure) {
    absl::MutexLock lock(&mutex_);
    failure_ = failure;
  }
  // How often the row of a session was asked for.
  int session_reads() const { return session_reads_.load(); }
  // How many reads wait.
  int waiting() const {
    absl::MutexLock lock(&mutex_);
    return waiting_;
  }
  // The same without those that look for expired sessions, which a server does by itself.
  int calls_waiting() const {
    absl::MutexLock lock(&mutex_);
    return waiting_ - expiries_waiting_;
  }

  std::vector<absl::StatusOr<Applied>> Apply(absl::Span<const Change> changes) override {
    return store_->Apply(changes);
  }
  absl::StatusOr<SessionRow> Session(const SessionKey& key) override {
    ++session_reads_;
    WaitIfHeld();
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Session(key);
  }
  absl::StatusOr<std::vector<SessionRow>> Sessions(const std::string& tenant,
                                                   const std::optional<SessionId>& after,
                                                   size_t limit,
                                                   const std::string& model) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Sessions(tenant, after, limit, model);
  }
  absl::StatusOr<std::map<std::string, uint64_t>> CountSessions() override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->CountSessions();
  }
  absl::StatusOr<std::vector<OwnedSessions>> CountOwnedSessions() override {
    if (absl::Status held = Wait(/*is_expiry=*/true); !held.ok()) return held;
    return store_->CountOwnedSessions();
  }
  absl::StatusOr<FoundNotes> Notes(const std::string& tenant, const std::vector<std::string>& keys,
                                   uint64_t most_bytes) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Notes(tenant, keys, most_bytes);
  }
  absl::StatusOr<std::vector<AliasRow>> Aliases() override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Aliases();
  }
  absl::StatusOr<std::vector<SessionRow>> Expired(absl::Time now, size_t limit) override {
    if (absl::Status held = Wait(/*is_expiry=*/true); !held.ok()) return held;
    return store_->Expired(now, limit);
  }
  absl::StatusOr<TurnRow> Turn(const SessionKey& session, const TurnId& id) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Turn(session, id);
  }
  absl::StatusOr<TurnRow> Turn(TurnNumber number) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Turn(number);
  }
  absl::StatusOr<std::vector<TurnNumber>> TurnNumbers(const SessionKey& session, TurnNumber after,
                                                      size_t limit) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->TurnNumbers(session, after, limit);
  }
  absl::Status VisitPath(TurnNumber number,
                         const std::function<bool(const TurnRow&)>& visit) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->VisitPath(number, visit);
  }
  absl::Status VisitLinks(TurnNumber number,
                          const std::function<bool(const TurnRow&)>& visit) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->VisitLinks(number, visit);
  }
  absl::StatusOr<size_t> Collect(absl::Time before) override { return store_->Collect(before); }
  absl::StatusOr<std::unique_ptr<SegmentWriter>> WriteSegments() override {
    return store_->WriteSegments();
  }
  absl::StatusOr<std::vector<SnapshotRow>> Snapshots(TurnNumber number, size_t max_turns) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Snapshots(number, max_turns);
  }
  absl::StatusOr<std::vector<SegmentRow>> Segments(const std::string& tenant,
                                                   const SnapshotRow& snapshot) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->Segments(tenant, snapshot);
  }
  absl::StatusOr<uint64_t> HeadBytes(const std::string& tenant, TurnNumber head) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->HeadBytes(tenant, head);
  }
  absl::StatusOr<SegmentRow> FindSegment(const std::string& tenant,
                                         const SegmentKey& key) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->FindSegment(tenant, key);
  }
  absl::StatusOr<std::unique_ptr<SegmentReader>> ReadSegment(const std::string& tenant,
                                                             const SegmentKey& key) override {
    if (absl::Status held = Wait(); !held.ok()) return held;
    return store_->ReadSegment(tenant, key);
  }
  absl::StatusOr<uint64_t> CollectSegments(const SegmentCollection& collection) override {
    return store_->CollectSegments(collection);
  }
  absl::StatusOr<std::vector<std::string>> Check(size_t limit) override {
    return store_->Check(limit);
  }
  StoreHealth Health() const override { return store_->Health(); }
  std::vector<StoreBytes> Bytes() const override { return store_->Bytes(); }

 private:
  void WaitIfHeld() {
    absl::MutexLock lock(&mutex_);
    if (!reads_before_.has_value() || (*reads_before_)-- > 0) return;
    reads_before_.reset();
    holds_one_ = true;
    ++waiting_;
    mutex_.Await(absl::Condition(
        +[](bool* holds) { return !*holds; }, &holds_one_));
    --waiting_;
  }
  absl::Status Wait(bool is_expiry = false) {
    absl::MutexLock lock(&mutex_);
    if (!holds_) return failure_;
    if (std::find(forbidden_.begin(), forbidden_.end(), std::this_thread::get_id()) !=
        forbidden_.end()) {
      ADD_FAILURE() << "a thread that must not wait for the disk reads the store";
      return failure_;
    }
    const int expiries = is_expiry ? 1 : 0;
    ++waiting_;
    expiries_waiting_ += expiries;
    mutex_.Await(absl::Condition(
        +[](bool* holds) { return !*holds; }, &holds_));
    --waiting_;
    expiries_waiting_ -= expiries;
    return failure_;
  }

  const std::unique_ptr<SessionStore> store_;
  std::atomic<int> session_reads_{0};
  mutable absl::Mutex mutex_;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<int> reads_before_ ABSL_GUARDED_BY(mutex_);  // of HoldSessionRead
  bool holds_one_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int expiries_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread::id> forbidden_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_HELD_STORE_H_
