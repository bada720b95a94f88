// The store in a PostgreSQL database, which several servers may share.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_STORE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/clock/monotonic_time.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/postgres/postgres_reader.h"
#include "service/sessions/store/postgres/postgres_writer.h"
#include "service/sessions/store/postgres/server_checks.h"
#include "service/sessions/store/sql/sql_store.h"

namespace longstream::store {

// The tables are in the schema `longstream` of the database.
//
// A transaction of many changes costs about two round trips and one fsync (PostgresWriter). If the
// connection is lost in the middle of one, its changes are made again on another connection, until
// commit_timeout has passed. If it is lost in the middle of the COMMIT, the outcome is unknown:
// Apply then asks the database until it answers, however long that takes, and returns what it has
// found out. So no change is made twice, and none is acknowledged that was not made.
//
// Segments of 64 KiB and more are files in a directory that all servers share. Without one, no
// snapshot that has such a segment is kept.
class PostgresStore final : public SqlStore {
 public:
  struct Options {
    std::string url;       // postgresql://...
    std::string password;  // empty: as the URL, PGPASSFILE or the server's rules say
    // A transaction, or a read, that takes longer is given up.
    absl::Duration commit_timeout = absl::Seconds(10);
    // Refuse a database without synchronous_standby_names.
    bool require_standby = false;
    std::string segments = {};  // the shared directory of the segments; empty: there is none
    Sealing sealing = {};       // of segments
    // Called on a thread that makes changes, before the first change on another server, or after
    // the server was started again: what another process has read or claimed before may be lost.
    std::function<void(const ServerIdentity& before, const ServerIdentity& now)> on_other_server =
        {};
    // Called in Apply when the outcome of a transaction is unknown, before it asks. For tests.
    std::function<void()> on_unknown = {};
  };

  // Opens the store, and makes or migrates the tables. UNAVAILABLE: the server cannot be reached.
  // FAILED_PRECONDITION: its settings may lose changes, or the store needs a newer program.
  // Messages name the server, never a password.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> Open(const Options& options);
  // As Open, but does not make tables. UNAVAILABLE: there are none.
  static absl::StatusOr<std::unique_ptr<PostgresStore>> OpenExisting(const Options& options);
  // Looks for the tables, and changes nothing. Returns a sentence that says what was found. Errors
  // are those of Open.
  static absl::StatusOr<std::string> Inspect(const Options& options);
  // As Check of the opened store, but changes nothing, also no tables of an older version. Waits
  // for each row for commit_timeout. UNAVAILABLE: there are no tables. Errors are those of Open.
  static absl::StatusOr<std::vector<std::string>> CheckExisting(const Options& options,
                                                                size_t limit);
  ~PostgresStore() override;

  std::vector<absl::StatusOr<Applied>> Apply(absl::Span<const Change> changes) override
      ABSL_LOCKS_EXCLUDED(write_mutex_);
  // From now on, changes whose outcome is unknown are answered with UNKNOWN, and no try is
  // repeated.
  void StopWaiting() override ABSL_LOCKS_EXCLUDED(state_mutex_);
  StoreHealth Health() const override ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Kinds: "log" is the tables and their indexes, as of the last CollectSegments; "segments" is the
  // files of segments, also of those that are being written or will be removed.
  std::vector<StoreBytes> Bytes() const override;

 private:
  PostgresStore(const Options& options, std::string id);

  absl::Status Prepare(bool make_tables) ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Removes files of segments that no row names and that are old.
  void RemoveOrphans();
  absl::Status Transact(const std::function<absl::Status(Database&)>& change) override
      ABSL_LOCKS_EXCLUDED(write_mutex_);
  absl::StatusOr<uint64_t> FileBytes(Database& database) override;

  // Makes a transaction, again if need be, but for kAll not while a lock is held. Returns the error
  // of `change`, which is undone then, or why the transaction could not be made. UNKNOWN:
  // StopWaiting was called.
  absl::Status RunTransaction(StoreLocks locks, absl::FunctionRef<absl::Status()> change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // One try of RunTransaction. Sets `may_repeat` if another try may succeed.
  absl::Status TryTransaction(StoreLocks locks, MonotonicTime deadline,
                              absl::FunctionRef<absl::Status()> change, bool* may_repeat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Makes the changes in one transaction; then results has one result for each.
  absl::Status ApplyTogether(absl::Span<const Change> changes,
                             std::vector<absl::StatusOr<Applied>>* results)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Connects for changes, and checks the server.
  absl::StatusOr<std::unique_ptr<Connection>> OpenChecked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::Status ConnectWriter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Whether transaction `number`, which has been given up, was committed. Asks until the database
  // answers. UNKNOWN: StopWaiting was called.
  absl::StatusOr<bool> Settle(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  absl::StatusOr<bool> WasCommitted(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  // Returns early after StopWaiting.
  void Sleep(absl::Duration duration) ABSL_LOCKS_EXCLUDED(state_mutex_);
  bool stopping() const ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Notes whether changes can be made.
  void NoteResult(const absl::Status& status) ABSL_LOCKS_EXCLUDED(state_mutex_);
  // FAILED_PRECONDITION: the store that was opened has another id. The first call notes the id.
  absl::Status CompareId(const std::string& id) ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Connects, checks that it is the same store, and writes to the row of `writers`.
  absl::Status TryToWrite() ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Asks the database now and then whether it is there. While no changes can be made, tries to
  // write, so that Health tells when they can.
  void Watch() ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Returns when changes cannot be made, when StopWaiting was called, or after `timeout`.
  void AwaitFault(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(state_mutex_);

  const Options options_;
  const std::string id_;         // of the writer, 16 bytes
  const PostgresTarget target_;  // for readers
  ReconnectGate gate_;
  absl::Mutex write_mutex_;
  PostgresWriter writer_ ABSL_GUARDED_BY(write_mutex_);
  ServerIdentity server_ ABSL_GUARDED_BY(write_mutex_);
  int64_t last_number_ ABSL_GUARDED_BY(write_mutex_) = 0;  // of a transaction
  mutable absl::Mutex bytes_mutex_;
  int64_t log_bytes_ ABSL_GUARDED_BY(bytes_mutex_) = 0;
  // Of all files, and of those that this process has added, as of the last FileBytes.
  int64_t file_bytes_ ABSL_GUARDED_BY(bytes_mutex_) = 0;
  int64_t added_bytes_ ABSL_GUARDED_BY(bytes_mutex_) = 0;
  mutable absl::Mutex state_mutex_;
  bool stopping_ ABSL_GUARDED_BY(state_mutex_) = false;
  StoreHealth health_ ABSL_GUARDED_BY(state_mutex_);
  std::string store_id_ ABSL_GUARDED_BY(state_mutex_);  // in hexadecimal digits
  std::thread watch_;  // last, so that it starts after the other members
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_POSTGRES_POSTGRES_STORE_H_
