// The messages of replicas about sessions (the plain values of longstream.peer.v1). They may be
// lost, late, repeated and in another order; no message changes who owns a session. Only a
// transaction does.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_PEER_MESSAGES_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_PEER_MESSAGES_H_

#include <cstdint>
#include <variant>

#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// A number that a replica draws for each thing it waits for. An answer with another number is late.
using Number = uint64_t;

// Asks the owner for a session. `epoch`: the owner's, as the row has it. `turn`: why; zero: to
// change the session otherwise.
struct Fetch {
  SessionKey session;
  Number request = 0;
  int64_t epoch = 0;
  TurnId turn;
};

// Answers Fetch. The owner starts no turn until it knows how the giving ended.
struct Given {
  SessionKey session;
  Number request = 0;
  int64_t epoch = 0;  // the receiver's transaction expects these
  int64_t version = 0;
  bool has_caches = false;  // they follow; else the receiver reads them from the log
};

enum class Refusal : uint8_t {
  kNotMine,   // this replica does not own the session, or no longer in this epoch
  kRunning,   // this turn is running here: attach to it
  kBusy,      // another turn is running here
  kNotYet,    // it came less than min_residency ago, or is being given to another replica
  kNotTaken,  // answers Offer: the receiver has no room, or drains too
};

// Answers Fetch or Offer.
struct Refused {
  SessionKey session;
  Number request = 0;
  Refusal why = Refusal::kNotMine;
};

// A replica that drains gives a session to this one.
struct Offer {
  SessionKey session;
  Number request = 0;
  int64_t epoch = 0;
  int64_t version = 0;
  bool has_caches = false;
};

// A notice to the owner before: another replica owns the session since `epoch`, or it was closed.
struct Moved {
  SessionKey session;
  int64_t epoch = 0;
  bool closed = false;
};

// Asks for the stream of a running turn.
struct Attach {
  SessionKey session;
  Number relay = 0;
  TurnId turn;
};

enum class RelayEnd : uint8_t {
  kCommitted,
  kLost,        // the turn has ended here without a commit
  kNotRunning,  // it does not run here
};

// The stream that Attach asked for has ended.
struct Attached {
  SessionKey session;
  Number relay = 0;
  RelayEnd end = RelayEnd::kNotRunning;
};

using PeerMessage = std::variant<Fetch, Given, Refused, Offer, Moved, Attach, Attached>;

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_PEER_MESSAGES_H_
