// Which sessions of a fleet a replica owns, and what it does to get, keep, give and lose them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_OWNERSHIP_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_OWNERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "service/sessions/fleet/actions.h"
#include "service/sessions/fleet/events.h"
#include "service/sessions/fleet/session_state.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

struct OwnershipOptions {
  // A call for a session of another replica: fetch the session, or name its owner to the client.
  bool redirect = false;
  // A replica that drains offers so many sessions at once.
  int max_offers = 4;
};

struct DrainProgress {
  size_t waiting = 0;  // idle sessions that will be offered
  size_t offered = 0;  // to a peer that has not answered yet
  size_t busy = 0;     // in other work
};

// The ownership protocol of one replica (docs/fleet.md). It is a pure function of its state and an
// event, with the actions as its result: it has no thread, no clock and no random numbers, and
// calls nothing. A driver feeds it with events, one after the other, and runs the actions against
// the store, the peers, the engine and the calls. Actions may be answered in any order, late or
// never.
//
// It promises, whatever the driver, the network and the database do:
//   - a turn is acknowledged (kCommitted, kReplay) only if it is committed in the store;
//   - a call sees a turn (ShowTurn) only if its start is in the store;
//   - a transaction names the epoch and version of the copy from which it was computed;
//   - a copy is used only at the version at which it was made;
//   - each call ends, if each action is answered and each timer fires. So does each phase.
//
// Copyable: a copy is another replica in the same state.
class Ownership {
 public:
  Ownership(ReplicaName self, OwnershipOptions options);

  Actions Handle(const Event& event);

  const ReplicaName& self() const { return self_; }
  // Sessions that are owned, or in work.
  const std::map<SessionKey, SessionState>& sessions() const { return sessions_; }
  // The calls that have not ended yet, here and those that are relayed.
  std::vector<CallId> OpenCalls() const;
  // The call that Send{Attach} with this number is about.
  std::optional<CallId> CallOfRelay(Number relay) const;
  // How far a drain has got.
  DrainProgress Progress() const;
  // After Exit: no event has any effect.
  bool exited() const { return exited_; }
  // Appends the whole state: two machines that behave alike in future may differ in these bytes,
  // but machines with equal bytes behave alike. For tests that search all states.
  void AppendBytes(std::string* bytes) const;

 private:
  // A call of a client whose turn runs on a peer.
  struct RelayedCall {
    CallId call = 0;
    SessionKey session;
    ReplicaName peer;
  };

  // ownership.cc: calls, rows, the end of work.
  void On(const TurnArrives& event);
  void On(const ChangeArrives& event);
  void On(const CloseArrives& event);
  void On(const SessionOpened& event);
  void On(const RowRead& event);
  void On(const TurnRan& event);
  void On(const TimerFired& event);
  void On(const CopyEvicted& event);
  bool Serving() const { return lease_valid_ && !draining_; }
  SessionState& State(const SessionKey& key);
  SessionState* Find(const SessionKey& key);
  // Whether new work may begin.
  static bool IsFree(const SessionState& state);
  static bool HasTurn(const SessionState& state, const TurnId& turn);
  void Begin(SessionState& state, Work work);
  // Begins the work that a client's call asks for, or ends the call if it cannot begin now.
  void BeginForCall(SessionState& state, Work work, CallId call, const TurnId& turn);
  void Join(SessionState& state, CallId call);
  void Read(SessionState& state);
  // Reads the row, also that of the turn, without another phase.
  void AskForRow(SessionState& state);
  void Believe(SessionState& state, const OwnedRow& row);
  void Use(SessionState& state, const OwnedRow& row);
  void UseForTurn(SessionState& state, const OwnedRow& row);
  // The session is here: goes on with the work of a client.
  void Continue(SessionState& state);
  // Makes sure that no transaction of earlier work can be made any more.
  void FenceEarlierWork(SessionState& state);
  void Run(SessionState& state);
  void Show(const SessionState& state);
  void SetPhase(SessionState& state, Phase phase);
  void StopRunning(SessionState& state, Answer why);
  void Drop(SessionState& state);
  void End(std::optional<CallId>& call, Answer answer, ReplicaName owner = {});
  // Ends the work, with this answer to its call. May forget the session.
  void EndWork(SessionState& state, Answer answer);
  // Ends the work without an answer.
  void Finish(SessionState& state);
  // Another replica owns the session, or it is closed.
  void Lose(SessionState& state, Answer answer);

