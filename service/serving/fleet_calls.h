// The calls for sessions that a fleet shares: they pass the gate before they use a session.
#ifndef LONGSTREAM_SERVICE_SERVING_FLEET_CALLS_H_
#define LONGSTREAM_SERVICE_SERVING_FLEET_CALLS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/fleet/session_gate.h"
#include "service/serving/fleet/served_copies.h"
#include "service/serving/session_manager.h"

namespace longstream {

// A part of the SessionManager of a replica. Sessions that live in memory alone are no concern of
// the fleet. For the others, the copy in memory is used only if it has the epoch and the version
// that the gate names, or, to read it, those of the row; otherwise the store is read.
//
// Thread-safe. Only the functions that say so read the store, and block meanwhile.
class FleetCalls {
 public:
  using Use = std::shared_ptr<fleet::SessionUse>;

  // Both outlive the object. `gate` is not nullptr.
  FleetCalls(SessionManager* manager, fleet::SessionGate* gate);

  ServedCopies& copies() { return copies_; }
  // Whether the session is shared, as far as this replica knows: it is not if it is in memory only.
  bool Shares(const SessionKey& key) const;
  static bool IsShared(const ServedSession& served) { return served.turns->durable(); }

  // As SessionManager::LoadTurn. `relayed`: the turn runs on another replica.
  using Loaded = std::function<void(absl::StatusOr<NewTurn>)>;
  using Relayed = std::function<void(const fleet::Entry&)>;
  void LoadTurn(const SessionKey& key, const std::optional<TurnId>& id, Loaded loaded,
                Relayed relayed);
  // As LoadTurn, for a peer that relays its call. ABORTED: the turn does not run here.
  void AttachRunning(const SessionKey& key, const TurnId& id, Loaded loaded);
  // A turn of which only the history is read. Reads the store.
  absl::StatusOr<NewTurn> HistoryOf(const SessionKey& key);

  // Asks for a use that changes the session, and calls `change` on a thread that reads the store.
  // `answer` gets the errors of the gate.
  template <typename Answer>
  void Change(const SessionKey& key, Answer answer, std::function<void(Use)> change) {
    gate_->EnterChange(key, [this, pending = manager_->Pending(), key, answer = std::move(answer),
                             change = std::move(change)](absl::StatusOr<fleet::Entry> entry) {
      if (!entry.ok()) return answer(Explained(key, entry.status()));
      manager_->RunRead({key.tenant, key.id}, answer,
                        [change, use = std::move(entry->use)] { change(use); });
    });
  }
  // As Change, without a thread: for a session whose lease the caller holds. nullptr: it cannot be
  // changed now, or the copy is old.
  void ChangeLeased(const ServedSession& served, std::function<void(Use)> change);
  void Close(const SessionKey& key, SessionManager::Closed closed);
  // Closes the expired session if it is still as the row says, and nobody uses it; otherwise
  // ABORTED. Errors of the gate.
  void CloseExpired(const store::SessionRow& row, SessionManager::Closed closed);

  // Finds or restores the session at the epoch and version of the use, with the caches that have
  // arrived for it. Reads the store, and waits for the engine, but not for long. ABORTED: it has
  // moved. UNAVAILABLE: the engine is too busy. Other errors as for SessionManager::FindOrRestore.
  absl::StatusOr<FoundSession> Find(const SessionKey& key, const fleet::SessionUse& use);
  // The same, and takes the lease. Errors as for TurnLease::Take.
  absl::StatusOr<SessionManager::Leased> FindAndLease(const SessionKey& key,
                                                      const fleet::SessionUse& use);
  // The session as the row has it, to be read, also while a turn runs. It may be a copy of its own
  // that no call can find. Reads the store. Errors as for FindAndLease.
  absl::StatusOr<SessionManager::Leased> LeaseToRead(const SessionKey& key);

  // Whether the copy is as the row says. Reads the store.
  bool IsCurrent(const ServedSession& served) const;
  static bool IsCurrent(const ServedSession& served, const store::SessionRow& row);
  // Takes an idle copy out of memory if it is not as the row says. Reads the store, and returns its
  // errors: nobody knows then whether the copy is old.
  absl::Status RemoveIfStale(const SessionKey& key);
  // As SessionManager::View. Reads the store.
  absl::StatusOr<SessionView> View(const SessionKey& key) const;

