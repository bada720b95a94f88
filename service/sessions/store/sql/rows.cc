// Reads, writes and checks rows.
#include "service/sessions/store/sql/rows.h"

#include <zlib.h>

#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

absl::Time TimeOf(int64_t microseconds) { return absl::FromUnixMicros(microseconds); }

// NULL stands for a time that never comes.
absl::Time TimeOrNever(const Statement& statement, int column) {
  return statement.IsNull(column) ? absl::InfiniteFuture() : TimeOf(statement.Int(column));
}

void BindTimeOrNever(Statement& statement, int parameter, absl::Time time) {
  if (time == absl::InfiniteFuture()) {
    statement.BindNull(parameter);
  } else {
    statement.Bind(parameter, Microseconds(time));
  }
}

// NULL: no head has left the turn.
void BindLeftTime(Statement& statement, int parameter, absl::Time time) {
  if (time == absl::InfinitePast()) {
    statement.BindNull(parameter);
  } else {
    statement.Bind(parameter, Microseconds(time));
  }
}

void BindTurnNumber(Statement& statement, int parameter, TurnNumber number) {
  if (number == kNoTurn) {
    statement.BindNull(parameter);
  } else {
    statement.Bind(parameter, number);
  }
}

int64_t NoteChecksum(const NumberedNote& note) {
  const NoteRow& row = note.row;
  return RowChecksum()
      .Add(note.session)
      .Add(row.session.tenant)
      .Add(row.key)
      .Add(Microseconds(row.time))
      .Add(row.value)
      .value();
}

int64_t SessionChecksum(const NumberedSession& session) {
  const SessionRow& row = session.row;
  return RowChecksum()
      .Add(session.number)
      .Add(row.key.tenant)
      .Add(row.key.id.Bytes())
      .Add(row.model)
      .Add(row.owner)
      .Add(row.epoch)
      .Add(row.version)
      .Add(row.head)
      .Add(static_cast<int64_t>(row.position))
      .Add(Microseconds(row.create_time))
      .Add(Microseconds(row.last_use_time))
      .Add(Microseconds(row.delete_time))
      .Add(row.forked_from ? row.forked_from->Bytes() : std::string())
      .Add(row.properties)
      .Add(Microseconds(session.close_time))
      .value();
}

int64_t BlobChecksum(std::string_view bytes) { return RowChecksum().Add(bytes).value(); }

// Covers the session's key also, because a turn is read together with its session's row.
int64_t TurnChecksum(const NumberedTurn& turn, int64_t request_checksum, int64_t result_checksum) {
  const TurnRow& row = turn.row;
  return RowChecksum()
      .Add(row.number)
      .Add(turn.session)
      .Add(row.session.tenant)
      .Add(row.session.id.Bytes())
      .Add(row.id.Bytes())
      .Add(row.parent)
      .Add(static_cast<int64_t>(row.state))
      .Add(row.epoch)
      .Add(static_cast<int64_t>(row.kept_position))
      .Add(static_cast<int64_t>(row.position))
      .Add(Microseconds(row.start_time))
      .Add(Microseconds(row.end_time))
      .Add(Microseconds(turn.left_time))
      .Add(row.request_digest)
      .Add(request_checksum)
      .Add(result_checksum)
      .value();
}

absl::Status DamagedTurn(const std::string& id, TurnNumber number, const char* part) {
  return absl::DataLossError(absl::StrCat("store: turn ", absl::BytesToHexString(id), " (number ",
                                          number, ") is damaged: the checksum of its ", part,
                                          " differs"));
}

}  // namespace

RowChecksum& RowChecksum::Add(int64_t value) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(static_cast<uint64_t>(value) >> (8 * i));
  }
  return AddBytes({reinterpret_cast<const char*>(bytes), sizeof(bytes)});
}

RowChecksum& RowChecksum::Add(std::string_view text) {
  return Add(static_cast<int64_t>(text.size())).AddBytes(text);
}

