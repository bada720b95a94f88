// The rows of the log: a session, a turn of its tree, a note, and an alias.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_LOG_RECORDS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_LOG_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_key.h"

namespace longstream::store {

// The 128 bits of a turn's id. A client chooses it, or the server draws it.
using TurnId = SessionId;

// The store numbers its turns. A fork shares the turns of its source, so a number names a turn in
// all sessions, and a turn's id names it in the session where it ran. Numbers are never used again.
using TurnNumber = int64_t;
inline constexpr TurnNumber kNoTurn = 0;

// The state of a session after its last committed turn. Times have a resolution of a microsecond.
struct SessionRow {
  SessionKey key;
  std::string model;
  std::string owner;          // the replica that may change the session
  int64_t epoch = 1;          // one more with each change of the owner
  int64_t version = 1;        // one more with each change of the row
  TurnNumber head = kNoTurn;  // the last committed turn
  uint64_t position = 0;      // tokens in the history, after the head
  absl::Time create_time;
  absl::Time last_use_time;
  absl::Time delete_time = absl::InfiniteFuture();  // a session that is not used until then ends
  std::optional<SessionId> forked_from;
  std::string properties;  // what the store does not read

  friend bool operator==(const SessionRow&, const SessionRow&) = default;
};

enum class TurnState {
  kStarted = 1,    // admitted; its tokens may have been sent. A crash leaves the turn so.
  kCommitted = 2,  // ended and acknowledged
  kAbandoned = 3,  // cancelled, or the head moved; it can never be committed
  kCollected = 4,  // no session can return to it. Its parent, request and result are gone; its id
                   // and digest stay, so that it is never run again.
};

// A turn. The path from the head to a turn without a parent is the session's history.
struct TurnRow {
  TurnNumber number = kNoTurn;
  SessionKey session;  // where the turn ran
  TurnId id;
  TurnNumber parent = kNoTurn;
  TurnState state = TurnState::kStarted;
  int64_t epoch = 1;           // of the session when the turn started
  uint64_t kept_position = 0;  // how many tokens of the parent's history the turn kept
  uint64_t position = 0;       // tokens in the history after the turn; 0 until it is committed
  absl::Time start_time;
  absl::Time end_time = absl::InfiniteFuture();
  std::string request_digest;  // SHA-256 of the request; the store does not compute it
  std::string request;         // what the store does not read; written when the turn starts
  std::string result;          // likewise; written when the turn ends

  friend bool operator==(const TurnRow&, const TurnRow&) = default;
};

// A value that a client keeps with a session and finds again by its key.
struct NoteRow {
  SessionKey session;
  std::string key;
  std::string value;
  absl::Time time;  // when it was written

  friend bool operator==(const NoteRow&, const NoteRow&) = default;
};

// An alias of models that an operator has set or deleted while the server ran.
struct AliasRow {
  std::string name;
  std::string arms;  // what the store does not read

  friend bool operator==(const AliasRow&, const AliasRow&) = default;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_LOG_RECORDS_H_
