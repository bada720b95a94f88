// The outputs of the state machine: actions of a replica for its sessions. The driver runs them in
// their order.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_ACTIONS_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_ACTIONS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "service/sessions/fleet/events.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// Read the row, the lease of its owner, and the state of the turn. Answered by RowRead.
struct ReadRow {
  SessionKey session;
  Number operation = 0;
  std::optional<TurnId> turn;
};

// Make this transaction. Answered by Transacted, or by Withdrawn if the call is gone that has what
// the machine does not know: the request of a turn for kStart, its result for kCommit, the change
// for kChange.
struct Transact {
  Number operation = 0;
  Transaction transaction;
};

struct Send {
  ReplicaName to;
  PeerMessage message;
};

// Stream the copy of the session, with the caches, to the peer. It belongs to the Given or Offer
// with this number.
struct SendCaches {
  SessionKey session;
  ReplicaName to;
  Number request = 0;
};

// Take the copy that the peer streams. Answered by CachesArrived.
struct ReceiveCaches {
  SessionKey session;
  Number operation = 0;
  ReplicaName from;
  Number request = 0;
};

// Start the engine on the turn. Answered by TurnRan. The start of the turn is durable.
struct RunTurn {
  SessionKey session;
  Number operation = 0;
  TurnId turn;
  bool restore = false;  // there is no copy: read the session from the log first
  bool resume = false;   // the turn has been started before
};

enum class Answer : uint8_t {
  kCommitted,    // OK: the turn or the change is in the log
  kReplay,       // OK: the turn is in the log; read its answer there
  kClosed,       // OK: the session is closed
  kMoved,        // ABORTED: the session moved while the turn ran
  kBusy,         // ABORTED: another turn is running
  kAttached,     // ABORTED: another call has attached to the turn
  kNotNow,       // UNAVAILABLE with RetryInfo: the owner's lease may still hold, the session is
                 // being moved, the store cannot be reached, or this replica drains
  kCommitWaits,  // UNAVAILABLE: the commit is not answered; the same turn id has the answer later
  kFull,         // RESOURCE_EXHAUSTED: the store has no room
  kRefused,      // the status with which the store has refused the transaction
  kNotFound,     // NOT_FOUND: no such session
  kAbandoned,  // FAILED_PRECONDITION: the turn was abandoned, or the head has moved since its start
  kElsewhere,  // FAILED_PRECONDITION: the address of the owner in ErrorInfo (foreign: redirect)
  kFailed,     // INTERNAL: the model failed
  kCancelled,  // CANCELLED: the session was closed
};

// The turn ends without a commit: cancel it if it still runs, and put the copy back to the head.
// `why`: the answer to its call.
struct StopTurn {
  SessionKey session;
  Answer why = Answer::kMoved;
};

// The turn that has run, or the change, is in the store: the copy is now as it says.
struct AdvanceCopy {
  SessionKey session;
};

// The row has another epoch and version now, with the same content: the copy belongs to these.
struct KeepCopy {
  Fence from;
  Fence to;
};

// Forget the session: its caches and its state. The row and the log stay.
struct DropCopy {
  SessionKey session;
};

// The call may see the turn from now on: `started` and deltas.
struct ShowTurn {
  CallId call = 0;
  SessionKey session;
  TurnId turn;
};

// End the call.
struct EndCall {
  CallId call = 0;
  Answer answer = Answer::kNotNow;
  ReplicaName owner;  // of kElsewhere
};

enum class TimerKind : uint8_t {
  kPeerAnswer,  // how long a peer may take to answer Fetch
  kGiving,      // how long a receiver may take to make its transaction
  kCaches,      // how long caches may take to arrive
  kCommit,      // store.commit_timeout
  kRetry,       // before the store is tried again
  kResidency,   // fleet.min_residency
};

// Send TimerFired with this number after the time that the options name.
struct SetTimer {
  SessionKey session;
  Number timer = 0;
  TimerKind kind = TimerKind::kRetry;
};

// End the lease, so that others claim what is left without waiting. Then exit: nothing is left to
// do, or the time is over.
struct Exit {
  bool release_lease = true;
};

using Action = std::variant<ReadRow, Transact, Send, SendCaches, ReceiveCaches, RunTurn, StopTurn,
                            AdvanceCopy, KeepCopy, DropCopy, ShowTurn, EndCall, SetTimer, Exit>;
using Actions = std::vector<Action>;

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_ACTIONS_H_
