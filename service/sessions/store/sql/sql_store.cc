// Reads, and the collection of turns.
#include "service/sessions/store/sql/sql_store.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/sessions/store/sql/check_log.h"
#include "service/sessions/store/sql/collect.h"
#include "service/sessions/store/sql/find_rows.h"
#include "service/sessions/store/sql/snapshots.h"
#include "service/sessions/store/sql/turn_path.h"

namespace longstream::store {
namespace {

// Turns that one query of a path reads.
constexpr int64_t kLongestPage = 256;

// Runs a query that selects sessions, and that has the parameter `limit_parameter` for the number
// of its rows. Leaves out damaged rows, and reads others in their place.
absl::StatusOr<std::vector<SessionRow>> ReadSessions(Database& database, const char* sql,
                                                     absl::FunctionRef<void(Statement&)> bind,
                                                     int limit_parameter, size_t limit) {
  size_t damaged = 0;
  while (true) {
    const size_t wanted = limit + damaged;
    absl::StatusOr<StatementUse> select = database.Use(sql);
    if (!select.ok()) return select.status();
    bind(**select);
    (*select)->Bind(limit_parameter, static_cast<int64_t>(std::min<size_t>(wanted, INT64_MAX)));
    std::vector<SessionRow> rows;
    damaged = 0;
    Stepped code;
    while ((code = (*select)->Step()) == Stepped::kRow) {
      absl::StatusOr<NumberedSession> session = ReadSession(**select);
      if (session.ok()) {
        rows.push_back(std::move(session->row));
      } else {
        ++damaged;
      }
    }
    if (code != Stepped::kDone) return database.Error("read sessions");
    const bool is_all = rows.size() + damaged < wanted;
    if (is_all || rows.size() >= limit) {
      if (rows.size() > limit) rows.resize(limit);
      return rows;
    }
  }
}

// How many damaged notes with one key are passed over.
constexpr int64_t kMostDamagedNotes = 16;

// The note with this key that was written last, of the last `limit` ones. NOT_FOUND: there is none.
// DATA_LOSS: all of them are damaged.
absl::StatusOr<NumberedNote> FindNote(Database& database, const std::string& tenant,
                                      const std::string& key, int64_t limit) {
  absl::StatusOr<StatementUse> select =
      database.Use("SELECT " LONGSTREAM_NOTE_COLUMNS
                   " FROM notes n JOIN sessions s ON s.number = n.session"
                   " WHERE n.tenant = ?1 AND n.key = ?2 AND s.close_time IS NULL"
                   " ORDER BY n.time DESC, n.session DESC LIMIT ?3");
  if (!select.ok()) return select.status();
  (*select)->BindText(0, tenant);
  (*select)->BindBlob(1, key);
  (*select)->Bind(2, limit);
  absl::StatusOr<NumberedNote> note = absl::NotFoundError("");
  Stepped code = Stepped::kRow;
  // A result that is not read to its end costs PostgreSQL's driver the connection.
  while ((code = (*select)->Step()) == Stepped::kRow) {
    absl::StatusOr<NumberedNote> read = ReadNote(**select);
    if (!note.ok()) note = std::move(read);
  }
  if (code != Stepped::kDone) return database.Error("look for a note");
  return note;
}

}  // namespace

void SqlStore::ForgetRows(absl::Span<const Change> changes) {
  for (const Change& change : changes) {
    if (const auto* add = std::get_if<AddSnapshot>(&change)) ForgetWrittenRows(*add);
  }
}

absl::StatusOr<SessionRow> SqlStore::Session(const SessionKey& key) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NumberedSession> session = FindSession(*reader, key);
  if (!session.ok()) return session.status();
  return std::move(session->row);
}

absl::StatusOr<std::vector<SessionRow>> SqlStore::Sessions(const std::string& tenant,
                                                           const std::optional<SessionId>& after,
                                                           size_t limit, const std::string& model) {
  const ReaderPool::Reader reader = readers_.Take();
  const std::string id = after ? after->Bytes() : std::string();
  const auto bind = [&](Statement& select) {
    select.BindText(0, tenant);
    select.BindBlob(1, id);
    select.BindText(2, model);
  };
  return ReadSessions(*reader,
                      "SELECT " LONGSTREAM_SESSION_COLUMNS
                      " FROM sessions WHERE tenant = ?1 AND id > ?2 AND close_time IS NULL"
                      " AND (model = ?3 OR ?3 = '') ORDER BY id LIMIT ?4",
                      bind, 3, limit);
}