RowChecksum& RowChecksum::AddBytes(std::string_view bytes) {
  crc_ = static_cast<uint32_t>(
      crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return *this;
}

int64_t Microseconds(absl::Time time) { return absl::ToUnixMicros(time); }

absl::StatusOr<NumberedSession> ReadSession(const Statement& statement) {
  NumberedSession read;
  read.number = statement.Int(0);
  SessionRow& row = read.row;
  const std::string id = statement.Bytes(2), forked_from = statement.Bytes(12);
  const bool ids_ok = id.size() == SessionId::kBytes &&
                      (forked_from.empty() || forked_from.size() == SessionId::kBytes);
  if (ids_ok) {
    row.key = {statement.Bytes(1), SessionId::FromBytes(id)};
    if (!forked_from.empty()) row.forked_from = SessionId::FromBytes(forked_from);
  }
  row.model = statement.Bytes(3);
  row.owner = statement.Bytes(4);
  row.epoch = statement.Int(5);
  row.version = statement.Int(6);
  row.head = statement.Int(7);
  row.position = static_cast<uint64_t>(statement.Int(8));
  row.create_time = TimeOf(statement.Int(9));
  row.last_use_time = TimeOf(statement.Int(10));
  row.delete_time = TimeOrNever(statement, 11);
  row.properties = statement.Bytes(13);
  read.close_time = TimeOrNever(statement, 14);
  if (!ids_ok || SessionChecksum(read) != statement.Int(15)) {
    return absl::DataLossError(absl::StrCat("store: the row of session ",
                                            absl::BytesToHexString(id), " (number ", read.number,
                                            ") is damaged: its checksum differs"));
  }
  return read;
}

BoundSession::BoundSession(Statement& statement, const NumberedSession& session)
    : id_(session.row.key.id.Bytes()) {
  const SessionRow& row = session.row;
  statement.BindText(0, row.key.tenant);
  statement.BindBlob(1, id_);
  statement.BindText(2, row.model);
  statement.BindText(3, row.owner);
  statement.Bind(4, row.epoch);
  statement.Bind(5, row.version);
  BindTurnNumber(statement, 6, row.head);
  statement.Bind(7, static_cast<int64_t>(row.position));
  statement.Bind(8, Microseconds(row.create_time));
  statement.Bind(9, Microseconds(row.last_use_time));
  BindTimeOrNever(statement, 10, row.delete_time);
  if (row.forked_from) {
    forked_from_ = row.forked_from->Bytes();
    statement.BindBlob(11, forked_from_);
  } else {
    statement.BindNull(11);
  }
  statement.BindBlob(12, row.properties);
  BindTimeOrNever(statement, 13, session.close_time);
  statement.Bind(14, SessionChecksum(session));
  statement.Bind(15, session.number);
}

absl::StatusOr<NumberedTurn> ReadTurnLink(const Statement& statement) {
  NumberedTurn read;
  read.session = statement.Int(17);
  read.request_checksum = statement.Int(12);
  read.result_checksum = statement.Int(13);
  if (!statement.IsNull(18)) read.left_time = TimeOf(statement.Int(18));
  TurnRow& row = read.row;
  row.number = statement.Int(0);
  const std::string session = statement.Bytes(2), id = statement.Bytes(3);
  const bool ids_ok = session.size() == SessionId::kBytes && id.size() == SessionId::kBytes;
  if (ids_ok) {
    row.session = {statement.Bytes(1), SessionId::FromBytes(session)};
    row.id = SessionId::FromBytes(id);
  }
  row.parent = statement.Int(4);
  row.state = static_cast<TurnState>(statement.Int(5));
  row.epoch = statement.Int(6);
  row.kept_position = static_cast<uint64_t>(statement.Int(7));
  row.position = static_cast<uint64_t>(statement.Int(8));
  row.start_time = TimeOf(statement.Int(9));
  row.end_time = TimeOrNever(statement, 10);
  row.request_digest = statement.Bytes(11);
  if (!ids_ok ||
      TurnChecksum(read, read.request_checksum, read.result_checksum) != statement.Int(14)) {
    return DamagedTurn(id, row.number, "row");
  }
  return read;
}

absl::StatusOr<NumberedTurn> ReadTurn(const Statement& statement) {
  absl::StatusOr<NumberedTurn> read = ReadTurnLink(statement);
  if (!read.ok()) return read.status();
  TurnRow& row = read->row;
  row.request = statement.Bytes(15);
  row.result = statement.Bytes(16);
  if (BlobChecksum(row.request) != read->request_checksum) {
    return DamagedTurn(row.id.Bytes(), row.number, "request");
  }
  if (BlobChecksum(row.result) != read->result_checksum) {
    return DamagedTurn(row.id.Bytes(), row.number, "result");
  }
  return read;
}

BoundTurn::BoundTurn(Statement& statement, const NumberedTurn& turn) : id_(turn.row.id.Bytes()) {
  const TurnRow& row = turn.row;
  const int64_t request_checksum = BlobChecksum(row.request);
  const int64_t result_checksum = BlobChecksum(row.result);
  statement.BindBlob(0, id_);
  BindTurnNumber(statement, 1, row.parent);
  statement.Bind(2, static_cast<int64_t>(row.state));
  statement.Bind(3, row.epoch);
  statement.Bind(4, static_cast<int64_t>(row.kept_position));
  statement.Bind(5, static_cast<int64_t>(row.position));
  statement.Bind(6, Microseconds(row.start_time));
  BindTimeOrNever(statement, 7, row.end_time);
  statement.BindBlob(8, row.request_digest);
  statement.Bind(9, request_checksum);
  statement.Bind(10, result_checksum);
  statement.Bind(11, TurnChecksum(turn, request_checksum, result_checksum));
  statement.BindBlob(12, row.request);
  statement.BindBlob(13, row.result);
  statement.Bind(14, turn.session);
  BindLeftTime(statement, 15, turn.left_time);
  statement.Bind(16, row.number);
}

absl::Status WriteEnd(Database& database, const NumberedTurn& turn) {
  absl::StatusOr<StatementUse> update = database.Use(
      "UPDATE turns SET state = ?1, position = ?2, end_time = ?3, left_time = ?4, result = ?5,"
      " result_checksum = ?6, checksum = ?7 WHERE number = ?8");
  if (!update.ok()) return update.status();
  const TurnRow& row = turn.row;
  const int64_t result_checksum = BlobChecksum(row.result);
  (*update)->Bind(0, static_cast<int64_t>(row.state));
  (*update)->Bind(1, static_cast<int64_t>(row.position));
  BindTimeOrNever(**update, 2, row.end_time);
  BindLeftTime(**update, 3, turn.left_time);
  (*update)->BindBlob(4, row.result);
  (*update)->Bind(5, result_checksum);
  (*update)->Bind(6, TurnChecksum(turn, turn.request_checksum, result_checksum));
  (*update)->Bind(7, row.number);
  return database.Run(**update, "write the end of a turn");
}

absl::Status WriteLeftTime(Database& database, const NumberedTurn& turn) {
  absl::StatusOr<StatementUse> update =
      database.Use("UPDATE turns SET left_time = ?1, checksum = ?2 WHERE number = ?3");
  if (!update.ok()) return update.status();
  BindLeftTime(**update, 0, turn.left_time);
  (*update)->Bind(1, TurnChecksum(turn, turn.request_checksum, turn.result_checksum));
  (*update)->Bind(2, turn.row.number);
  return database.Run(**update, "write when a head left a turn");
}

absl::StatusOr<NumberedNote> ReadNote(const Statement& statement) {
  NumberedNote note;
  note.session = statement.Int(0);
  note.row.session.tenant = statement.Bytes(1);
  note.row.session.id = SessionId::FromBytes(statement.Bytes(2));
  note.row.key = statement.Bytes(3);
  note.row.time = TimeOf(statement.Int(4));
  note.row.value = statement.Bytes(5);
  if (NoteChecksum(note) == statement.Int(6)) return note;
  return absl::DataLossError(absl::StrCat("store: a note of session ",
                                          note.row.session.id.ToString(),
                                          " is damaged: its checksum differs"));
}

absl::Status WriteNote(Database& database, const NumberedNote& note) {
  absl::StatusOr<StatementUse> insert = database.Use(
      "INSERT INTO notes(session, tenant, key, time, value, checksum)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session, key) DO UPDATE SET"
      " time = excluded.time, value = excluded.value, checksum = excluded.checksum");
  if (!insert.ok()) return insert.status();
  (*insert)->Bind(0, note.session);
  (*insert)->BindText(1, note.row.session.tenant);
  (*insert)->BindBlob(2, note.row.key);
  (*insert)->Bind(3, Microseconds(note.row.time));
  (*insert)->BindBlob(4, note.row.value);
  (*insert)->Bind(5, NoteChecksum(note));
  return database.Run(**insert, "write a note");
}

absl::StatusOr<AliasRow> ReadAlias(const Statement& statement) {
  AliasRow row{statement.Bytes(0), statement.Bytes(1)};
  if (RowChecksum().Add(row.name).Add(row.arms).value() == statement.Int(2)) return row;
  return absl::DataLossError(absl::StrCat("store: the row of alias '", absl::CHexEscape(row.name),
                                          "' is damaged: its checksum differs"));
}

absl::Status WriteAlias(Database& database, const AliasRow& row) {
  absl::StatusOr<StatementUse> insert = database.Use(
      "INSERT INTO aliases(name, arms, checksum) VALUES (?1, ?2, ?3)"
      " ON CONFLICT (name) DO UPDATE SET arms = excluded.arms,"
      " checksum = excluded.checksum");
  if (!insert.ok()) return insert.status();
  (*insert)->BindText(0, row.name);
  (*insert)->BindBlob(1, row.arms);
  (*insert)->Bind(2, RowChecksum().Add(row.name).Add(row.arms).value());
  return database.Run(**insert, "write an alias");
}

}  // namespace longstream::store