  // The session is in memory, and its row is durable.
  void Opened(const ServedSession& served);
  // The idle session has left the memory, or has not come there: the gate may forget it.
  void Evicted(const SessionKey& key) { gate_->Evicted(key); }
  // As SessionGate::Lives.
  bool Lives(const std::string& other) const { return gate_->Lives(other); }
  // Whether this replica counts the stored sessions that `owner` had last, so that each session
  // counts at one replica: its own, and, if it is the first one, those that no replica has.
  bool CountsSessionsOf(const std::string& owner) const;
  // Whether this replica may close the expired session of the row.
  bool MayExpire(const store::SessionRow& row) const;
  // The session's place in AloneSessions, when it has the caches that have arrived for it, if there
  // are some: a call that only reads the session must not find it without them. Reads the store.
  absl::StatusOr<std::shared_ptr<void>> AloneWithCaches(const SessionKey& key);
  // Restores sessions whose caches have arrived and that this replica has taken: they are idle
  // sessions from then on, whose caches may be evicted. Frees caches that were not used.
  void SettleArrived(MonotonicTime now);
  void RelayEnded(uint64_t relay, const absl::Status& outcome) {
    gate_->RelayEnded(relay, outcome);
  }

 private:
  ServedCopies::Service ServiceOf(SessionManager* manager);

  // The turn that a call wants to run. `is_named`: its client chose the id.
  struct Wanted {
    SessionKey key;
    TurnId turn;
    bool is_named = false;
  };

  // The error for the client. NOT_FOUND says what became of the session.
  absl::Status Explained(const SessionKey& key, const absl::Status& status) const;
  // The gate has answered a call for a turn.
  void Enter(const Wanted& wanted, absl::StatusOr<fleet::Entry> entry, const Loaded& loaded,
             const Relayed& relayed);
  // Whether the copy may be used for the turn.
  static bool Fits(const ServedSession& served, const Wanted& wanted, const fleet::SessionUse& use);
  // Absent: the store must be read.
  std::optional<absl::StatusOr<NewTurn>> TurnInMemory(const Wanted& wanted, const Use& use);
  // Reads the store.
  void LoadUsed(const Wanted& wanted, const Use& use, const Loaded& loaded);
  absl::StatusOr<NewTurn> MakeUsed(const ServedSession& served, const Wanted& wanted,
                                   const Use& use);
  absl::StatusOr<NewTurn> ReplayOf(const SessionKey& key, const TurnId& turn);
  // A session, and the caches that have arrived for it. If there are some, no other call finds the
  // session before it has them.
  struct Arriving {
    FoundSession found;
    ArrivedCaches caches;         // not valid: none
    std::shared_ptr<void> alone;  // its place in AloneSessions; nullptr without caches
  };
  absl::StatusOr<Arriving> FindFor(const Wanted& wanted, const fleet::SessionUse& use);
  // Gives the caches, which are valid, to the session, then calls `then` on the engine thread.
  // Without its caches the session computes them in its next turn, so every outcome is good.
  void Attach(Arriving arriving, std::function<void(std::shared_ptr<FoundSession>)> then);
  // Makes a copy of the session that no call can find, without its state.
  absl::StatusOr<ServedSession> WithoutState(const store::SessionRow& row,
                                             const std::shared_ptr<Engine>& engine);
  void RestoreAllArrived();
  // Gives the caches that have arrived to their session if the row is at `at`, and no call uses the
  // session. Until the session has them, it is alone. Reads the store. OK: it has them, or it will,
  // or a call uses it now. An error says why they are not for it, or cannot be given to it.
  absl::Status RestoreArrived(const fleet::Fence& at);
  // The row of a session of this replica. ABORTED: it is not at `at`, or not of this replica.
  // Errors of the store.
  absl::StatusOr<store::SessionRow> OwnRowAt(const fleet::Fence& at) const;
  // Whether the session is no longer of this replica. False also if the store does not say so.
  bool HasLeft(const SessionKey& key) const;
  void CloseNow(const SessionKey& key, const Use& use, const SessionManager::Closed& closed);

  SessionManager* const manager_;
  fleet::SessionGate* const gate_;
  ServedCopies copies_;
  std::atomic<bool> restoring_ = false;  // caches that have arrived
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FLEET_CALLS_H_
