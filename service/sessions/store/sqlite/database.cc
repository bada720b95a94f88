// Calls of SQLite, and its error codes as statuses.
#include "service/sessions/store/sqlite/database.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace longstream::store {
namespace {

// The part of a statement that an error repeats: the tables of a new store take a page.
std::string Beginning(std::string_view sql) {
  constexpr size_t kMostBytes = 48;
  const std::string_view first = sql.substr(0, sql.find_first_of(";(\n"));
  if (first.size() == sql.size() && sql.size() <= kMostBytes) return std::string(sql);
  return absl::StrCat(std::string(first.substr(0, kMostBytes)), "...");
}

// https://www.sqlite.org/uri.html. After "file:", two slashes would begin the name of a machine.
std::string ImmutableUri(const std::string& path) {
  const std::string escaped = absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}});
  return absl::StrCat(absl::StartsWith(path, "/") ? "file://" : "file:", escaped, "?immutable=1");
}

}  // namespace

void SqliteStatement::Bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter + 1, value);
}

void SqliteStatement::BindText(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter + 1, text.empty() ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void SqliteStatement::BindBlob(int parameter, std::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), parameter + 1, bytes.empty() ? "" : bytes.data(),
                      bytes.size(), SQLITE_STATIC);
}

void SqliteStatement::BindNull(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter + 1);
}

Stepped SqliteStatement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return Stepped::kRow;
  return code == SQLITE_DONE ? Stepped::kDone : Stepped::kError;
}

void SqliteStatement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t SqliteStatement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::Bytes(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::Open(const std::string& path,
                                                                     const std::string& vfs) {
  return OpenWith(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::OpenToRead(
    const std::string& path) {
  return OpenReader(path, path, SQLITE_OPEN_READONLY);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::OpenAlone(const std::string& path) {
  return OpenReader(path, ImmutableUri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::OpenReader(const std::string& path,
                                                                           const std::string& name,
                                                                           int flags) {
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenWith(name, flags, "");
  if (!database.ok()) return database.status();
  // The statement reads the file, so that an error of the file is an error of this function.
  const absl::Status status = (*database)->Execute(
      "PRAGMA busy_timeout = 10000; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
      "SELECT count(*) FROM sqlite_schema");
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(status.message(), ": ", path));
  return database;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> SqliteDatabase::OpenWith(const std::string& path,
                                                                         int flags,
                                                                         const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                      vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(handle));
  if (code != SQLITE_OK) return database->ErrorOf(code, absl::StrCat("open ", path));
  return database;
}

absl::Status SqliteDatabase::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : ErrorOf(code, Beginning(sql));
}

absl::StatusOr<StatementUse> SqliteDatabase::Use(const char* sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return StatementUse(&found->second);
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return ErrorOf(code, Beginning(sql));
  return StatementUse(&statements_.try_emplace(sql, statement).first->second);
}

absl::Status SqliteDatabase::Run(Statement& statement, absl::string_view what) {
  return statement.Step() == Stepped::kDone ? absl::OkStatus() : Error(what);
}

absl::StatusOr<bool> SqliteDatabase::HasTable(std::string_view name) {
  absl::StatusOr<StatementUse> tables = Use("SELECT count(*) FROM sqlite_schema WHERE name = ?1");
  if (!tables.ok()) return tables.status();
  (*tables)->BindText(0, name);
  if ((*tables)->Step() != Stepped::kRow) return Error("read the list of tables");
  return (*tables)->Int(0) != 0;
}

const char* SqliteDatabase::NextNumberQuery(std::string_view table) {
  return table == "turns"
             ? "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'turns'), 0) + 1"
             : "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'sessions'), 0) + 1";
}

absl::Status SqliteDatabase::MakeWhole(bool /*fails_late*/,
                                       absl::FunctionRef<absl::Status()> change) {
  if (absl::Status status = Execute("SAVEPOINT change"); !status.ok()) return status;
  absl::Status status = change();
  // SQLite may have ended the whole transaction because of an error. Then there is no savepoint,
  // and the caller notices.
  if (!status.ok()) Execute("ROLLBACK TO change").IgnoreError();
  Execute("RELEASE change").IgnoreError();
  return status;
}

absl::Status SqliteDatabase::CheckItself(size_t limit, std::vector<std::string>* faults) {
  absl::StatusOr<StatementUse> pages = Use("PRAGMA integrity_check");
  if (!pages.ok()) return pages.status();
  Stepped code = Stepped::kDone;
  while (faults->size() < limit && (code = (*pages)->Step()) == Stepped::kRow) {
    if (const std::string text = (*pages)->Bytes(0); text != "ok") {
      faults->push_back("store: " + text);
    }
  }
  if (code == Stepped::kError) return Error("PRAGMA integrity_check");
  absl::StatusOr<StatementUse> links = Use("PRAGMA foreign_key_check");
  if (!links.ok()) return links.status();
  while (faults->size() < limit && (code = (*links)->Step()) == Stepped::kRow) {
    faults->push_back(absl::StrCat("store: row ", (*links)->Int(1), " of ", (*links)->Bytes(0),
                                   " names a row of ", (*links)->Bytes(2), " that does not exist"));
  }
  return code == Stepped::kError ? Error("PRAGMA foreign_key_check") : absl::OkStatus();
}

absl::Status SqliteDatabase::Error(absl::string_view what) const {
  return ErrorOf(sqlite3_extended_errcode(handle_.get()), what);
}

absl::Status SqliteDatabase::ErrorOf(int code, absl::string_view what) const {
  const std::string message = absl::StrCat(
      "store: ", what, ": ", handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_.get()),
      " (SQLite's code ", code, ")");
  if (code == SQLITE_CONSTRAINT_UNIQUE) return absl::AlreadyExistsError(message);
  // The store numbers its rows, so a number that is taken means that the last number is damaged.
  if (code == SQLITE_CONSTRAINT_PRIMARYKEY) return absl::DataLossError(message);
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace longstream::store
