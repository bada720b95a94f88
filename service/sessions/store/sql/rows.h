// Rows of the log as columns of tables, with their checksums.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_ROWS_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// CRC-32 of the fields of a row. A text is preceded by its length, so that no two lists of fields
// look alike.
class RowChecksum {
 public:
  RowChecksum& Add(int64_t value);
  RowChecksum& Add(std::string_view text);
  int64_t value() const { return crc_; }

 private:
  RowChecksum& AddBytes(std::string_view bytes);
  uint32_t crc_ = 0;
};

// Microseconds since 1970, rounded down.
int64_t Microseconds(absl::Time time);

// A session's row, its number in the table, and when it was closed.
struct NumberedSession {
  int64_t number = 0;
  SessionRow row;
  absl::Time close_time = absl::InfiniteFuture();
};

// Columns for `SELECT ... FROM sessions`, in the order that ReadSession expects.
#define LONGSTREAM_SESSION_COLUMNS                                                 \
  "number, tenant, id, model, owner, epoch, version, head, position, create_time," \
  " last_use_time, delete_time, forked_from, properties, close_time, checksum"
// DATA_LOSS: the checksum differs. The message names the session.
absl::StatusOr<NumberedSession> ReadSession(const Statement& statement);
// Binds the columns from tenant to checksum, as parameters 0 to 14, and the number as parameter 15.
class BoundSession {
 public:
  BoundSession(Statement& statement, const NumberedSession& session);

 private:
  std::string id_, forked_from_;  // the statement points to them
};

// Columns for turns joined with the session where they ran (`t` and `s`).
#define LONGSTREAM_TURN_COLUMNS                                                              \
  "t.number, s.tenant, s.id, t.id, t.parent, t.state, t.epoch, t.kept_position, t.position," \
  " t.start_time, t.end_time, t.request_digest, t.request_checksum, t.result_checksum,"      \
  " t.checksum, t.request, t.result, t.session, t.left_time"
// The same without the request and the result.
#define LONGSTREAM_TURN_LINK_COLUMNS                                                         \
  "t.number, s.tenant, s.id, t.id, t.parent, t.state, t.epoch, t.kept_position, t.position," \
  " t.start_time, t.end_time, t.request_digest, t.request_checksum, t.result_checksum,"      \
  " t.checksum, NULL, NULL, t.session, t.left_time"
// A turn's row, the number of its session in the table, and when a head last moved away from it
// without a child of the turn in its place.
struct NumberedTurn {
  int64_t session = 0;
  TurnRow row;
  absl::Time left_time = absl::InfinitePast();
  // As the row has them; ReadTurn compares them with the request and the result.
  int64_t request_checksum = 0;
  int64_t result_checksum = 0;
};
// DATA_LOSS: a checksum differs. The message names the turn.
absl::StatusOr<NumberedTurn> ReadTurn(const Statement& statement);
// As ReadTurn, for the columns without request and result.
absl::StatusOr<NumberedTurn> ReadTurnLink(const Statement& statement);
// Binds id, parent, state, epoch, kept_position, position, start_time, end_time, request_digest,
// request_checksum, result_checksum, checksum, request, result, session, left_time and number as
// parameters 0 to 16.
class BoundTurn {
 public:
  BoundTurn(Statement& statement, const NumberedTurn& turn);

 private:
  std::string id_;  // the statement points to it
};

// Writes the end of a turn that exists: its state, position, result, end_time and left_time. The
// request stays as it is, and need not have been read.
absl::Status WriteEnd(Database& database, const NumberedTurn& turn);
// Writes the left_time of a turn that exists. Request and result stay as they are.
absl::Status WriteLeftTime(Database& database, const NumberedTurn& turn);

// A note's row, and the number of its session in the table.
struct NumberedNote {
  int64_t session = 0;
  NoteRow row;
};
// Columns for notes joined with their sessions (`n` and `s`).
#define LONGSTREAM_NOTE_COLUMNS "n.session, n.tenant, s.id, n.key, n.time, n.value, n.checksum"
// DATA_LOSS: the checksum differs. The message names the session.
absl::StatusOr<NumberedNote> ReadNote(const Statement& statement);
// Writes a note in the place of the one with its session and its key.
absl::Status WriteNote(Database& database, const NumberedNote& note);

// Columns for `SELECT ... FROM aliases`.
#define LONGSTREAM_ALIAS_COLUMNS "name, arms, checksum"
// DATA_LOSS: the checksum differs. The message names the alias.
absl::StatusOr<AliasRow> ReadAlias(const Statement& statement);
// Writes the row of an alias in the place of the one with its name.
absl::Status WriteAlias(Database& database, const AliasRow& row);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_ROWS_H_
