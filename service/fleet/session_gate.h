// The right to use sessions that other replicas may own, as the calls of clients ask for it.
#ifndef LONGSTREAM_SERVICE_FLEET_SESSION_GATE_H_
#define LONGSTREAM_SERVICE_FLEET_SESSION_GATE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/fleet/fleet_store.h"
#include "service/sessions/fleet/events.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// The right to use a session once: for a turn, a change or its end. There is one at a time for each
// session; it is the lease of the session in the fleet. The session is this replica's, and its row
// has the epoch and version of fence(). A copy in memory at another version must not be used: the
// session is read from the log then.
//
// The holder calls the functions in their order, on any thread, and destroys the object when the
// use has ended. If it is destroyed before Started, or before Changed, nothing was made: the
// request was refused. If it is destroyed before Committed, the driver finds out what was made. No
// function blocks.
//
// The machine may end the use earlier: the session was lost or closed, or this replica exits. Then
// SessionCopies::Stop or Drop tells the holder; the functions have no effect any more, and go_on
// gets an error.
class SessionUse {
 public:
  virtual ~SessionUse() = default;

  virtual const Fence& fence() const = 0;
  // Of a turn: it is in the log already as started, and is not started again.
  virtual bool resumes() const = 0;
  // Of a turn: another call runs it, or will run it soon. This use has no effect: its holder reads
  // the running turn, and must not run it itself.
  virtual bool attaches() const = 0;

  // Of a turn that does not resume: what the store has answered to its start. ALREADY_EXISTS: the
  // turn is in the log as started, and the holder goes on with it. After another error the holder
  // has ended the turn, and calls nothing more.
  virtual void Started(const absl::Status& outcome) = 0;
  // The engine has ended the turn. `go_on` is called once, on any thread or at once. OK: make the
  // change that `end` says, at the version after the start; without one, the turn is over.
  // Otherwise another replica has the session or the store cannot be used: the turn is rolled back
  // and ends with this status.
  virtual void Ran(TurnEnd end, std::function<void(const absl::Status&)> go_on) = 0;
  // The answer of the store to the CommitTurn or AbandonTurn. After an error the holder has
  // rolled the turn back, and calls nothing more.
  virtual void Committed(const absl::Status& outcome) = 0;

  // Of a change or an end: what the store has answered.
  virtual void Changed(const absl::Status& outcome) = 0;
};

// How a call goes on.
struct Entry {
  enum class How {
    kUse,     // the session is here: `use` is set
    kReplay,  // the turn is committed: its answer is in the log
    kRelay,   // the turn runs on `peer`, which streams it
    kClosed,  // of EnterClose: the session is closed already
  };
  How how = How::kUse;
  std::shared_ptr<SessionUse> use{};
  Replica peer{};
  uint64_t relay = 0;  // of kRelay: for RelayEnded
};

// Thread-safe. No function blocks. Each answer comes once, on any thread or at once.
//
// The answers may be errors:
//   NOT_FOUND            the tenant has no such session
//   ABORTED              another turn or change of the session is running, or the session has
//                        moved. If a turn runs on another replica, OwnerOf (session_owner.h)
//                        names it
//   UNAVAILABLE          the owner's lease may still hold, the session is being moved, the store
//                        cannot be reached, or this replica drains. The same request may succeed
//                        later, here or on another replica
//   FAILED_PRECONDITION  the turn was abandoned; or the session is on another replica, which the
//                        message and OwnerOf name (fleet.foreign: redirect)
//   RESOURCE_EXHAUSTED   the store has no room for the change of the owner
//   DATA_LOSS            the row of the session is damaged
class SessionGate {
 public:
  virtual ~SessionGate() = default;

  using Entered = std::function<void(absl::StatusOr<Entry>)>;
  // A call wants to run this turn, or to read it. If the turn runs here for another call, the
  // answer comes when its start is durable: a use that attaches and resumes.
  virtual void EnterTurn(const SessionKey& session, const TurnId& turn, Entered entered) = 0;
  // As EnterTurn, but ABORTED if the turn does not run here. A peer relays the call.
  virtual void AttachRunning(const SessionKey& session, const TurnId& turn, Entered entered) = 0;
  // A call wants to change the session otherwise.
  virtual void EnterChange(const SessionKey& session, Entered entered) = 0;
  // As EnterChange, but ABORTED if the session is in other work, or if this replica does not know
  // that it has the session: it is not taken from another one.
  virtual void EnterChangeHere(const SessionKey& session, Entered entered) = 0;
  virtual void EnterClose(const SessionKey& session, Entered entered) = 0;

  // The stream of a relayed turn has ended. OK: the turn was committed. Otherwise the client is
  // told to send the request again.
  virtual void RelayEnded(uint64_t relay, const absl::Status& outcome) = 0;

  // This replica has made the session; its row names it as the owner.
  virtual void Opened(const SessionKey& session, int64_t epoch, int64_t version) = 0;
  // The session has left the memory, idle; this replica still owns it.
  virtual void Evicted(const SessionKey& session) = 0;

  // Caches that a peer has sent with the session are freed, and it goes on without them. The
  // gate counts it, and tells the program.
  virtual void CachesLost(const SessionKey& session, const absl::Status& why) = 0;

  // Whether the lease of another replica held when this one last renewed its own. False: as far as
  // this replica knows, nobody has the sessions whose owner it is. To be shown to people: only the
  // database says whether a session may be claimed.
  virtual bool Lives(const ReplicaName& other) const = 0;
  // Whether this replica's name is the first of those that live, as far as this replica knows. For
  // numbers of the whole fleet that one replica shows; two may be first for a moment, or none.
  virtual bool IsFirst() const = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_SESSION_GATE_H_