absl::StatusOr<std::map<std::string, uint64_t>> SqlStore::CountSessions() {
  const ReaderPool::Reader reader = readers_.Take();
  // Reads the index open_sessions alone.
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT tenant, count(*) FROM sessions WHERE close_time IS NULL GROUP BY tenant");
  if (!select.ok()) return select.status();
  std::map<std::string, uint64_t> counts;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    counts[(*select)->Bytes(0)] = static_cast<uint64_t>((*select)->Int(1));
  }
  if (code != Stepped::kDone) return reader->Error("count the sessions");
  return counts;
}

absl::StatusOr<std::vector<SessionStore::OwnedSessions>> SqlStore::CountOwnedSessions() {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use(
      "SELECT model, owner, count(*) FROM sessions WHERE close_time IS NULL GROUP BY model, owner");
  if (!select.ok()) return select.status();
  std::vector<OwnedSessions> counts;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    counts.push_back(
        {(*select)->Bytes(0), (*select)->Bytes(1), static_cast<uint64_t>((*select)->Int(2))});
  }
  if (code != Stepped::kDone) return reader->Error("count the sessions of each model");
  return counts;
}

absl::StatusOr<SessionStore::FoundNotes> SqlStore::Notes(const std::string& tenant,
                                                         const std::vector<std::string>& keys,
                                                         uint64_t most_bytes) {
  const ReaderPool::Reader reader = readers_.Take();
  FoundNotes found;
  uint64_t bytes = 0;
  for (const std::string& key : keys) {
    // A damaged note is as good as none, and the one before it counts; Check reports it.
    absl::StatusOr<NumberedNote> note = FindNote(*reader, tenant, key, /*limit=*/1);
    if (absl::IsDataLoss(note.status())) note = FindNote(*reader, tenant, key, kMostDamagedNotes);
    const bool is_none = absl::IsNotFound(note.status()) || absl::IsDataLoss(note.status());
    if (!note.ok() && !is_none) return note.status();
    if (note.ok()) {
      bytes += note->row.value.size();
      if (bytes > most_bytes && !found.notes.empty()) return found;
      found.notes.push_back(std::move(note->row));
    }
    ++found.keys;
  }
  return found;
}

absl::StatusOr<std::vector<SessionRow>> SqlStore::Expired(absl::Time now, size_t limit) {
  const ReaderPool::Reader reader = readers_.Take();
  return ReadSessions(
      *reader,
      "SELECT " LONGSTREAM_SESSION_COLUMNS
      " FROM sessions WHERE close_time IS NULL AND delete_time IS NOT NULL AND delete_time <= ?1"
      " ORDER BY delete_time LIMIT ?2",
      [&](Statement& select) { select.Bind(0, Microseconds(now)); }, 1, limit);
}

absl::StatusOr<TurnRow> SqlStore::Turn(const SessionKey& session, const TurnId& id) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT " LONGSTREAM_TURN_COLUMNS
                  " FROM sessions s JOIN turns t ON t.session = s.number"
                  " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL AND t.id = ?3");
  if (!select.ok()) return select.status();
  const std::string session_id = session.id.Bytes(), turn_id = id.Bytes();
  (*select)->BindText(0, session.tenant);
  (*select)->BindBlob(1, session_id);
  (*select)->BindBlob(2, turn_id);
  const Stepped code = (*select)->Step();
  if (code == Stepped::kDone) {
    return absl::NotFoundError(
        absl::StrCat("store: session ", session.id.ToString(), " has no turn ", id.ToString()));
  }
  if (code != Stepped::kRow) return reader->Error("read a turn");
  absl::StatusOr<NumberedTurn> turn = ReadTurn(**select);
  if (!turn.ok()) return turn.status();
  return std::move(turn->row);
}

absl::StatusOr<TurnRow> SqlStore::Turn(TurnNumber number) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<NumberedTurn> turn = FindTurn(*reader, number);
  if (!turn.ok()) return turn.status();
  return std::move(turn->row);
}

absl::StatusOr<std::vector<TurnNumber>> SqlStore::TurnNumbers(const SessionKey& session,
                                                              TurnNumber after, size_t limit) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use(
      "SELECT t.number FROM sessions s JOIN turns t ON t.session = s.number"
      " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL AND t.number > ?3"
      " ORDER BY t.number LIMIT ?4");
  if (!select.ok()) return select.status();
  const std::string session_id = session.id.Bytes();
  (*select)->BindText(0, session.tenant);
  (*select)->BindBlob(1, session_id);
  (*select)->Bind(2, after);
  (*select)->Bind(3, static_cast<int64_t>(std::min<size_t>(limit, INT64_MAX)));
  std::vector<TurnNumber> numbers;
  Stepped code;
  while ((code = (*select)->Step()) == Stepped::kRow) numbers.push_back((*select)->Int(0));
  if (code != Stepped::kDone) return reader->Error("read the numbers of turns");
  return numbers;
}

