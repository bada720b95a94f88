// The store of sessions: their log on a disk or in a database.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SESSION_STORE_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SESSION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/sessions/store/changes.h"
#include "service/sessions/store/log_records.h"
#include "service/sessions/store/segments.h"

namespace longstream::store {

enum class StoreState {
  kOk = 0,
  kFull = 1,         // the last changes were refused because there was no room
  kReadOnly = 2,     // changes are refused until the store is opened again
  kUnreachable = 3,  // the database does not answer or refuses; the store tries again
};

struct StoreHealth {
  StoreState state = StoreState::kOk;
  std::string reason;  // empty if the state is kOk
};

// How many bytes a part of the store takes on the disk.
struct StoreBytes {
  std::string kind;
  uint64_t bytes = 0;
};

// How CollectSegments works.
struct SegmentCollection {
  absl::Time now;
  // Segments that are needed may take so many bytes of the disk. Absent: half of what the file
  // system can hold, so that there is always room for the log.
  std::optional<uint64_t> max_bytes = std::nullopt;
  // How long the files of a collected segment stay for those who have found its row.
  absl::Duration remove_after = absl::Minutes(10);
};

// A change that has been acknowledged is durable: neither a crash of the process nor a loss of
// power undoes it, as long as the disk keeps what it has promised to keep.
//
// Thread-safe. All functions block. Every function may fail with
//   UNAVAILABLE  the store cannot be used now, or commits are refused; nothing was changed
//   DATA_LOSS    the rows that the call needs are damaged
class SessionStore {
 public:
  SessionStore() = default;
  virtual ~SessionStore() = default;
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // Makes the changes in their order, in one transaction. A change that is refused does not stop
  // the others. Returns one result for each change when all of them are durable.
  //
  // changes.h states how a change is refused. Besides:
  //   RESOURCE_EXHAUSTED  the store is full; the change was not made
  //   UNKNOWN             the store failed while it made the changes durable. They may be there
  //                       after the store has been opened again; read it to find out.
  virtual std::vector<absl::StatusOr<Applied>> Apply(absl::Span<const Change> changes) = 0;

  // NOT_FOUND: the tenant has no open session with this id.
  virtual absl::StatusOr<SessionRow> Session(const SessionKey& key) = 0;

  // Open sessions of a tenant with ids greater than `after`, in the order of their ids, at most
  // `limit`. If `model` is not empty, only sessions of that model. A damaged row is left out and
  // does not count; Check reports it.
  virtual absl::StatusOr<std::vector<SessionRow>> Sessions(const std::string& tenant,
                                                           const std::optional<SessionId>& after,
                                                           size_t limit,
                                                           const std::string& model) = 0;

  // How many open sessions each tenant has, by its name. Damaged rows count.
  virtual absl::StatusOr<std::map<std::string, uint64_t>> CountSessions() = 0;

  // How many open sessions of a model a replica has, or had last. `owner`: as in SessionRow.
  struct OwnedSessions {
    std::string model;
    std::string owner;
    uint64_t sessions = 0;

    bool operator==(const OwnedSessions&) const = default;
  };
  // One for each model and owner that has open sessions. Reads all rows. Damaged rows count.
  virtual absl::StatusOr<std::vector<OwnedSessions>> CountOwnedSessions() = 0;

  struct FoundNotes {
    std::vector<NoteRow> notes;  // in the order of their keys in the call
    size_t keys = 0;             // that were looked for, from the first one on
  };
  // The notes with these keys in the open sessions of a tenant: of each key the one that was
  // written last. Stops before the note with which the values would have more than `most_bytes`,
  // but not before the first one.
  virtual absl::StatusOr<FoundNotes> Notes(const std::string& tenant,
                                           const std::vector<std::string>& keys,
                                           uint64_t most_bytes) = 0;

  // All rows of aliases, in the order of their names. The arms of damaged rows cannot be decoded;
  // Check reports these rows.
  virtual absl::StatusOr<std::vector<AliasRow>> Aliases() = 0;

  // Open sessions whose delete_time has passed, of all tenants, the longest expired first, at most
  // `limit`. A damaged row is left out and does not count.
  virtual absl::StatusOr<std::vector<SessionRow>> Expired(absl::Time now, size_t limit) = 0;

  // The turn of an open session with this id. NOT_FOUND: there is none.
  virtual absl::StatusOr<TurnRow> Turn(const SessionKey& session, const TurnId& id) = 0;
  // NOT_FOUND: no turn has this number.
  virtual absl::StatusOr<TurnRow> Turn(TurnNumber number) = 0;

