// Calls of SQLite, and its error codes as statuses.
#include "service/sessions/store/sqlite/database.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream::store {
namespace {

// What an error repeats of a statement: the tables of a new store take a page.
std::string Beginning(std::string_view sql) {
  constexpr size_t kMostBytes = 48;
  const std::string_view first = sql.substr(0, sql.find_first_of(";(\n"));
  if (first.size() == sql.size() && sql.size() <= kMostBytes) return std::string(sql);
  return absl::StrCat(std::string(first.substr(0, kMostBytes)), "...");
}

}  // namespace

void Statement::Bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter + 1, value);
}

void Statement::BindText(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter + 1, text.empty() ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::BindBlob(int parameter, std::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), parameter + 1, bytes.empty() ? "" : bytes.data(),
                      bytes.size(), SQLITE_STATIC);
}

void Statement::BindNull(int parameter) { sqlite3_bind_null(statement_.get(), parameter + 1); }

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string Statement::Bytes(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes == nullptr ? std::string() : std::string(bytes, size);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const std::string& vfs) {
  return OpenWith(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenToRead(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Database>> database = OpenWith(path, SQLITE_OPEN_READONLY, "");
  if (!database.ok()) return database.status();
  // The statement reads the file, so that an error of the file is an error of this function.
  const absl::Status status = (*database)->Execute(
      "PRAGMA busy_timeout = 10000; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
      "SELECT count(*) FROM sqlite_schema");
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(status.message(), ": ", path));
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenWith(const std::string& path, int flags,
                                                             const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                      vfs.empty() ? nullptr : vfs.c_str());
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return database->Error(code, absl::StrCat("open ", path));
  return database;
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, Beginning(sql));
}

absl::StatusOr<StatementUse> Database::Use(const char* sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) return StatementUse(&found->second);
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code, Beginning(sql));
  return StatementUse(&statements_.emplace(sql, Statement(statement)).first->second);
}

absl::Status Database::Run(Statement& statement, absl::string_view what) const {
  const int code = statement.Step();
  return code == SQLITE_DONE ? absl::OkStatus() : Error(code, what);
}

absl::Status Database::Error(int code, absl::string_view what) const {
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
