// Collects turns that no session can return to.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_COLLECT_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_COLLECT_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// The number of the youngest turn; kNoTurn: there is none.
absl::StatusOr<TurnNumber> LastTurn(Database& database);

// Collects turns with numbers from `first` to `last` (SessionStore::Collect). Returns how many. A
// turn's children have greater numbers, so a caller begins with the youngest turns. REQUIRES: a
// transaction is open.
absl::StatusOr<size_t> CollectTurns(Database& database, absl::Time before, TurnNumber first,
                                    TurnNumber last);

// Removes sessions without turns that were closed before `before`. REQUIRES: a transaction is open.
absl::Status RemoveClosedSessions(Database& database, absl::Time before);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_COLLECT_H_