  // The numbers of the turns of an open session that are greater than `after`, ascending, at most
  // `limit`. None if there is no such session.
  virtual absl::StatusOr<std::vector<TurnNumber>> TurnNumbers(const SessionKey& session,
                                                              TurnNumber after, size_t limit) = 0;

  // Calls `visit` for the turn with this number, then its parent, and so on to a turn without a
  // parent, until `visit` returns false. NOT_FOUND: the turn does not exist or has been collected.
  virtual absl::Status VisitPath(TurnNumber number,
                                 const std::function<bool(const TurnRow&)>& visit) = 0;
  // As VisitPath, but the turns come without their requests and results, which take time to read.
  virtual absl::Status VisitLinks(TurnNumber number,
                                  const std::function<bool(const TurnRow&)>& visit) = 0;

  // Collects turns that no session can return to: no head leads to them, they ended (or started and
  // never ended) before `before`, and the last head left them before then. Keeps a turn that has
  // started on the head of an open session, because it can still be committed. While its session is
  // open, a collected turn stays known by its id, in state kCollected. Removes sessions that were
  // closed before `before`, with their turns. Returns how many turns it has collected or removed.
  //
  // Other changes go on meanwhile.
  virtual absl::StatusOr<size_t> Collect(absl::Time before) = 0;

  // A writer for the new segments of one snapshot. Errors are those of SegmentWriter.
  virtual absl::StatusOr<std::unique_ptr<SegmentWriter>> WriteSegments() = 0;

  // The snapshots of the turn with this number, and of the turns on the way to the root, the
  // nearest turn first. Looks at no more than `max_turns` turns. Leaves out damaged snapshots.
  // Errors as for VisitLinks.
  virtual absl::StatusOr<std::vector<SnapshotRow>> Snapshots(TurnNumber number,
                                                             size_t max_turns) = 0;

  // The segments of a snapshot: its spans in the order of their tokens, then the fixed block.
  // NOT_FOUND: one of them has been collected, or was never there.
  virtual absl::StatusOr<std::vector<SegmentRow>> Segments(const std::string& tenant,
                                                           const SnapshotRow& snapshot) = 0;

  // Bytes of the turns from this one to the root, which are their requests and results, and of the
  // segments that the snapshots of the last 256 of them need, each counted once. 0: there is no
  // such turn. Reads no contents; what is missing or damaged does not count. Of a long history,
  // reads sums that were made when its turns were committed. `tenant`: whose turn it is.
  virtual absl::StatusOr<uint64_t> HeadBytes(const std::string& tenant, TurnNumber head) = 0;

  // NOT_FOUND: the tenant has no segment with this key. One that is found can be collected before
  // AddSnapshot names it.
  virtual absl::StatusOr<SegmentRow> FindSegment(const std::string& tenant,
                                                 const SegmentKey& key) = 0;

  // NOT_FOUND: as FindSegment. DATA_LOSS: its file is missing or has another size.
  virtual absl::StatusOr<std::unique_ptr<SegmentReader>> ReadSegment(const std::string& tenant,
                                                                     const SegmentKey& key) = 0;

  // Collects segments that no snapshot needs: a fixed block is needed by its snapshots, and a span
  // also by the spans that follow it. If the rest takes more than its limit, removes snapshots,
  // the ones that were written longest ago first. Removes the files of segments that were collected
  // `remove_after` ago. Returns how many bytes of files it has removed.
  //
  // A collected segment is never used again; a snapshot that needs the same bytes writes them anew.
  // The snapshots of a turn go when Collect collects the turn. Other changes go on meanwhile.
  virtual absl::StatusOr<uint64_t> CollectSegments(const SegmentCollection& collection) = 0;

  // Looks for damage: the database's own check, the checksum of every row, and links of turns.
  // Returns one sentence for each fault, at most `limit`.
  virtual absl::StatusOr<std::vector<std::string>> Check(size_t limit) = 0;

  // Looks whether a full disk has room again, and whether the files that the store has opened are
  // still in their place; Health tells. Call it every few seconds. Does not wait for a transaction.
  virtual void Probe() {}

  // Whether the store takes changes. Does not wait for a transaction.
  virtual StoreHealth Health() const { return {}; }

  // The parts of the store. Does not wait for a transaction.
  virtual std::vector<StoreBytes> Bytes() const { return {}; }
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SESSION_STORE_H_
