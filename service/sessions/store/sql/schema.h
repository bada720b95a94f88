// The tables of the log, and how an older store gets them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SCHEMA_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SCHEMA_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// The version of the tables; 0: there are none. FAILED_PRECONDITION: they need a newer program;
// `newest` is the version of this one.
absl::StatusOr<int64_t> StoredVersion(Database& database, size_t newest);

// The SQL of each step from one version of the tables to the next. The number of steps is the
// version that this program writes. A new version first adds what it needs, so that programs of the
// version before can still read and write (they ignore what they do not know); a later version
// removes what no program uses any more, and raises `min_reader`.
absl::Span<const char* const> SchemaSteps();

// Makes the tables or brings them up to the version of the last step, in one transaction. A
// restored backup gets a new store id. FAILED_PRECONDITION: the store needs a newer program; the
// message names both versions.
absl::Status Migrate(Database& database, absl::Span<const char* const> steps = SchemaSteps());

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SCHEMA_H_
