// The state of FleetDriver, on its thread.
#ifndef LONGSTREAM_SERVICE_FLEET_DRIVER_CORE_H_
#define LONGSTREAM_SERVICE_FLEET_DRIVER_CORE_H_

#include <cstdint>
#include <deque>
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
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"
#include "service/fleet/event_thread.h"
#include "service/fleet/fleet_driver.h"
#include "service/fleet/row_reader.h"

namespace longstream::fleet {

enum class UseKind : uint8_t {
  kNew,       // a turn that starts, a change or an end
  kResumes,   // a turn that the log has as started
  kAttaches,  // a turn that another call runs
};

// A use that was given to a call, as the driver sees it. Only the driver's thread reads it.
struct GivenUse {
  enum class Stage : uint8_t {
    kBegun,    // the holder makes its transaction: Started or Changed is awaited
    kStarted,  // the start is in the log; the machine does not know yet that the turn runs
    kRunning,  // Ran is awaited
    kRan,      // the machine decides whether the turn may be committed
    kEnding,   // Committed is awaited
  };

  SessionKey session;
  Work work = Work::kTurn;  // kTurn, kChange or kClose
  TurnId turn;
  CallId call = 0;
  int64_t epoch = 0;  // at which it commits
  int64_t version = 0;
  Stage stage = Stage::kBegun;
  Number operation = 0;  // that the machine awaits
  std::optional<TurnEnd> ran;
  std::function<void(const absl::Status&)> go_on;  // of Ran
  // False: the use has no effect any more, and Ran is answered with `why`.
  bool attached = false;
  absl::Status why;
};

// The session that the event is about. nullptr: all, or none.
const SessionKey* SessionOf(const Event& event);

// All functions but Post, Stop, Counts, Lives and IsFirst are for the driver's thread.
class DriverCore : public std::enable_shared_from_this<DriverCore> {
 public:
  using Entered = SessionGate::Entered;

  DriverCore(FleetDriverOptions options, FleetStore* store, store::CommitQueue* commits);

  // Runs the task on the driver's thread. False: the driver has stopped.
  [[nodiscard]] bool Post(EventThread::Task task) { return thread_.Post(std::move(task)); }
  void Start(SessionCopies* copies, Peers* peers);
  void Stop();
  FleetCounts Counts() const ABSL_LOCKS_EXCLUDED(counts_mutex_);
  bool Lives(const ReplicaName& other) const ABSL_LOCKS_EXCLUDED(replicas_mutex_);
  bool IsFirst() const ABSL_LOCKS_EXCLUDED(replicas_mutex_);

  void Enter(Work work, const SessionKey& session, const TurnId& turn, Entered entered);
  void AttachRunning(const SessionKey& session, const TurnId& turn, Entered entered);
  void EnterChangeHere(const SessionKey& session, Entered entered);
  void RelayEnded(Number relay, const absl::Status& outcome);
  void LeaseRenewed(const RenewedLease& renewed) ABSL_LOCKS_EXCLUDED(replicas_mutex_);
  // driver_givings.cc
  void GivingBroken(const ReplicaName& peer, Number request);
  void CallRefused(const ReplicaName& peer, Number request, const absl::Status& why);
  void MessageArrived(const ReplicaName& from, PeerMessage message);
  // Counts it, and tells the program.
  void CachesLost(LostCaches lost);
  // Feeds the machine, and runs its actions.
  void Handle(Event event);

  // driver_uses.cc: what the holder of a use says.
  void Started(GivenUse& use, const absl::Status& outcome);
  void Ran(GivenUse& use, TurnEnd end, std::function<void(const absl::Status&)> go_on);
  void Committed(GivenUse& use, const absl::Status& outcome);
  void Changed(GivenUse& use, const absl::Status& outcome);
  void Destroyed(GivenUse& use);

 private:
  struct Call {
    SessionKey session;
    Entered entered;
  };
  struct Relay {
    ReplicaName peer;
    SessionKey session;
  };
  // The session before an event.
  struct Before {
    Phase phase = Phase::kFree;
    Work work = Work::kNone;
    ReplicaName peer;
    Number request = 0;
    Number timer = 0;
  };

  const SessionState* Find(const SessionKey& session) const;
  Before StateBefore(const Event& event) const;
  void HandleOne(const Event& event);
  void AfterEvent(const Event& event, const Before& before);
  // Whether it is being given to a peer, or this replica finds out whether the peer has taken it.
  bool IsGiven(const SessionKey& session) const;
  bool IsMoving(const SessionKey& session) const;
  // `session`: that the event was about; null: all.
  void NoteMoves(const SessionKey* session);
  void CountEvent(const Event& event, const Before& before);
  void UpdateCounts() ABSL_LOCKS_EXCLUDED(counts_mutex_);
  void StopNow();

