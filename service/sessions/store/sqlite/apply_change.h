// One change of the log, in a transaction that the caller has begun.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_APPLY_CHANGE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_APPLY_CHANGE_H_

#include "absl/status/statusor.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/rows.h"

namespace longstream::store {

// The open session. NOT_FOUND: there is none.
absl::StatusOr<NumberedSession> FindSession(Database& database, const SessionKey& key);

// The turn with this number. NOT_FOUND: there is none.
absl::StatusOr<NumberedTurn> FindTurn(Database& database, TurnNumber number);
// The same without its request and result.
absl::StatusOr<NumberedTurn> FindTurnLink(Database& database, TurnNumber number);

// Writes a turn that exists. REQUIRES: a transaction is open.
absl::Status WriteTurn(Database& database, const NumberedTurn& turn);

// Makes the change whole or not at all (changes.h). REQUIRES: a transaction is open.
absl::StatusOr<Applied> ApplyChange(Database& database, const Change& change);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_APPLY_CHANGE_H_
