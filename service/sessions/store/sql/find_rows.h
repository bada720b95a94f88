// Rows of the log by their keys, for changes and for readers.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_FIND_ROWS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_FIND_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/sql/database.h"
#include "service/sessions/store/sql/rows.h"

namespace longstream::store {

// The open session. NOT_FOUND: there is none.
absl::StatusOr<NumberedSession> FindSession(Database& database, const SessionKey& key);

// The turn with this number. NOT_FOUND: there is none.
absl::StatusOr<NumberedTurn> FindTurn(Database& database, TurnNumber number);
// The same without its request and result.
absl::StatusOr<NumberedTurn> FindTurnLink(Database& database, TurnNumber number);

// ALREADY_EXISTS: the open session has a turn with this id.
absl::Status CheckTurnIsNew(Database& database, const SessionKey& session, const TurnId& id);
// The error of CheckTurnIsNew.
absl::Status HasTurnError(const SessionKey& session, const TurnId& id);

// The notes of an open session: how many, the bytes of their values, and the time of the last one
// in microseconds. All are 0 if there is none.
struct NoteSums {
  int64_t notes = 0;
  int64_t bytes = 0;
  int64_t last_time = 0;
};
absl::StatusOr<NoteSums> FindNoteSums(Database& database, const SessionKey& session);

// The number of the next row of a table. Numbers of removed rows are not used again.
absl::StatusOr<int64_t> NextNumber(Database& database, std::string_view table);

// Writes a turn that exists. REQUIRES: a transaction is open.
absl::Status WriteTurn(Database& database, const NumberedTurn& turn);

// Announces what the first changes read, as far as none of them alters what a later one reads.
// Returns how many changes these are. REQUIRES: a transaction is open.
size_t AnnounceReads(Database& database, absl::Span<const Change> changes);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_FIND_ROWS_H_