absl::Status SqlStore::VisitPath(TurnNumber number,
                                 const std::function<bool(const TurnRow&)>& visit) {
  return Visit(number, TurnContents::kRead, visit);
}

absl::Status SqlStore::VisitLinks(TurnNumber number,
                                  const std::function<bool(const TurnRow&)>& visit) {
  return Visit(number, TurnContents::kLeaveOut, visit);
}

// Often one turn is enough. A path of 200 turns takes three queries.
absl::Status SqlStore::Visit(TurnNumber number, TurnContents contents,
                             const std::function<bool(const TurnRow&)>& visit) {
  const auto read = [&](TurnNumber first, TurnContents what, int64_t limit) {
    const ReaderPool::Reader reader = readers_.Take();
    return ReadTurnPage(*reader, first, what, limit);
  };
  const TurnNumber begin = number;
  for (int64_t limit = 1; number != kNoTurn; limit = std::min(16 * limit, kLongestPage)) {
    const TurnPage page = read(number, contents, limit);
    for (const TurnRow& turn : page.turns) {
      if (turn.state == TurnState::kCollected) {
        return absl::NotFoundError(
            absl::StrCat("store: turn ", turn.number, " has been collected"));
      }
      // A parent is older than its children, so a damaged link cannot make a circle.
      if (turn.parent >= turn.number) {
        return absl::DataLossError(absl::StrCat("store: turn ", turn.number, " has the parent ",
                                                turn.parent, ", which is not older"));
      }
      if (!visit(turn)) return absl::OkStatus();
      number = turn.parent;
    }
    if (absl::IsNotFound(page.error) && number != begin) {
      // Turns are collected from the youngest on, so the first turn tells whether this one was.
      const TurnPage first = read(begin, TurnContents::kLeaveOut, 1);
      if (absl::IsNotFound(first.error) ||
          (!first.turns.empty() && first.turns[0].state == TurnState::kCollected)) {
        return absl::NotFoundError(absl::StrCat("store: turn ", begin, " has been collected"));
      }
      return absl::DataLossError(page.error.message());
    }
    if (!page.error.ok()) return page.error;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> SqlStore::CollectSlice(absl::Time before, TurnNumber first,
                                              TurnNumber last) {
  size_t collected = 0;
  absl::Status status = Transact([&](Database& database) {
    const absl::StatusOr<size_t> turns = CollectTurns(database, before, first, last);
    if (!turns.ok()) return turns.status();
    collected = *turns;
    return first <= 1 ? RemoveClosedSessions(database, before) : absl::OkStatus();
  });
  if (!status.ok()) return status;
  return collected;
}

absl::StatusOr<size_t> SqlStore::Collect(absl::Time before) {
  TurnNumber last = kNoTurn;
  {
    const ReaderPool::Reader reader = readers_.Take();
    const absl::StatusOr<TurnNumber> youngest = LastTurn(*reader);
    if (!youngest.ok()) return youngest.status();
    last = *youngest;
  }
  size_t collected = 0;
  do {
    const absl::StatusOr<size_t> of_slice = CollectSlice(before, last - collect_slice_ + 1, last);
    if (!of_slice.ok()) return of_slice.status();
    collected += *of_slice;
    last -= collect_slice_;
  } while (last > 0);
  if (absl::Status status = ReleaseAllForgotten(); !status.ok()) return status;
  return collected;
}

absl::StatusOr<std::string> SqlStore::Id() {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select = reader->Use("SELECT id FROM store");
  if (!select.ok()) return select.status();
  const Stepped code = (*select)->Step();
  if (code != Stepped::kRow) return reader->Error("read the store's id");
  return absl::BytesToHexString((*select)->Bytes(0));
}

absl::StatusOr<std::vector<std::string>> SqlStore::Check(size_t limit) {
  std::vector<std::string> faults;
  {
    const ReaderPool::Reader reader = readers_.Take();
    faults = CheckLog(*reader, limit);
  }
  const WithDatabase with_reader = [this](const std::function<void(Database&)>& read) {
    const ReaderPool::Reader reader = readers_.Take();
    read(*reader);
  };
  CheckSegmentFiles(with_reader, files_, absl::Now(), limit, &faults);
  return faults;
}

}  // namespace longstream::store
