// SQLite's handles with owners, and its error codes as statuses.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longstream::store {

// A prepared statement. Parameters and columns are counted from 0. One thread at a time may use it.
// It must not outlive its connection.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void Bind(int parameter, int64_t value);
  // The bytes must live until the statement is reset.
  void BindText(int parameter, std::string_view text);
  void BindBlob(int parameter, std::string_view bytes);
  void BindNull(int parameter);

  // Returns SQLITE_ROW, SQLITE_DONE or an error code.
  int Step() { return sqlite3_step(statement_.get()); }
  // Ends the execution and forgets the parameters.
  void Reset();

  bool IsNull(int column) const;
  int64_t Int(int column) const;
  // A copy of the column's bytes.
  std::string Bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One use of a statement, which ends when this is destroyed.
struct EndUse {
  void operator()(Statement* statement) const { statement->Reset(); }
};
using StatementUse = std::unique_ptr<Statement, EndUse>;

// A connection. One thread at a time may use it.
class Database {
 public:
  // Opens or makes the file. `vfs`: the name of an SQLite VFS; empty: the system's.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const std::string& vfs);
  // Opens a file that exists, and never writes to it. Another process may have it open.
  // UNAVAILABLE: there is no such file.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const std::string& path);

  // Runs statements that return no rows.
  absl::Status Execute(const char* sql);

  // Prepares the statement on first use. `sql` must live as long as the connection. At most
  // one use of a statement exists at a time.
  absl::StatusOr<StatementUse> Use(const char* sql);

  // Steps a statement that returns no row. `what` is for Error.
  absl::Status Run(Statement& statement, absl::string_view what) const;

  // The last error as a status: RESOURCE_EXHAUSTED if the disk or the memory is full, DATA_LOSS if
  // the file is damaged, ALREADY_EXISTS if a unique index refuses the row, otherwise UNAVAILABLE.
  // `what` says what was being done.
  absl::Status Error(int code, absl::string_view what) const;

  bool in_transaction() const { return sqlite3_get_autocommit(handle_.get()) == 0; }
  sqlite3* handle() const { return handle_.get(); }

 private:
  // `flags`: SQLITE_OPEN_*, besides those that all connections have.
  static absl::StatusOr<std::unique_ptr<Database>> OpenWith(const std::string& path, int flags,
                                                            const std::string& vfs);
  explicit Database(sqlite3* handle) : handle_(handle) {}

  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::unordered_map<std::string_view, Statement> statements_;  // destroyed before the handle
};

// Connections that only read, for several threads at once. A thread takes one for each read, so a
// read that waits for the disk stops no other one while a connection is free. Thread-safe.
class ReaderPool {
 public:
  ReaderPool() = default;
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  // Gives a connection back.
  struct Return {
    ReaderPool* pool = nullptr;
    void operator()(Database* database) const { pool->Give(database); }
  };
  // A connection that no other thread uses. Destroy what uses it first, such as a StatementUse.
  using Reader = std::unique_ptr<Database, Return>;

  void Add(std::unique_ptr<Database> database) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(database.get());
    all_.push_back(std::move(database));
  }
  // Waits until a connection is free. A thread takes one at a time: threads that wait for a second
  // one could wait for each other.
  Reader Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::vector<Database*>* free) { return !free->empty(); }, &free_));
    // The one that was used last: it has the most pages in its memory.
    Database* const database = free_.back();
    free_.pop_back();
    return Reader(database, Return{this});
  }
  // Closes the connections in the order of Add, each after a call of `before`. REQUIRES: no thread
  // reads.
  void Close(const std::function<void(Database&)>& before) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.clear();
    for (std::unique_ptr<Database>& database : all_) {
      before(*database);
      database.reset();
    }
    all_.clear();
  }

 private:
  void Give(Database* database) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(database);
  }

  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Database>> all_ ABSL_GUARDED_BY(mutex_);
  std::vector<Database*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_DATABASE_H_
