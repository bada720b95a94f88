// The queries that changes make for rows, and the announcement of those of many changes.
#include "service/sessions/store/sql/find_rows.h"

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

absl::StatusOr<StatementUse> UseForTurn(Database& database, const char* sql, TurnNumber number) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (select.ok()) (*select)->Bind(0, number);
  return select;
}

absl::StatusOr<NumberedTurn> SelectTurn(
    Database& database, const char* sql, TurnNumber number,
    absl::StatusOr<NumberedTurn> (*read)(const Statement& statement)) {
  absl::StatusOr<StatementUse> select = UseForTurn(database, sql, number);
  if (!select.ok()) return select.status();
  const Stepped code = (*select)->Step();
  if (code == Stepped::kRow) return read(**select);
  if (code != Stepped::kDone) return database.Error("read a turn");
  return absl::NotFoundError(absl::StrCat("store: there is no turn ", number));
}

constexpr const char* kSelectTurnLink =
    "SELECT " LONGSTREAM_TURN_LINK_COLUMNS
    " FROM turns t JOIN sessions s ON s.number = t.session WHERE t.number = ?1"
    " /*FOR NO KEY UPDATE OF t*/";

// The query for the row of an open session.
class SessionQuery {
 public:
  SessionQuery(Database& database, const SessionKey& key)
      : id_(key.id.Bytes()),
        select_(database.Use("SELECT " LONGSTREAM_SESSION_COLUMNS
                             " FROM sessions WHERE tenant = ?1 AND id = ?2 AND close_time IS NULL"
                             " /*FOR NO KEY UPDATE*/")) {
    if (!select_.ok()) return;
    (*select_)->BindText(0, key.tenant);
    (*select_)->BindBlob(1, id_);
  }
  absl::StatusOr<StatementUse>& select() { return select_; }

 private:
  const std::string id_;  // the statement points to it
  absl::StatusOr<StatementUse> select_;
};

// The query whether an open session has a turn with this id.
class TurnIdQuery {
 public:
  TurnIdQuery(Database& database, const SessionKey& session, const TurnId& id)
      : session_(session.id.Bytes()),
        id_(id.Bytes()),
        select_(database.Use(
            "SELECT 1 FROM sessions s JOIN turns t ON t.session = s.number"
            " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL AND t.id = ?3")) {
    if (!select_.ok()) return;
    (*select_)->BindText(0, session.tenant);
    (*select_)->BindBlob(1, session_);
    (*select_)->BindBlob(2, id_);
  }
  absl::StatusOr<StatementUse>& select() { return select_; }

 private:
  const std::string session_, id_;  // the statement points to them
  absl::StatusOr<StatementUse> select_;
};

// The query that adds up the notes of an open session.
class NoteSumsQuery {
 public:
  NoteSumsQuery(Database& database, const SessionKey& session)
      : id_(session.id.Bytes()),
        select_(database.Use(
            "SELECT count(*), coalesce(sum(length(n.value)), 0), coalesce(max(n.time), 0)"
            " FROM sessions s JOIN notes n ON n.session = s.number"
            " WHERE s.tenant = ?1 AND s.id = ?2 AND s.close_time IS NULL")) {
    if (!select_.ok()) return;
    (*select_)->BindText(0, session.tenant);
    (*select_)->BindBlob(1, id_);
  }
  absl::StatusOr<StatementUse>& select() { return select_; }

 private:
  const std::string id_;  // the statement points to it
  absl::StatusOr<StatementUse> select_;
};

// If there is an error, the query itself has it, too.
void Announce(absl::StatusOr<StatementUse> select) {
  if (select.ok()) (*select)->Announce();
}

void AnnounceSession(Database& database, const SessionKey& key) {
  SessionQuery query(database, key);
  Announce(std::move(query.select()));
}

void AnnounceTurn(Database& database, TurnNumber number) {
  if (number != kNoTurn) Announce(UseForTurn(database, kSelectTurnLink, number));
}

void AnnounceNumber(Database& database, std::string_view table) {
  Announce(database.Use(database.NextNumberQuery(table)));
}

// The session and the turn whose rows a change reads; nullptr and kNoTurn: none.
struct Touched {
  const SessionKey* session = nullptr;
  TurnNumber turn = kNoTurn;
};

Touched TouchedBy(const Change& change) {
  const auto touched = [](const auto& one) -> Touched {
    using C = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<C, OpenSession>) {
      return {&one.row.key, one.row.head};
    } else if constexpr (std::is_same_v<C, ImportSession>) {
      return {&one.row.key, kNoTurn};
    } else if constexpr (std::is_same_v<C, CommitTurn> || std::is_same_v<C, AbandonTurn>) {
      return {&one.fence.key, one.turn};
    } else if constexpr (std::is_same_v<C, MoveHead>) {
      return {&one.fence.key, one.head};
    } else if constexpr (std::is_same_v<C, StartTurn> || std::is_same_v<C, ChangeOwner>) {
      return {&one.fence.key, kNoTurn};
    } else if constexpr (std::is_same_v<C, CloseSession>) {
      return {&one.key, kNoTurn};
    } else if constexpr (std::is_same_v<C, PutNotes>) {
      return {&one.session, kNoTurn};
    } else {
      return {};
    }
  };
  return std::visit(touched, change);
}

