// The inputs of the state machine: events of one replica that concern the ownership of sessions.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_EVENTS_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_EVENTS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// A call of a client. The driver draws the number and never uses it again.
using CallId = uint64_t;

// A call wants to run this turn, or to read it if it has run.
struct TurnArrives {
  CallId call = 0;
  SessionKey session;
  TurnId turn;
};

// A call wants to change the session otherwise: to rewind it, to cancel a turn that does not run.
// The driver makes the change out of the call.
struct ChangeArrives {
  CallId call = 0;
  SessionKey session;
};

struct CloseArrives {
  CallId call = 0;
  SessionKey session;
};

// This replica has made the session (OpenSession, ForkSession, ImportSession): the row names it as
// the owner.
struct SessionOpened {
  SessionKey session;
  int64_t epoch = 1;
  int64_t version = 1;
};

// The answer to ReadRow. Absent: the store cannot be read now.
struct RowRead {
  SessionKey session;
  Number operation = 0;
  std::optional<OwnedRow> row;
};

// The answer to Transact.
struct Transacted {
  SessionKey session;
  Number operation = 0;
  Outcome outcome = Outcome::kMade;
};

// The holder of the request is gone, and with it the transaction with this number: it was not made
// and never will be. An earlier attempt may have been made, or may still be made. A turn was put
// back to the head.
struct Withdrawn {
  SessionKey session;
  Number operation = 0;
};

enum class TurnEnd : uint8_t {
  kCommits,   // it can be committed
  kAbandons,  // its client has cancelled it; the log shall say so. The engine has put the copy back
              // to the head
  kFails,     // likewise, but the turn stays as it is in the log
};

// The engine has ended the turn.
struct TurnRan {
  SessionKey session;
  Number operation = 0;
  TurnEnd end = TurnEnd::kCommits;
};

// The answer to ReceiveCaches. False: they did not come, so the log is read instead.
struct CachesArrived {
  SessionKey session;
  Number operation = 0;
  bool complete = true;
};

struct MessageArrives {
  ReplicaName from;
  PeerMessage message;
};

// SetTimer's time is over.
struct TimerFired {
  SessionKey session;
  Number timer = 0;
};

// The peer to which a call was relayed does not answer any more.
struct RelayBroken {
  Number relay = 0;
};

// The driver has used the memory of an idle session for others. Its owner stays.
struct CopyEvicted {
  SessionKey session;
};

// The database has renewed the lease. `lapsed`: it had been over.
struct LeaseRenewed {
  int64_t generation = 0;
  bool lapsed = false;
};
// No renewal was answered for lease_ttl, by the clock of this replica.
struct LeaseOver {};
// A later incarnation of this replica has the lease.
struct LeaseReplaced {};

// The other replicas whose leases are not over and that do not drain.
struct PeersChanged {
  std::vector<ReplicaName> peers;
};

struct DrainBegins {};
// Running turns have had their time.
struct GraceOver {};
// So have handovers.
struct DrainOver {};

using Event = std::variant<TurnArrives, ChangeArrives, CloseArrives, SessionOpened, RowRead,
                           Transacted, Withdrawn, TurnRan, CachesArrived, MessageArrives,
                           TimerFired, RelayBroken, CopyEvicted, LeaseRenewed, LeaseOver,
                           LeaseReplaced, PeersChanged, DrainBegins, GraceOver, DrainOver>;

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_EVENTS_H_
