// The sessions in the memory of a replica of tests: their content is a number, and a turn takes a
// millisecond.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_FAKE_SESSIONS_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_FAKE_SESSIONS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/timers.h"
#include "service/fleet/session_copies.h"
#include "service/fleet/session_gate.h"
#include "service/sessions/store/commit_queue.h"
#include "tests/service/fleet/database.h"

namespace longstream::fleet {

class FakeSessions : public SessionCopies, public std::enable_shared_from_this<FakeSessions> {
 public:
  using Done = std::function<void(const absl::Status&)>;
  // Runs the turn on the peer where it runs, and tells how it ended.
  using RelayTo =
      std::function<void(const ReplicaName& peer, const SessionKey&, const TurnId&, Done)>;

  FakeSessions(Database* database, Dice* dice, Timers* timers, RelayTo relay)
      : database_(*database), dice_(*dice), timers_(*timers), relay_(std::move(relay)) {}

  void Start(std::shared_ptr<SessionGate> gate, store::CommitQueue* commits);
  // Turns are refused and cancelled now and then.
  void SetFaulty(bool faulty) { faulty_ = faulty; }
  // Nothing is submitted any more. Calls end with UNAVAILABLE.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // `done` is called once.
  void RunTurn(const SessionKey& session, const TurnId& turn, Done done);
  void AttachTurn(const SessionKey& session, const TurnId& turn, Done done);
  void Change(const SessionKey& session, CallId change, Done done);
  void CloseSession(const SessionKey& session, Done done);
  void Opened(const SessionKey& session) ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets some idle session.
  void EvictOne() ABSL_LOCKS_EXCLUDED(mutex_);

  void Drop(const SessionKey& session) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Stop(const SessionKey& session, const absl::Status& why) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep(const Fence& from, const Fence& to) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status FindCaches(const Fence& at) const override ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadCaches(const Fence& at, std::function<void(Reading)> ready) override;
  void TakeCaches(const SessionKey& session, const std::string& header, const Fence& at,
                  std::function<void(absl::StatusOr<std::shared_ptr<CacheWriter>>)> ready) override;

  void Take(const Fence& at, Content content) ABSL_LOCKS_EXCLUDED(mutex_);
  int copies_used() const { return copies_used_; }

 private:
  struct Copy {
    int64_t epoch = 0;
    int64_t version = 0;
    Content content = 0;
  };
  struct Running {
    SessionKey session;
    TurnId turn;
    std::shared_ptr<SessionUse> use;
    int64_t version = 0;  // at which the turn ends
    Content content = 0;  // at the head
    std::optional<absl::Status> stopped;
    bool dropped = false;
    std::vector<Done> readers;
  };
  using RunningTurn = std::shared_ptr<Running>;

  void Entered(const SessionKey& session, const TurnId& turn, const Done& done,
               absl::StatusOr<Entry> entry) ABSL_LOCKS_EXCLUDED(mutex_);
  void Admit(const RunningTurn& running);
  void Started(const RunningTurn& running, const absl::Status& outcome);
  void Compute(const RunningTurn& running);
  void Finish(const RunningTurn& running, TurnEnd end);
  void End(const RunningTurn& running, const absl::Status& status, std::optional<Copy> copy)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The content at this fence: of the copy, or of the log.
  Content ContentAt(const Fence& at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasCopyAt(const Fence& at) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsCommittedAt(const Fence& at, const TurnId& turn) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<absl::Status> StoppedBy(const RunningTurn& running) ABSL_LOCKS_EXCLUDED(mutex_);
  void After(absl::Duration most, std::function<void()> run);
  void Submit(store::Change change, store::CommitQueue::Done done) ABSL_LOCKS_EXCLUDED(mutex_);

  Database& database_;
  Dice& dice_;
  Timers& timers_;
  const RelayTo relay_;
  std::shared_ptr<SessionGate> gate_;
  std::atomic<bool> faulty_{false};
  std::atomic<int> copies_used_{0};
  mutable absl::Mutex mutex_;
  store::CommitQueue* commits_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: closed
  std::map<SessionKey, Copy> copies_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionKey, RunningTurn> running_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<SessionKey, TurnId>> lost_ ABSL_GUARDED_BY(mutex_);  // started, rolled back
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_FAKE_SESSIONS_H_
