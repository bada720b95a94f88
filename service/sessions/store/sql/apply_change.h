// One change of the log, in a transaction that the caller has begun.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_APPLY_CHANGE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_APPLY_CHANGE_H_

#include "absl/status/statusor.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// Makes the change whole or not at all (changes.h). REQUIRES: a transaction is open.
absl::StatusOr<Applied> ApplyChange(Database& database, const Change& change);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_APPLY_CHANGE_H_
