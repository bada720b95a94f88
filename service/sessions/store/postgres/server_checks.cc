// One query for all settings.
#include "service/sessions/store/postgres/server_checks.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

// The time is a number, because its text depends on TimeZone.
constexpr const char* kQuery =
    "SELECT current_setting('server_version_num'), current_setting('server_encoding'),"
    " current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),"
    " current_setting('transaction_read_only'), extract(epoch FROM pg_postmaster_start_time()),"
    " (SELECT system_identifier FROM pg_control_system()),"
    " CASE WHEN pg_is_in_recovery() THEN '' ELSE"
    "  left(pg_walfile_name(pg_current_wal_lsn()), 8) END";

absl::Status Refused(absl::string_view setting, absl::string_view value, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("store: PostgreSQL's ", setting, " is '", value, "': ", why));
}

}  // namespace

absl::StatusOr<ServerIdentity> CheckServer(Connection& connection, bool require_standby,
                                           MonotonicTime deadline) {
  const absl::StatusOr<PgResult> row =
      connection.Query(kQuery, {}, deadline, "read the server's settings");
  if (!row.ok()) return row.status();
  const auto text = [&](int column) -> std::string { return PQgetvalue(row->get(), 0, column); };
  int version = 0;
  if (!absl::SimpleAtoi(text(0), &version) || version < 130000) {
    return Refused("server_version_num", text(0), "version 13 or a later one is needed");
  }
  if (text(1) != "UTF8") {
    return Refused("server_encoding", text(1), "make the database with ENCODING 'UTF8'");
  }
  for (const int column : {2, 3}) {
    if (text(column) != "on") {
      return Refused(column == 2 ? "fsync" : "full_page_writes", text(column),
                     "a crash could lose or damage the store; set it to on");
    }
  }
  const std::string commit = text(4);
  if (commit != "on" && commit != "remote_apply") {
    return Refused("synchronous_commit", commit,
                   "a crash or a failover could lose acknowledged turns; set it to on or "
                   "remote_apply for this user and database");
  }
  if (require_standby && text(5).empty()) {
    return Refused("synchronous_standby_names", "",
                   "store.require_standby asks for a synchronous standby");
  }
  if (text(6) != "off") {
    return absl::UnavailableError(
        "store: the PostgreSQL server takes no changes: it is a standby or read-only");
  }
  return ServerIdentity{.system_identifier = text(8), .timeline = text(9), .start_time = text(7)};
}

}  // namespace longstream::store
