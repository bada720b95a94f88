// The state of one session of the fleet on one replica.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_SESSION_STATE_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "service/sessions/fleet/events.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// How far this replica has got with the work on the session. docs/fleet.md has the table of phases
// and events.
enum class Phase : uint8_t {
  kFree,       // nothing is in progress
  kReading,    // the row is being read
  kClaiming,   // the transaction is being made, also in the phases that end in -ing below
  kFetching,   // the owner was asked for the session
  kReceiving,  // its caches are arriving
  kTransferring,
  kStarting,
  kRunning,     // the engine computes the turn
  kConfirming,  // the row is being read before the commit
  kCommitting,
  kChanging,
  kClosing,
  kGiving,  // another replica may make its transaction
};

// The use that is made of the session. There is one work at a time: this is the lease of the
// session.
enum class Work : uint8_t {
  kNone,
  kTurn,    // of a client: `turn`, `call`
  kChange,  // of a client: `call`
  kClose,   // of a client: `call`
  kCheck,   // find out whether the session is still here. Gives way to other work
  kFetch,   // `peer` has asked for the session with the number `request`
  kTake,    // `peer` has offered the session with the number `request`
  kKeep,    // the receiver did not take the session in time: its transaction must not come later
  kOffer,   // this replica drains and has offered the session to `peer`
};

// A peer that reads the stream of the turn for a client of its own.
struct Relay {
  ReplicaName peer;
  Number number = 0;

  friend bool operator==(const Relay&, const Relay&) = default;
};

// The values of the work that is in progress.
struct SessionWork {
  TurnId turn;
  bool turn_started = false;  // the turn is in the log already
  std::optional<CallId> call{};
  std::vector<Relay> relays{};
  ReplicaName peer{};  // the owner before, or the receiver
  Number request = 0;
  int64_t row_epoch = 0;  // of the row, when the owner was asked
  int64_t row_version = 0;
  int reads = 0;              // of this work; bounded
  bool turn_refused = false;  // a transaction of this work had the outcome kTurnExists

  // In the phases of transactions.
  Transaction transaction{};
  bool unknown = false;   // an earlier attempt may have been made, or may still be made
  bool settling = false;  // the row is being read to find that out
  bool waiting = false;   // the store failed; it is tried again later

  // Numbers of what is awaited; 0: nothing.
  Number operation = 0;
  Number timer = 0;
  Number commit_timer = 0;
};

// The job of a session, which an idle session has not: there may be very many of those.
class SessionJob {
 public:
  SessionJob() = default;
  SessionJob(const SessionJob& other) { *this = other; }
  SessionJob& operator=(const SessionJob& other) {
    if (this != &other) work_ = other.work_ ? std::make_unique<SessionWork>(*other.work_) : nullptr;
    return *this;
  }
  SessionJob(SessionJob&&) = default;
  SessionJob& operator=(SessionJob&&) = default;
  ~SessionJob() = default;

  const SessionWork& Look() const {
    static const SessionWork none;
    return work_ ? *work_ : none;
  }
  SessionWork& Get() {
    if (!work_) work_ = std::make_unique<SessionWork>();
    return *work_;
  }
  void End() { work_.reset(); }

 private:
  std::unique_ptr<SessionWork> work_;
};

struct SessionState {
  SessionKey key;

  // The row, as this replica believes it to be. `owned`: the row names this replica.
  bool owned = false;
  bool checked = false;    // the belief was right since the lease held without a gap
  bool copy = false;       // the state and caches at `version`, or those that a peer has sent
  bool may_leave = false;  // fleet.min_residency is over
  int64_t epoch = 0;
  int64_t version = 0;
  uint64_t last_use = 0;  // greater is later
  int offers = 0;         // how often it was offered to a peer

  Work work = Work::kNone;
  Phase phase = Phase::kFree;
  std::optional<CallId> close;  // a call that waits for the end of the work to close the session
  Number residency_timer = 0;   // 0: none
  SessionJob job_of_work;
  // Of the work in progress. While there is none, only `now` may be used.
  SessionWork& job() { return job_of_work.Get(); }
  const SessionWork& now() const { return job_of_work.Look(); }

  // A start or a change at `epoch` and `version` was given up, and may still be made. Other changes
  // could not be told from it, so the next work raises the epoch first.
  bool undecided = false;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_SESSION_STATE_H_
