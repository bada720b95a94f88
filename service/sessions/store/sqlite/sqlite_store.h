// The store in one directory, by SQLite: the embedded default.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_SQLITE_STORE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_SQLITE_STORE_H_

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/segment_directory.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/store/sql/sql_store.h"
#include "service/sessions/store/sqlite/database.h"

namespace longstream::store {

// DIRECTORY holds `log.db` (with -wal and -shm while it is open), `LOCK`, and the folder `segments`
// (segment_files.h). The file is in WAL mode with synchronous=FULL: a transaction is durable when
// one fsync of the log has returned.
//
// A failed fsync says nothing about what is on the disk, and a second one may report success
// without writing anything. So after an error while changes become durable, also while the log is
// copied into the file (a checkpoint), the store refuses all changes until it is opened again;
// reads go on. Open writes the bytes of the log again (wal_file.h).
//
// The writer has a connection, and readers share kNumReaders others. So reads see only durable
// changes, do not wait for a transaction, and seldom wait for each other: a read that the disk
// holds up keeps its connection, and the others are there for other reads.
class SqliteStore final : public SqlStore {
 public:
  struct Options {
    std::string vfs = {};  // the name of an SQLite VFS; empty: the system's. For tests.
    // Makes the directory of the segments. Empty: DIRECTORY/segments. For tests.
    std::function<std::unique_ptr<SegmentDirectory>()> segments = {};
    Sealing sealing = {};  // of segments
  };

  // Opens the store, or makes it with mode 0700. Only its user can read its files, also in a
  // directory that others can read. FAILED_PRECONDITION: another process has opened
  // it, or the store needs a newer program. DATA_LOSS: `log.db` is damaged, or it is missing though
  // it has been here. Messages name the directory.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& directory,
                                                           const Options& options);
  // As Open, for a directory that has a store. UNAVAILABLE: it has none.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> OpenExisting(const std::string& directory,
                                                                   const Options& options);
  ~SqliteStore() override;

  std::vector<absl::StatusOr<Applied>> Apply(absl::Span<const Change> changes) override
      ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Gives the space of collected rows back to the file system. Changes wait meanwhile.
  absl::Status Compact() ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Copies the log into the file.
  void PrepareToClose() override ABSL_LOCKS_EXCLUDED(write_mutex_);
  void Probe() override ABSL_LOCKS_EXCLUDED(write_mutex_);
  StoreHealth Health() const override ABSL_LOCKS_EXCLUDED(health_mutex_);
  // Kinds: "log" is log.db, "wal" is log.db-wal, "segments" is the files of segments, also of those
  // that are being written or will be removed.
  std::vector<StoreBytes> Bytes() const override;

 private:
  // So that other changes wait for about 10 ms.
  static constexpr TurnNumber kCollectSlice = 1000;

  SqliteStore(std::string directory, int lock, std::unique_ptr<SegmentDirectory> segments,
              const Sealing& sealing)
      : SqlStore(std::move(segments), sealing, kCollectSlice),
        directory_(std::move(directory)),
        lock_(lock) {}

  // Makes the tables, and makes them and the directory durable.
  absl::Status Prepare(const std::string& vfs) ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Makes the changes in one transaction. If it fails as a whole, *failed says why, and every
  // result is that status.
  std::vector<absl::StatusOr<Applied>> ApplyTogether(absl::Span<const Change> changes,
                                                     absl::Status* failed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Ends the transaction. After an error the store refuses changes.
  absl::Status CommitTransaction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Copies the log into the file.
  void Checkpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // Notes whether there was room for the last changes. `made`: any of them was made; refused ones
  // tell nothing.
  void NoteRoom(const absl::Status& status, bool made) ABSL_LOCKS_EXCLUDED(health_mutex_);
  // Refuses changes if LOCK or log.db is no longer the file that was opened: another process may
  // have made a store in its place, and changes would go to a file without a name.
  void CheckPlace() ABSL_LOCKS_EXCLUDED(health_mutex_);
  // If the store is full, writes one page, so that the state changes when there is room again.
  void LookForRoom() ABSL_LOCKS_EXCLUDED(write_mutex_);
  void WriteOnePage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);
  // From now on the store refuses changes because of `error`.
  void Break(const absl::Status& error) ABSL_LOCKS_EXCLUDED(health_mutex_);
  // Why changes are refused; OK: they are not.
  absl::Status Broken() const ABSL_LOCKS_EXCLUDED(health_mutex_);
  absl::Status Transact(const std::function<absl::Status(Database&)>& change) override
      ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Removes files of segments that no row names.
  void RemoveOrphans();
  const std::string directory_;
  const int lock_;      // the open file LOCK; it has content once the tables have been made
  struct stat log_ {};  // log.db as it was opened
  absl::Mutex write_mutex_;
  std::unique_ptr<SqliteDatabase> writer_ ABSL_GUARDED_BY(write_mutex_);
  int wal_frames_ ABSL_GUARDED_BY(write_mutex_) = 0;  // after the last transaction
  mutable absl::Mutex health_mutex_;
  StoreHealth health_ ABSL_GUARDED_BY(health_mutex_);
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQLITE_SQLITE_STORE_H_