  // ownership_acquire.cc: claims and handovers to this replica.
  void On(const CachesArrived& event);
  void Acquire(SessionState& state, const OwnedRow& row);
  void AskOwner(SessionState& state, const OwnedRow& row);
  void Receive(SessionState& state, int64_t epoch, int64_t version, bool has_caches);
  void Transfer(SessionState& state);
  void Acquired(SessionState& state);

  // ownership_transactions.cc: transactions, and the settling of unknown outcomes.
  void On(const Transacted& event);
  void On(const Withdrawn& event);
  void Transact(SessionState& state, TransactionKind kind);
  void TransactAgain(SessionState& state);
  void Settle(SessionState& state);
  void RetryLater(SessionState& state);
  void GiveUp(SessionState& state);
  void Settled(SessionState& state, const std::optional<OwnedRow>& row);
  void Confirmed(SessionState& state, const std::optional<OwnedRow>& row);
  void Made(SessionState& state);
  void NotMade(SessionState& state, Outcome outcome);
  void CloseMade(SessionState& state);

  // ownership_peers.cc: messages.
  void On(const MessageArrives& event);
  void On(const RelayBroken& event);
  void OnMessage(const ReplicaName& from, const Fetch& fetch);
  void OnMessage(const ReplicaName& from, const Given& given);
  void OnMessage(const ReplicaName& from, const Refused& refused);
  void OnMessage(const ReplicaName& from, const Offer& offer);
  void OnMessage(const ReplicaName& from, const Moved& moved);
  void OnMessage(const ReplicaName& from, const Attach& attach);
  void OnMessage(const ReplicaName& from, const Attached& attached);
  void Give(SessionState& state);
  void Keep(SessionState& state);
  void RelayCall(SessionState& state);
  void EndRelays(SessionState& state, RelayEnd end);
  void EndRelayed(std::map<Number, RelayedCall>::iterator relayed, Answer answer);
  void EndAllRelayed();

  // ownership_drain.cc: the lease of this replica, and its end.
  void On(const LeaseRenewed& event);
  void On(const LeaseOver& event);
  void On(const LeaseReplaced& event);
  void On(const PeersChanged& event);
  void On(const DrainBegins& event);
  void On(const GraceOver& event);
  void On(const DrainOver& event);
  void Check(SessionState& state);
  void OfferSessions();
  void OfferToPeer(SessionState& state);
  // Ends all calls with kNotNow, drops all copies, and exits.
  void EndAll(bool release_lease);

  Number Draw() { return ++last_number_; }
  Number StartTimer(const SessionKey& key, TimerKind kind);

  ReplicaName self_;
  OwnershipOptions options_;
  std::map<SessionKey, SessionState> sessions_;
  std::map<Number, RelayedCall> relayed_;
  std::vector<ReplicaName> peers_;
  std::deque<SessionKey> to_offer_;
  size_t next_peer_ = 0;
  int busy_ = 0;    // sessions in a phase other than kFree
  int giving_ = 0;  // of them in kGiving
  bool lease_valid_ = false;
  bool draining_ = false;
  bool grace_over_ = false;
  bool exited_ = false;
  int64_t generation_ = 0;  // of the database; 0: not known yet
  Number last_number_ = 0;
  uint64_t uses_ = 0;
  Actions actions_;  // of the event that is being handled
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_OWNERSHIP_H_
