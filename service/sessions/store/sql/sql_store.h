// The common part of all stores in a database of SQL: their reads, and the collection of rows.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SQL_STORE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SQL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/sealed_segments.h"
#include "service/sessions/store/segments/segment_directory.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/store/sql/check_segments.h"
#include "service/sessions/store/sql/database.h"
#include "service/sessions/store/sql/turn_path.h"

namespace longstream::store {

// A driver adds connections to `readers_` and makes transactions. Readers share the connections: so
// reads see only durable changes, do not wait for a transaction, and seldom wait for each other.
class SqlStore : public SessionStore {
 public:
  // A server has so many threads that read: four for calls, four that read caches, one that saves
  // caches and one that collects.
  static constexpr int kNumReaders = 10;

  absl::StatusOr<SessionRow> Session(const SessionKey& key) override;
  absl::StatusOr<std::vector<SessionRow>> Sessions(const std::string& tenant,
                                                   const std::optional<SessionId>& after,
                                                   size_t limit, const std::string& model) override;
  absl::StatusOr<std::map<std::string, uint64_t>> CountSessions() override;
  absl::StatusOr<std::vector<OwnedSessions>> CountOwnedSessions() override;
  absl::StatusOr<FoundNotes> Notes(const std::string& tenant, const std::vector<std::string>& keys,
                                   uint64_t most_bytes) override;
  absl::StatusOr<std::vector<AliasRow>> Aliases() override;
  absl::StatusOr<std::vector<SessionRow>> Expired(absl::Time now, size_t limit) override;
  absl::StatusOr<TurnRow> Turn(const SessionKey& session, const TurnId& id) override;
  absl::StatusOr<TurnRow> Turn(TurnNumber number) override;
  absl::StatusOr<std::vector<TurnNumber>> TurnNumbers(const SessionKey& session, TurnNumber after,
                                                      size_t limit) override;
  absl::Status VisitPath(TurnNumber number,
                         const std::function<bool(const TurnRow&)>& visit) override;
  absl::Status VisitLinks(TurnNumber number,
                          const std::function<bool(const TurnRow&)>& visit) override;
  absl::StatusOr<size_t> Collect(absl::Time before) override;
  absl::StatusOr<std::unique_ptr<SegmentWriter>> WriteSegments() override;
  absl::StatusOr<std::vector<SnapshotRow>> Snapshots(TurnNumber number, size_t max_turns) override;
  absl::StatusOr<std::vector<SegmentRow>> Segments(const std::string& tenant,
                                                   const SnapshotRow& snapshot) override;
  absl::StatusOr<uint64_t> HeadBytes(const std::string& tenant, TurnNumber head) override;
  absl::StatusOr<SegmentRow> FindSegment(const std::string& tenant, const SegmentKey& key) override;
  absl::StatusOr<std::unique_ptr<SegmentReader>> ReadSegment(const std::string& tenant,
                                                             const SegmentKey& key) override;
  absl::StatusOr<uint64_t> CollectSegments(const SegmentCollection& collection) override;
  absl::StatusOr<std::vector<std::string>> Check(size_t limit) override;

  struct Resealed {
    uint64_t segments = 0;
    std::vector<std::string> faults;  // one sentence for each segment that SealAgain refuses
  };
  // Opens all segments, and seals again each that another key than the first one has sealed, and
  // with kSeal each that is not sealed. The former files stay until CollectSegments removes them.
  // REQUIRES: the store has keys.
  absl::StatusOr<Resealed> Reseal(Unsealed unsealed = Unsealed::kRefuse);

  // 32 hexadecimal digits that name this store. A restored backup has another id.
  absl::StatusOr<std::string> Id();

  // Makes the last writes before the end of the process, so that the destructor has nothing to
  // write. Waits for the transaction that is being made.
  virtual void PrepareToClose() {}
  // From now on the store gives up what it cannot do at once, because the process ends.
  virtual void StopWaiting() {}

 protected:
  SqlStore(std::unique_ptr<SegmentDirectory> segments, const Sealing& sealing,
           TurnNumber collect_slice)
      : files_(std::move(segments), sealing), collect_slice_(collect_slice) {}

  // Makes changes in one transaction, which is undone if `change` fails. No other transaction that
  // collects, commits or adds snapshots runs meanwhile, also none of another server.
  virtual absl::Status Transact(const std::function<absl::Status(Database&)>& change) = 0;

  // Bytes of all files of segments, also of collected ones. Only reads.
  virtual absl::StatusOr<uint64_t> FileBytes(Database& /*database*/) { return files_.bytes(); }

  // The changes were not made, so the files of their segments have no row.
  static void ForgetRows(absl::Span<const Change> changes);

  ReaderPool readers_;
  SegmentFiles files_;

 private:
  // VisitPath or VisitLinks. `visit` may read the store, so no connection is taken meanwhile.
  absl::Status Visit(TurnNumber number, TurnContents contents,
                     const std::function<bool(const TurnRow&)>& visit);
  // Collects turns with numbers from `first` to `last` in one transaction.
  absl::StatusOr<size_t> CollectSlice(absl::Time before, TurnNumber first, TurnNumber last);
  // Releases segments that were forgotten (snapshots.h).
  absl::Status ReleaseAllForgotten();
  // Seals one segment with the first key. False: it is so already.
  absl::StatusOr<bool> ResealSegment(const TenantSegment& old, Unsealed unsealed);
  // Removes snapshots until the segments take no more than `max_bytes`.
  absl::Status KeepWithin(uint64_t max_bytes);
  // Removes some of the files that have been dead for `age`. Returns how many bytes they had.
  absl::StatusOr<uint64_t> RemoveDeadFiles(absl::Time now, absl::Duration age);

  const TurnNumber collect_slice_;  // turns that one transaction of Collect looks at
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SQL_SQL_STORE_H_
