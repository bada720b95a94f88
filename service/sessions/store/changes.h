// The changes of the log. A store makes each of them whole or not at all.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_CHANGES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/segments.h"

namespace longstream::store {

// The session that a change expects to find. The change is refused if the session has another epoch
// or version, so a replica that has lost a session can change nothing.
//
// NOT_FOUND: there is no such session. ABORTED: it has another epoch or version; the message names
// both.
struct Fence {
  SessionKey key;
  int64_t epoch = 0;
  int64_t version = 0;
};

// Adds a session. `row.version` and `row.epoch` are 1. A fork has the head of its source.
// ALREADY_EXISTS: the tenant has an open session with this id. NOT_FOUND: the head is no committed
// turn.
struct OpenSession {
  SessionRow row;
};

// Adds a session together with the turns of its history, from the first to the last, all committed.
// The last one is its head. `row.version`, `epoch`, `head` and `position` are set by the store, and
// `number`, `session`, `parent`, `state` and `epoch` of the turns. `properties_of`, if it is set,
// makes row.properties from the numbers of the turns; it is called within Apply. ALREADY_EXISTS:
// the tenant has an open session with this id, or two of the turns have the same id.
struct ImportSession {
  SessionRow row;
  std::vector<TurnRow> turns;
  std::function<std::string(const std::vector<TurnNumber>& numbers)> properties_of;
};

// Adds a turn in state kStarted. Its parent is the head of the session. `turn.number`, `session`,
// `parent`, `state` and `epoch` are set by the store. ALREADY_EXISTS: the session has a turn with
// this id.
struct StartTurn {
  Fence fence;
  TurnRow turn;
};

// Commits a turn that has started: it becomes the head. FAILED_PRECONDITION: the turn is not
// kStarted, it is a turn of another session, or its parent is no longer the head.
struct CommitTurn {
  Fence fence;
  TurnNumber turn = kNoTurn;
  uint64_t position = 0;
  std::string result;
  absl::Time now;
  absl::Time delete_time = absl::InfiniteFuture();
};

// Ends a turn that will never be committed. FAILED_PRECONDITION: the turn is not kStarted, or is a
// turn of another session.
struct AbandonTurn {
  Fence fence;
  TurnNumber turn = kNoTurn;
  std::string result;
  absl::Time now;
};

// Makes another committed turn of the store the head, or none (kNoTurn). Turns that started on the
// old head can no longer be committed. NOT_FOUND: the head is no committed turn.
struct MoveHead {
  Fence fence;
  TurnNumber head = kNoTurn;
  std::optional<absl::Time> now;                         // absent: this is no use of the session
  std::optional<std::string> properties = std::nullopt;  // absent: they stay
};

// The leases that a change of the owner requires. The database's clock decides, while no renewal
// can be made.
enum class OwnerCondition {
  kClaim,     // the present owner's lease is over, the new owner's is not, and claims are allowed
  kTransfer,  // the new owner's lease is not over
  kNone,      // nothing: no lease is looked at
};

// Gives the session to another replica, with the next epoch. PERMISSION_DENIED: the condition does
// not hold. FAILED_PRECONDITION: the store has no leases, because no fleet can share it.
struct ChangeOwner {
  Fence fence;
  std::string owner;
  OwnerCondition condition = OwnerCondition::kClaim;
};

// Ends the session. Its id is free for another session. Its turns stay readable until they are
// collected. Without epoch and version it ends in whatever state it is. NOT_FOUND: there is no such
// session.
struct CloseSession {
  SessionKey key;
  std::optional<Fence> fence;
  absl::Time now;
};

// Adds the snapshot of a committed turn, and the segments that were written for it. If the turn has
// a snapshot with the same `cache`, this one takes its place. If the store has got a segment with
// the same key meanwhile, the written one takes its place.
//
// NOT_FOUND: the turn is no committed turn of this tenant. FAILED_PRECONDITION: the store does not
// have a segment that the snapshot, or a written span, needs and that was not written; write all of
// them anew.
struct AddSnapshot {
  std::string tenant;
  SnapshotRow snapshot;
  std::shared_ptr<WrittenSegments> written;  // null: none
  // Turns whose snapshots are not needed any more. The store keeps those of turns at which an open
  // session has its head.
  std::vector<TurnNumber> drop;
};

// Writes notes of a session, each in the place of the one with its key; a note without a value is
// removed. `session` and `time` of the notes are set by the store: `now`, or later than all others.
// Changes neither the version nor the owner of the session, and may be made by any replica.
// NOT_FOUND: there is no such session.
//
// Beyond the limits, the notes of the session that were written longest ago are removed.
struct PutNotes {
  SessionKey session;
  std::vector<NoteRow> notes;
  absl::Time now;
  size_t most_notes = 0;    // of the session
  uint64_t most_bytes = 0;  // of their values
};

// Writes the row of an alias, or, if `arms` is absent, removes it; no row with this name is no
// error.
struct PutAlias {
  std::string name;
  std::optional<std::string> arms;
};

using Change = std::variant<OpenSession, ImportSession, StartTurn, CommitTurn, AbandonTurn,
                            MoveHead, ChangeOwner, CloseSession, AddSnapshot, PutNotes, PutAlias>;

// The result of a change that was made: the epoch and the version of the session after it (0 for
// AddSnapshot, PutNotes and PutAlias, which change no session).
struct Applied {
  int64_t epoch = 0;
  int64_t version = 0;
  TurnNumber turn = kNoTurn;  // of StartTurn: the number of the new turn
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_CHANGES_H_
