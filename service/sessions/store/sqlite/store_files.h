// The files of a store: reading, checking and copying them, also while a server has them open.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_STORE_FILES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_STORE_FILES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/sqlite/database.h"

namespace longstream::store {

// An error of the system, from errno. `what` says what was being done.
absl::Status FileError(const std::string& what);

// Makes the directory of a store, with mode 0700, and locks it for this process. Returns the open
// file LOCK. A directory that exists keeps its mode; log.db, its companions and LOCK get mode 0600.
// FAILED_PRECONDITION: another process uses the store, one of its files is a link or not a regular
// file, or another program has made log.db, which then stays as it is. DATA_LOSS: log.db is
// damaged, and LOCK does not say that it is the store's; it stays as it is, too.
absl::StatusOr<int> LockDirectory(const std::string& directory);

// Refuses a database that has tables, but not those of a store (FAILED_PRECONDITION). Changes
// nothing. `path`: of the database. DATA_LOSS: it is damaged.
absl::Status CheckTables(SqliteDatabase& log, const std::string& path);

// Makes the names in a directory durable.
absl::Status SyncDirectory(const std::string& directory);

// Checks whether SqliteStore::Open could open or make the store, except that another process may
// have it open. Changes nothing, but SQLite may leave an empty write-ahead log (log.db-wal) and its
// index (log.db-shm) beside the log of a store. Returns a sentence that says what was found. Errors
// are those of SqliteStore::Open.
absl::StatusOr<std::string> InspectStore(const std::string& directory);

// Looks for damage (CheckLog, CheckSegmentFiles), without changing anything. `keys`: those of the
// store; null: sealed segments are not opened.
absl::StatusOr<std::vector<std::string>> CheckStore(
    const std::string& directory, size_t limit, std::shared_ptr<const SealingKeys> keys = nullptr);

// Copies the store as it is at one moment into the directory `destination`, which is made if it
// does not exist. The copy is a store: SqliteStore::Open opens it, and draws a new store id. It has
// the whole log, but no snapshots. Only its user can read it.
// ALREADY_EXISTS: `destination` has files. INVALID_ARGUMENT: it is within the store. DATA_LOSS: the
// store is damaged; there is no copy.
absl::Status BackUpStore(const std::string& directory, const std::string& destination);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_STORE_FILES_H_