// The numbers that a change draws.
void AnnounceNumbers(Database& database, const Change& change) {
  size_t num_sessions = 0, num_turns = std::holds_alternative<StartTurn>(change) ? 1 : 0;
  if (std::holds_alternative<OpenSession>(change)) num_sessions = 1;
  if (const auto* import = std::get_if<ImportSession>(&change)) {
    num_sessions = 1;
    num_turns = import->turns.size();
  }
  for (size_t i = 0; i < num_sessions; ++i) AnnounceNumber(database, "sessions");
  for (size_t i = 0; i < num_turns; ++i) AnnounceNumber(database, "turns");
}

}  // namespace

absl::StatusOr<int64_t> NextNumber(Database& database, std::string_view table) {
  absl::StatusOr<StatementUse> select = database.Use(database.NextNumberQuery(table));
  if (!select.ok()) return select.status();
  if ((*select)->Step() == Stepped::kRow) return (*select)->Int(0);
  return database.Error("draw a number");
}

absl::StatusOr<NoteSums> FindNoteSums(Database& database, const SessionKey& session) {
  NoteSumsQuery query(database, session);
  if (!query.select().ok()) return query.select().status();
  Statement& select = **query.select();
  if (select.Step() != Stepped::kRow) return database.Error("add up the notes of a session");
  const NoteSums sums{select.Int(0), select.Int(1), select.Int(2)};
  return select.Step() == Stepped::kDone ? absl::StatusOr<NoteSums>(sums)
                                         : database.Error("add up the notes of a session");
}

absl::Status HasTurnError(const SessionKey& session, const TurnId& id) {
  return absl::AlreadyExistsError(
      absl::StrCat("store: session ", session.id.ToString(), " has a turn ", id.ToString()));
}

absl::Status CheckTurnIsNew(Database& database, const SessionKey& session, const TurnId& id) {
  TurnIdQuery query(database, session, id);
  if (!query.select().ok()) return query.select().status();
  const Stepped code = (*query.select())->Step();
  if (code == Stepped::kRow) return HasTurnError(session, id);
  return code == Stepped::kDone ? absl::OkStatus() : database.Error("look for a turn");
}

size_t AnnounceReads(Database& database, absl::Span<const Change> changes) {
  std::set<SessionKey> sessions;
  std::set<TurnNumber> turns;
  size_t num = 0;
  for (; num < changes.size(); ++num) {
    const auto [session, turn] = TouchedBy(changes[num]);
    if ((session != nullptr && sessions.contains(*session)) || turns.contains(turn)) break;
    if (session != nullptr) sessions.insert(*session);
    if (turn != kNoTurn) turns.insert(turn);
  }
  // Rows are locked in the order of their keys, first all sessions. So two servers' transactions
  // that take the same sessions do not wait for each other.
  for (const SessionKey& session : sessions) AnnounceSession(database, session);
  for (const TurnNumber turn : turns) AnnounceTurn(database, turn);
  for (const Change& change : changes.subspan(0, num)) {
    if (const auto* start = std::get_if<StartTurn>(&change)) {
      TurnIdQuery query(database, start->fence.key, start->turn.id);
      Announce(std::move(query.select()));
    } else if (const auto* put = std::get_if<PutNotes>(&change)) {
      NoteSumsQuery query(database, put->session);
      Announce(std::move(query.select()));
    }
  }
  // All rows are locked before a number is drawn, so a turn has a greater number than its parent.
  for (size_t i = 0; i < num; ++i) AnnounceNumbers(database, changes[i]);
  return num;
}

absl::StatusOr<NumberedSession> FindSession(Database& database, const SessionKey& key) {
  SessionQuery query(database, key);
  if (!query.select().ok()) return query.select().status();
  Statement& select = **query.select();
  const Stepped code = select.Step();
  if (code == Stepped::kRow) return ReadSession(select);
  if (code != Stepped::kDone) return database.Error("read a session");
  return absl::NotFoundError(absl::StrCat("store: there is no session ", key.id.ToString()));
}

absl::StatusOr<NumberedTurn> FindTurn(Database& database, TurnNumber number) {
  return SelectTurn(database,
                    "SELECT " LONGSTREAM_TURN_COLUMNS
                    " FROM turns t JOIN sessions s ON s.number = t.session WHERE t.number = ?1"
                    " /*FOR NO KEY UPDATE OF t*/",
                    number, ReadTurn);
}

absl::StatusOr<NumberedTurn> FindTurnLink(Database& database, TurnNumber number) {
  return SelectTurn(database, kSelectTurnLink, number, ReadTurnLink);
}

absl::Status WriteTurn(Database& database, const NumberedTurn& turn) {
  absl::StatusOr<StatementUse> update = database.Use(
      "UPDATE turns SET id = ?1, parent = ?2, state = ?3, epoch = ?4, kept_position = ?5,"
      " position = ?6, start_time = ?7, end_time = ?8, request_digest = ?9, request_checksum = ?10,"
      " result_checksum = ?11, checksum = ?12, request = ?13, result = ?14, session = ?15,"
      " left_time = ?16 WHERE number = ?17");
  if (!update.ok()) return update.status();
  const BoundTurn bound(**update, turn);
  return database.Run(**update, "write a turn");
}

}  // namespace longstream::store