  // driver_givings.cc: sessions that are being given to peers.
  void NoteGiving(const SessionKey& session, const ReplicaName& peer, Number request);
  void ForgetGiving(const SessionKey& session, const Before& before);
  // nullptr: the session is not being given to the peer with this number any more.
  const SessionState* FindGiving(const ReplicaName& peer, Number request) const;
  // The machine need not wait for the peer any longer.
  void EndGiving(const ReplicaName& peer, Number request);
  void EndGivingsToGone();
  void TellPeers();

  // driver_actions.cc
  void Do(const ReadRow& action);
  void Do(const Transact& action);
  void Do(const Send& action);
  void Do(const SendCaches& action);
  void CachesRead(const SendCaches& action, const SessionCopies::Reading& caches);
  void Do(const ReceiveCaches& action);
  void Do(const RunTurn& action);
  void Do(const StopTurn& action);
  void Do(const AdvanceCopy& /*action*/) {}  // the holder of the use has done it
  void Do(const KeepCopy& action);
  void Do(const DropCopy& action);
  void Do(const ShowTurn& action);
  void Do(const EndCall& action);
  void Do(const SetTimer& action);
  void Do(const Exit& action);
  void ChangeOwner(const Transact& action);
  void EndUseOf(const EndCall& action);
  void RelayCall(const Attach& attach, const ReplicaName& owner);
  void CachesCame(const SessionKey& session, Number operation, const absl::Status& arrived);
  absl::Duration TimeOf(TimerKind kind) const;

  // driver_uses.cc
  void GiveToCall(const SessionState& state, Number operation);
  void Resume(const RunTurn& action);
  std::shared_ptr<GivenUse> UseOf(const SessionKey& session) const;
  std::unique_ptr<SessionUse> MakeUse(const SessionState& state, std::shared_ptr<GivenUse> given,
                                      UseKind kind);
  void DeliverRan(GivenUse& use);
  void Detach(GivenUse& use, absl::Status why);
  // The machine has ended the work: stops the turn, and tells the holder why.
  void EndUse(GivenUse& use, const absl::Status& why);
  // Ends the use if the machine does not work for it any more.
  void Reconcile(const std::shared_ptr<GivenUse>& use);
  void Answer(CallId call, absl::StatusOr<Entry> entry);

  // driver_answers.cc: the answers in words.
  absl::Status StatusOf(fleet::Answer answer, const SessionKey& session,
                        const ReplicaName& owner) const;
  std::string WhyNotNow() const;

  const FleetDriverOptions options_;
  FleetStore* const store_;
  store::CommitQueue* const commits_;
  SessionCopies* copies_ = nullptr;
  Peers* peers_ = nullptr;

  Ownership machine_;
  std::deque<Event> events_;  // to be handled; more may come from actions
  bool handling_ = false;
  // Of the event that is handled now.
  const Event* event_ = nullptr;
  Before before_;
  absl::Status store_error_;  // why the row was not read, or the transaction not made
  bool sends_caches_ = false;
  std::vector<SessionKey> ended_;               // the sessions of uses that have ended since
  std::map<SessionKey, MonotonicTime> moving_;  // to this replica, and since when

  std::map<CallId, Call> calls_;                          // that are not answered yet
  std::map<SessionKey, std::shared_ptr<GivenUse>> uses_;  // that are attached
  std::map<Number, Relay> relays_;
  std::map<ReplicaName, Replica> replicas_;
  std::map<std::pair<ReplicaName, Number>, SessionKey> givings_;
  // Of sessions that are being given without caches: why. They are lost if the peer takes it.
  std::map<SessionKey, LostCaches> without_caches_;
  // The last call to a peer that was refused.
  struct RefusedCall {
    ReplicaName peer;
    Number request = 0;
    absl::Status why;
  };
  RefusedCall refused_;
  std::set<ReplicaName> silent_;  // an offer to them broke off, and they have said nothing since
  CallId last_call_ = 0;
  bool lease_valid_ = false;
  bool draining_ = false;
  bool grace_over_ = false;
  bool stopped_ = false;
  uint64_t handed_over_ = 0;
  std::optional<Exit> exit_;  // of the event that is handled now

  mutable absl::Mutex replicas_mutex_;
  std::set<ReplicaName> living_ ABSL_GUARDED_BY(replicas_mutex_);  // the names of replicas_

  mutable absl::Mutex counts_mutex_;
  FleetCounts counts_ ABSL_GUARDED_BY(counts_mutex_);

  std::unique_ptr<Timers> timers_;
  RowReader reader_;
  EventThread thread_;  // last: its tasks use the other members
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_DRIVER_CORE_H_
