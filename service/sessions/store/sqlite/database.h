// SQLite's handles with owners, and its error codes as statuses.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/sessions/store/sql/database.h"

namespace longstream::store {

// A prepared statement.
class SqliteStatement final : public Statement {
 public:
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

  void Bind(int parameter, int64_t value) override;
  void BindText(int parameter, std::string_view text) override;
  void BindBlob(int parameter, std::string_view bytes) override;
  void BindNull(int parameter) override;
  Stepped Step() override;
  void Reset() override;
  bool IsNull(int column) const override;
  int64_t Int(int column) const override;
  std::string Bytes(int column) const override;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class SqliteDatabase final : public Database {
 public:
  // Opens or makes the file. `vfs`: the name of an SQLite VFS; empty: the system's.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path,
                                                              const std::string& vfs);
  // Opens a file that exists, and never writes to it. Another process may have it open.
  // UNAVAILABLE: there is no such file.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenToRead(const std::string& path);
  // As OpenToRead, but reads this file alone, without its journal and its write-ahead log. Takes no
  // locks, and makes no file beside it. If another process writes meanwhile, reads may fail.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAlone(const std::string& path);

  absl::Status Execute(const char* sql) override;
  absl::Status BeginMigration() override { return Execute("BEGIN IMMEDIATE"); }
  absl::StatusOr<StatementUse> Use(const char* sql) override;
  // Executes the statement at once.
  absl::Status Run(Statement& statement, absl::string_view what) override;
  absl::Status Error(absl::string_view what) const override;
  absl::StatusOr<bool> HasTable(std::string_view name) override;
  const char* NextNumberQuery(std::string_view table) override;
  absl::Status MakeWhole(bool fails_late, absl::FunctionRef<absl::Status()> change) override;
  absl::Status CheckItself(size_t limit, std::vector<std::string>* faults) override;

  // As Error, of SQLite's code `code`.
  absl::Status ErrorOf(int code, absl::string_view what) const;

  bool in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }
  sqlite3* handle() const { return handle_.get(); }

 private:
  // `flags`: SQLITE_OPEN_*, besides those that all connections have.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenWith(const std::string& path,
                                                                  int flags,
                                                                  const std::string& vfs);
  // OpenToRead and OpenAlone. `name`: the path, or SQLite's URI of it, which `flags` then says.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenReader(const std::string& path,
                                                                    const std::string& name,
                                                                    int flags);
  explicit SqliteDatabase(sqlite3* handle) : handle_(handle) {}

  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::unordered_map<std::string_view, SqliteStatement> statements_;  // destroyed before the handle
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_
