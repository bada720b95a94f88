// A gate of a fleet that a test controls. Without orders it answers as for a session that this
// replica owns and nobody else uses.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SCRIPTED_GATE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SCRIPTED_GATE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/session_gate.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

class ScriptedGate final : public fleet::SessionGate {
 public:
  using Entry = absl::StatusOr<fleet::Entry>;

  explicit ScriptedGate(store::SessionStore* store) : store_(store) {}
  // A use outlives the sessions until the store has answered its last transaction.
  ~ScriptedGate() override { (void)TakeEvents(); }

  // The next call that enters gets this answer.
  void AnswerNext(Entry entry) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(entry));
  }
  // A use of the session as its row is now.
  Entry EntryOf(const SessionKey& session, bool resumes, bool attaches = false) {
    const absl::StatusOr<store::SessionRow> row = store_->Session(session);
    if (!row.ok()) return row.status();
    fleet::Entry entry;
    entry.use = std::make_shared<Use>(this, fleet::Fence{session, row->epoch, row->version},
                                      resumes, attaches);
    return entry;
  }
  // Called when the engine has ended a turn. Its result goes to go_on.
  void SetOnRan(std::function<absl::Status()> on_ran) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    on_ran_ = std::move(on_ran);
  }
  // Called when the store has answered to the commit of a turn, which has not ended yet.
  void SetOnCommitted(std::function<void()> on_committed) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    on_committed_ = std::move(on_committed);
  }
  // The calls since the last call of this function. Waits until all uses have ended: the
  // thread of the store may hold one for a moment longer than its turn.
  std::vector<std::string> TakeEvents() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* uses) { return *uses == 0; }, &uses_));
    return std::exchange(events_, {});
  }
  bool Has(const std::string& event) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (const std::string& other : events_) {
      if (other == event) return true;
    }
    return false;
  }

  void EnterTurn(const SessionKey& session, const fleet::TurnId& turn, Entered entered) override {
    Enter("turn", session, turn, entered);
  }
  void AttachRunning(const SessionKey& session, const fleet::TurnId& turn,
                     Entered entered) override {
    Enter("attach", session, turn, entered);
  }
  void EnterChange(const SessionKey& session, Entered entered) override {
    Enter("change", session, std::nullopt, entered);
  }
  void EnterChangeHere(const SessionKey& session, Entered entered) override {
    Enter("change here", session, std::nullopt, entered);
  }
  void EnterClose(const SessionKey& session, Entered entered) override {
    Enter("close", session, std::nullopt, entered);
  }
  void RelayEnded(uint64_t relay, const absl::Status& outcome) override {
    Add(absl::StrCat("relay ", relay, " ", absl::StatusCodeToString(outcome.code())));
  }
  void Opened(const SessionKey& /*session*/, int64_t epoch, int64_t version) override {
    Add(absl::StrCat("opened ", epoch, " ", version));
  }
  void Evicted(const SessionKey& /*session*/) override { Add("evicted"); }
  void CachesLost(const SessionKey& /*session*/, const absl::Status& why) override {
    Add(absl::StrCat("caches lost ", absl::StatusCodeToString(why.code())));
  }
  bool Lives(const fleet::ReplicaName& /*other*/) const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return others_live_;
  }
  bool IsFirst() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return is_first_;
  }
  // The leases of all other replicas are over.
  void EndOthers() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    others_live_ = false;
  }
  void SetFirst(bool is_first) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    is_first_ = is_first;
  }

 private:
  class Use final : public fleet::SessionUse {
   public:
    Use(ScriptedGate* gate, fleet::Fence fence, bool resumes, bool attaches)
        : gate_(gate), fence_(std::move(fence)), resumes_(resumes), attaches_(attaches) {
      absl::MutexLock lock(&gate_->mutex_);
      ++gate_->uses_;
    }
    ~Use() override {
      absl::MutexLock lock(&gate_->mutex_);
      gate_->events_.emplace_back("ended");
      --gate_->uses_;
    }

    const fleet::Fence& fence() const override { return fence_; }
    bool resumes() const override { return resumes_; }
    bool attaches() const override { return attaches_; }
    void Started(const absl::Status& outcome) override { Add("started", outcome); }
    void Ran(fleet::TurnEnd end, std::function<void(const absl::Status&)> go_on) override {
      const bool commits = end == fleet::TurnEnd::kCommits;
      gate_->Add(commits ? "ran" : end == fleet::TurnEnd::kAbandons ? "abandons" : "fails");
      std::function<absl::Status()> on_ran;
      {
        absl::MutexLock lock(&gate_->mutex_);
        on_ran = gate_->on_ran_;
      }
      go_on(on_ran ? on_ran() : absl::OkStatus());
    }
    void Committed(const absl::Status& outcome) override {
      Add("committed", outcome);
      std::function<void()> on_committed;
      {
        absl::MutexLock lock(&gate_->mutex_);
        on_committed = gate_->on_committed_;
      }
      if (on_committed) on_committed();
    }
    void Changed(const absl::Status& outcome) override { Add("changed", outcome); }

   private:
    void Add(const char* what, const absl::Status& outcome) {
      gate_->Add(absl::StrCat(what, " ", absl::StatusCodeToString(outcome.code())));
    }

    ScriptedGate* const gate_;
    const fleet::Fence fence_;
    const bool resumes_;
    const bool attaches_;
  };

  void Add(std::string event) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  void Enter(const char* what, const SessionKey& session, const std::optional<fleet::TurnId>& turn,
             const Entered& entered) ABSL_LOCKS_EXCLUDED(mutex_) {
    Add(what);
    std::optional<Entry> answer;
    {
      absl::MutexLock lock(&mutex_);
      if (!answers_.empty()) {
        answer = std::move(answers_.front());
        answers_.pop_front();
      }
    }
    entered(answer.has_value() ? *std::move(answer) : FromRow(session, turn));
  }
  Entry FromRow(const SessionKey& session, const std::optional<fleet::TurnId>& turn) {
    bool resumes = false;
    if (turn.has_value()) {
      const absl::StatusOr<store::TurnRow> found = store_->Turn(session, *turn);
      resumes = found.ok() && found->state == store::TurnState::kStarted;
    }
    return EntryOf(session, resumes);
  }

  store::SessionStore* const store_;
  mutable absl::Mutex mutex_;
  std::deque<Entry> answers_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::Status()> on_ran_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_committed_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
  bool others_live_ ABSL_GUARDED_BY(mutex_) = true;
  bool is_first_ ABSL_GUARDED_BY(mutex_) = true;
  int uses_ ABSL_GUARDED_BY(mutex_) = 0;  // that exist
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_FLEET_SCRIPTED_GATE_H_
