// Sockets that do not block, with poll and a deadline around them.
#include "service/sessions/store/postgres/connection.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace longstream::store {
namespace {

std::string_view Field(const PGresult* result, int field) {
  const char* text = PQresultErrorField(result, field);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

void NoteWarning(void* warned, const PGresult* notice) {
  if (Field(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING") *static_cast<bool*>(warned) = true;
}

// One line.
std::string OneLine(std::string_view text) {
  const absl::string_view stripped =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return absl::StrReplaceAll(stripped, {{"\n\t", " "}, {"\n", "; "}});
}

std::string Whole(absl::Duration duration, absl::Duration unit, int64_t least) {
  return std::to_string(
      std::max(least, absl::ToInt64Nanoseconds(duration) / absl::ToInt64Nanoseconds(unit)));
}

// A server that does not even acknowledge packets is gone, however long a read may take.
constexpr absl::Duration kMaxUnacknowledged = absl::Minutes(1);

// The settings of every connection. A transaction whose client is lost or stopped ends soon, so
// that it does not keep its locks: before the transactions that wait for them give up.
std::string SettingsOf(const PostgresTarget& target) {
  const std::string timeout = Whole(target.timeout, absl::Milliseconds(1), 100);
  return absl::StrCat(
      "SET search_path = longstream; SET statement_timeout = ", timeout,
      "; SET lock_timeout = ", timeout, "; SET idle_in_transaction_session_timeout = ",
      Whole(target.timeout / 2, absl::Milliseconds(1), 100), "; SET tcp_user_timeout = ",
      Whole(std::min(target.timeout, kMaxUnacknowledged), absl::Milliseconds(1), 100),
      "; SET tcp_keepalives_idle = 10",
      "; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3");
}

}  // namespace

std::string SqlState(const PGresult* result) {
  return std::string(Field(result, PG_DIAG_SQLSTATE));
}

std::string SeverityOf(const PGresult* result) {
  return std::string(Field(result, PG_DIAG_SEVERITY_NONLOCALIZED));
}

bool NeedsNewConnection(std::string_view state) {
  // 57P: the server stops. 25006: it is a standby now. 25P03, 25P04: it has ended a transaction
  // that was idle or took too long, with its connection. 08: the connection.
  return state.empty() || state.substr(0, 3) == "57P" || state.substr(0, 2) == "08" ||
         state == "25006" || state == "25P03" || state == "25P04";
}

bool IsTransient(std::string_view state) {
  // 40: ended because of other transactions. 55P03, 57014: waited too long. 53300: too many
  // connections. 23505: another server has added the row meanwhile.
  return NeedsNewConnection(state) || state.substr(0, 2) == "40" || state == "55P03" ||
         state == "57014" || state == "53300" || state == "23505";
}

absl::Status ErrorOfResult(const PGresult* result, absl::string_view what) {
  const std::string state = SqlState(result);
  const std::string message =
      absl::StrCat("store: ", what, ": ", OneLine(Field(result, PG_DIAG_MESSAGE_PRIMARY)),
                   " (PostgreSQL's code ", state, ")");
  const std::string_view kind = std::string_view(state).substr(0, 2);
  if (state == "23505") return absl::AlreadyExistsError(message);
  if (state == "53100" || state == "53200") return absl::ResourceExhaustedError(message);
  if (kind == "XX" && state != "XX000") return absl::DataLossError(message);
  if (kind == "23") return absl::DataLossError(message);
  // 22: a value. 54: a limit of PostgreSQL, such as the size of a row.
  if (kind == "22" || kind == "54") return absl::InvalidArgumentError(message);
  return absl::UnavailableError(message);
}

std::string HexOf(const std::string& bytes) {
  return absl::StrCat("\\x", absl::BytesToHexString(bytes));
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const PostgresTarget& target) {
  const absl::StatusOr<std::vector<PostgresParameters>> hosts = HostsOf(target.url);
  if (!hosts.ok()) return hosts.status();
  std::vector<std::string> reasons;
  for (const PostgresParameters& host : *hosts) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = OpenHost(target, host);
    if (connection.ok()) return connection;
    reasons.emplace_back(connection.status().message());
  }
  return absl::UnavailableError(absl::StrJoin(reasons, "; "));
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::OpenHost(const PostgresTarget& target,
                                                                 const PostgresParameters& host) {
  const std::string milliseconds =
      Whole(std::min(target.timeout, kMaxUnacknowledged), absl::Milliseconds(1), 1000);
  PostgresParameters parameters = {
      {"connect_timeout", Whole(std::min(target.timeout, absl::Seconds(10)), absl::Seconds(1), 2)},
      {"keepalives_idle", "10"},
      {"keepalives_interval", "5"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", milliseconds},
      {"target_session_attrs", "read-write"}};
  // The URL may set what comes before it, and not what comes behind it.
  parameters.insert(parameters.end(), host.begin(), host.end());
  parameters.emplace_back("application_name", target.application_name);
  parameters.emplace_back("client_encoding", "UTF8");
  if (!target.password.empty()) parameters.emplace_back("password", target.password);
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : parameters) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  keys.push_back(nullptr);
  values.push_back(nullptr);
  PGconn* const handle = PQconnectdbParams(keys.data(), values.data(), /*expand_dbname=*/0);
  std::unique_ptr<Connection> connection(new Connection(handle));
  if (PQstatus(handle) != CONNECTION_OK) return connection->LostError("connect");
  PQsetNoticeReceiver(handle, NoteWarning, &connection->warned_);
  PQsetnonblocking(handle, 1);
  const MonotonicTime deadline = MonotonicTime::Now() + target.timeout;
  absl::Status status = connection->Execute(SettingsOf(target), deadline, "set up the session");
  if (!status.ok()) return status;
  return connection;
}

bool Connection::IsStale() {
  if (PQstatus(handle_) != CONNECTION_OK) return true;
  pollfd socket = {PQsocket(handle_), POLLIN, 0};
  if (poll(&socket, 1, 0) <= 0) return false;
  // The server says why it ends, or has closed the connection.
  if (PQconsumeInput(handle_) == 0) return true;
  socket.revents = 0;
  return poll(&socket, 1, 0) > 0 || PQstatus(handle_) != CONNECTION_OK;
}

absl::Status Connection::Wait(bool to_write, MonotonicTime deadline, absl::string_view what) {
  const short events = to_write ? POLLIN | POLLOUT : POLLIN;
  while (true) {
    const absl::Duration left = deadline - MonotonicTime::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(
          absl::StrCat("store: ", what, ": PostgreSQL does not answer in time"));
    }
    pollfd socket = {PQsocket(handle_), events, 0};
    if (socket.fd < 0) return LostError(what);
    const int64_t milliseconds = absl::ToInt64Milliseconds(left) + 1;
    const int ready = poll(&socket, 1, static_cast<int>(std::min<int64_t>(milliseconds, 60'000)));
    if (ready < 0 && errno != EINTR) return LostError(what);
    if (ready > 0) return absl::OkStatus();
  }
}

absl::Status Connection::Flush(MonotonicTime deadline, absl::string_view what) {
  while (true) {
    const int left = PQflush(handle_);
    if (left == 0) return absl::OkStatus();
    if (left < 0) return LostError(what);
    if (absl::Status status = Wait(/*to_write=*/true, deadline, what); !status.ok()) return status;
    // The server may have to get rid of results before it reads on.
    if (PQconsumeInput(handle_) == 0) return LostError(what);
  }
}

absl::StatusOr<PgResult> Connection::Next(MonotonicTime deadline, absl::string_view what) {
  if (absl::Status status = Flush(deadline, what); !status.ok()) return status;
  while (PQisBusy(handle_) == 1) {
    if (absl::Status status = Wait(/*to_write=*/false, deadline, what); !status.ok()) return status;
    if (PQconsumeInput(handle_) == 0) return LostError(what);
  }
  return PgResult(PQgetResult(handle_));
}

absl::StatusOr<PgResult> Connection::Query(const std::string& sql,
                                           absl::Span<const std::string> parameters,
                                           MonotonicTime deadline, absl::string_view what) {
  std::vector<const char*> values;
  for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
  const int sent =
      parameters.empty()
          ? PQsendQuery(handle_, sql.c_str())
          : PQsendQueryParams(handle_, sql.c_str(), static_cast<int>(values.size()), nullptr,
                              values.data(), nullptr, nullptr, /*resultFormat=*/0);
  if (sent == 0) return LostError(what);
  PgResult last;
  absl::Status failed;
  while (true) {
    absl::StatusOr<PgResult> result = Next(deadline, what);
    if (!result.ok()) return failed.ok() ? result.status() : failed;
    if (*result == nullptr) break;
    const ExecStatusType status = PQresultStatus(result->get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && failed.ok()) {
      failed =
          SqlState(result->get()).empty() ? LostError(what) : ErrorOfResult(result->get(), what);
    }
    last = *std::move(result);
  }
  if (!failed.ok()) return failed;
  return last;
}

absl::Status Connection::Execute(const std::string& sql, MonotonicTime deadline,
                                 absl::string_view what) {
  return Query(sql, {}, deadline, what).status();
}

absl::Status Connection::LostError(absl::string_view what) const {
  return absl::UnavailableError(
      absl::StrCat("store: ", what, ": ", OneLine(PQerrorMessage(handle_))));
}

}  // namespace longstream::store
