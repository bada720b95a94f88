// The ownership's contract with the database that the replicas share: the lease of each replica,
// the row of each session, and transactions that are fenced by epoch and version.
//
// A driver makes these of SQL; docs/fleet.md has the statements. tests/fleet/model_store.h is the
// reference: a store in memory that does what is written here.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_TRANSACTIONS_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_TRANSACTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "service/sessions/store/changes.h"
#include "service/sessions/store/log_records.h"

namespace longstream::fleet {

using store::Fence;
using store::TurnId;
using store::TurnState;

// A replica from its start to its end: "<fleet.replica_id>/<incarnation>". A replica that starts
// again has another name. This is the owner in the row of a session.
using ReplicaName = std::string;

// The lease of a replica is a row of the database: its name, and the time when the lease is over.
// Only the database's clock is compared with this time.
//
//   renew    sets the end to lease_ttl from now, in one statement. The first renewal of a new
//            incarnation ends the leases of the earlier ones.
//   release  sets the end to now.
//
// The database notices at a renewal that it was started anew or that another server has taken its
// place (pg_postmaster_start_time, the timeline). It then raises `generation` and allows no claim
// for one lease_ttl, because no replica could renew its lease meanwhile.

// The row of a session as one statement reads it, together with the lease of its owner.
struct OwnedRow {
  bool open = false;  // false: there is no such session, and the rest says nothing
  ReplicaName owner;
  int64_t epoch = 0;
  int64_t version = 0;
  // Of the turn that was asked for; absent: there is none. A turn that has started, but not on the
  // head that the session has now, is kAbandoned: no commit of it would be made.
  std::optional<TurnState> turn{};
  bool owner_lives = false;    // the owner's lease is not over
  bool claims_allowed = true;  // false: one lease_ttl since the last restart is not over

  friend bool operator==(const OwnedRow&, const OwnedRow&) = default;
};

// A transaction checks the epoch and the version of the row, then raises the version. Those that
// change the owner raise the epoch too.
enum class TransactionKind : uint8_t {
  kClaim,     // takes a session whose owner's lease is over; refused while claims are not allowed
  kTransfer,  // takes a session that its owner gives
  kStart,     // adds a turn (store::StartTurn)
  kCommit,    // commits a turn (store::CommitTurn)
  kAbandon,   // ends a turn that will never be committed (store::AbandonTurn)
  kChange,    // another change of the session (store::MoveHead, AbandonTurn)
  kClose,     // ends the session (store::CloseSession)
};

struct Transaction {
  TransactionKind kind = TransactionKind::kStart;
  Fence fence;
  TurnId turn;        // of kStart, kCommit and kAbandon
  ReplicaName owner;  // of kClaim and kTransfer: the new one. Refused if its own lease is over

  friend bool operator==(const Transaction& a, const Transaction& b) {
    return a.kind == b.kind && a.fence.key == b.fence.key && a.fence.epoch == b.fence.epoch &&
           a.fence.version == b.fence.version && a.turn == b.turn && a.owner == b.owner;
  }
};

enum class Outcome : uint8_t {
  kMade,
  kFenced,      // the row has another epoch or version, or there is no such session
  kTurnExists,  // kStart: the session has this turn. kCommit: the turn is not kStarted, or not on
                // the head
  kNotAllowed,  // kClaim: the lease is not over, or claims are not allowed. Also: the new owner's
                // own lease is over
  kFull,        // the store has no room; the transaction was not made
  kRefused,     // the store would refuse the transaction whenever it is made: it is wrong, or a row
                // is damaged; it was not made
  kUnavailable,  // the store cannot be used; the transaction was not made and never will be
  kUnknown,  // the connection was lost. The transaction was made, or not, or will still be made:
             // a server of a database may run what it had received long after that
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_TRANSACTIONS_H_
