// The interface of a database: statements with parameters, rows, and errors as statuses.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_DATABASE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_DATABASE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace longstream::store {

// The result of a step of a statement.
enum class Stepped { kRow, kDone, kError };

// A statement with parameters ?1, ?2 and so on. The functions count parameters and columns from 0.
// One thread at a time may use it. It must not outlive its connection.
class Statement {
 public:
  Statement() = default;
  virtual ~Statement() = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  virtual void Bind(int parameter, int64_t value) = 0;
  // The bytes must live until the statement is reset.
  virtual void BindText(int parameter, std::string_view text) = 0;
  virtual void BindBlob(int parameter, std::string_view bytes) = 0;
  virtual void BindNull(int parameter) = 0;

  // Says that the query will be made once with these parameters in this transaction, and that no
  // change before it alters its rows. A driver may ask for the rows now, so that they are there
  // when they are needed: many queries then cost the time of one.
  virtual void Announce() {}

  // After kError, Database::Error has the reason.
  virtual Stepped Step() = 0;
  // Ends the execution and forgets the parameters.
  virtual void Reset() = 0;

  virtual bool IsNull(int column) const = 0;
  // Also of a condition: 1 if it holds. 0 for NULL.
  virtual int64_t Int(int column) const = 0;
  // A copy of the column's bytes.
  virtual std::string Bytes(int column) const = 0;
};

// One use of a statement, which ends when this is destroyed.
struct EndUse {
  void operator()(Statement* statement) const { statement->Reset(); }
};
using StatementUse = std::unique_ptr<Statement, EndUse>;

// A connection. One thread at a time may use it.
//
// All SQL is written in the dialect that both drivers know, and a driver replaces the few words in
// which they differ (schema.h). A comment such as /*FOR NO KEY UPDATE OF t*/ is a lock that a
// database with several writers needs.
class Database {
 public:
  Database() = default;
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements that return no rows.
  virtual absl::Status Execute(const char* sql) = 0;
  // Begins a transaction that changes the tables themselves. Others that do so wait.
  virtual absl::Status BeginMigration() = 0;

  // Prepares the statement on first use. `sql` must live as long as the connection. At most
  // one use of a statement exists at a time.
  virtual absl::StatusOr<StatementUse> Use(const char* sql) = 0;

  // Executes a statement that returns no row. `what` is for errors. A driver may note the statement
  // only, and return its error from a later function, at the latest from the commit.
  virtual absl::Status Run(Statement& statement, absl::string_view what) = 0;

  // The last error as a status: RESOURCE_EXHAUSTED if the disk or the memory is full, DATA_LOSS if
  // the database is damaged, ALREADY_EXISTS if a unique index refuses the row, otherwise
  // UNAVAILABLE. `what` says what was being done.
  virtual absl::Status Error(absl::string_view what) const = 0;

  // Whether there is a table with this name.
  virtual absl::StatusOr<bool> HasTable(std::string_view name) = 0;

  // Makes the checks that the database has of its own. Adds one sentence for each fault, until
  // there are `limit`.
  virtual absl::Status CheckItself(size_t limit, std::vector<std::string>* faults) = 0;

  // A query for a number that is greater than those of all rows that the table has or had.
  virtual const char* NextNumberQuery(std::string_view table) = 0;

  // Makes `change` whole or not at all, as a part of the transaction. `fails_late`: it may fail
  // after it has changed rows.
  virtual absl::Status MakeWhole(bool fails_late, absl::FunctionRef<absl::Status()> change) = 0;
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
  void Close(absl::FunctionRef<void(Database&)> before) ABSL_LOCKS_EXCLUDED(mutex_) {
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

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_DATABASE_H_
