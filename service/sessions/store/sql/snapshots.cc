// A segment is released when its last user goes. A span's users are snapshots and the next spans.
#include "service/sessions/store/sql/snapshots.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/segment_rows.h"

namespace longstream::store {
namespace {

#define LONGSTREAM_HAS_USERS(tenant, key)                                                 \
  "(EXISTS (SELECT 1 FROM snapshots p WHERE p.tenant = " tenant " AND p.span = " key      \
  ") OR EXISTS (SELECT 1 FROM snapshots p WHERE p.tenant = " tenant " AND p.fixed = " key \
  ") OR EXISTS (SELECT 1 FROM segments n WHERE n.tenant = " tenant " AND n.previous = " key "))"

// The turns from ?1 to the root. The first one whose sum is known ends the path, and its sum stands
// for it and for those before it. A parent is older than its children, so a damaged link cannot
// make a circle. A database knows the length of a blob without its contents.
#define LONGSTREAM_PATH                                                             \
  "WITH RECURSIVE path(number, parent, bytes) AS ("                                 \
  "  SELECT t.number, CASE WHEN s.bytes IS NULL THEN t.parent END,"                 \
  "      coalesce(s.bytes, length(t.request) + length(t.result))"                   \
  "    FROM turns t LEFT JOIN turn_sums s ON s.turn = t.number WHERE t.number = ?1" \
  "  UNION ALL"                                                                     \
  "  SELECT t.number, CASE WHEN s.bytes IS NULL THEN t.parent END,"                 \
  "      coalesce(s.bytes, length(t.request) + length(t.result))"                   \
  "    FROM path JOIN turns t ON t.number = path.parent AND t.number < path.number" \
  "      LEFT JOIN turn_sums s ON s.turn = t.number)"
// The same of the spans from the one with tenant ?1 and key ?2 to the first one. A span begins
// behind the one before it.
#define LONGSTREAM_CHAIN                                                       \
  "WITH RECURSIVE chain(previous, begin_token, bytes) AS ("                    \
  "  SELECT CASE WHEN s.bytes IS NULL THEN n.previous END, n.begin_token,"     \
  "      coalesce(s.bytes, n.bytes)"                                           \
  "    FROM segments n LEFT JOIN span_sums s ON s.segment = n.number"          \
  "    WHERE n.tenant = ?1 AND n.key = ?2"                                     \
  "  UNION ALL"                                                                \
  "  SELECT CASE WHEN s.bytes IS NULL THEN n.previous END, n.begin_token,"     \
  "      coalesce(s.bytes, n.bytes)"                                           \
  "    FROM chain JOIN segments n ON n.tenant = ?1 AND n.key = chain.previous" \
  "        AND n.begin_token < chain.begin_token"                              \
  "      LEFT JOIN span_sums s ON s.segment = n.number)"

// A segment that may have lost a user.
struct Released {
  std::string tenant;
  std::string key;
};

// Runs a query for one number.
absl::StatusOr<int64_t> ReadNumber(Database& database, Statement& select, const char* what) {
  const Stepped code = select.Step();
  if (code != Stepped::kRow) return database.Error(what);
  return select.Int(0);
}

absl::Status AddDeadFile(Database& database, const std::string& file, int64_t bytes) {
  absl::StatusOr<StatementUse> insert =
      database.Use("INSERT INTO dead_segments(file, bytes) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
  if (!insert.ok()) return insert.status();
  (*insert)->BindText(0, file);
  (*insert)->Bind(1, bytes);
  return database.Run(**insert, "note the file of a collected segment");
}

// Removes the segment's row, if there is one. Returns the key of the span before it.
absl::StatusOr<std::string> RemoveSegment(Database& database, const Released& segment) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM segments WHERE tenant = ?1 AND key = ?2 RETURNING previous, file, bytes");
  if (!remove.ok()) return remove.status();
  (*remove)->BindText(0, segment.tenant);
  (*remove)->BindBlob(1, segment.key);
  const Stepped code = (*remove)->Step();
  if (code == Stepped::kDone) return std::string();
  if (code != Stepped::kRow) return database.Error("remove a segment");
  std::string previous = (*remove)->Bytes(0);
  const std::string file = (*remove)->Bytes(1);
  const int64_t bytes = (*remove)->Int(2);
  if (const Stepped end = (*remove)->Step(); end != Stepped::kDone) {
    return database.Error("remove a segment");
  }
  if (!file.empty()) {
    if (absl::Status status = AddDeadFile(database, file, bytes); !status.ok()) return status;
  }
  return previous;
}

absl::StatusOr<bool> HasUsers(Database& database, const Released& segment) {
  absl::StatusOr<StatementUse> select = database.Use("SELECT " LONGSTREAM_HAS_USERS("?1", "?2"));
  if (!select.ok()) return select.status();
  (*select)->BindText(0, segment.tenant);
  (*select)->BindBlob(1, segment.key);
  const absl::StatusOr<int64_t> found =
      ReadNumber(database, **select, "look for users of a segment");
  if (!found.ok()) return found.status();
  return *found != 0;
}

// Removes the segment if it has no users, and then the spans before it in the same way.
absl::Status Release(Database& database, Released segment) {
  while (!segment.key.empty()) {
    const absl::StatusOr<bool> has_users = HasUsers(database, segment);
    if (!has_users.ok()) return has_users.status();
    if (*has_users) break;
    absl::StatusOr<std::string> previous = RemoveSegment(database, segment);
    if (!previous.ok()) return previous.status();
    segment.key = *std::move(previous);
  }
  return absl::OkStatus();
}

// Runs a statement that removes snapshots and returns tenant, span and fixed of each. Returns how
// many they are.
absl::StatusOr<size_t> RemoveSnapshots(Database& database, StatementUse remove,
                                       std::vector<Released>* released) {
  size_t removed = 0;
  Stepped code;
  while ((code = remove->Step()) == Stepped::kRow) {
    const std::string tenant = remove->Bytes(0);
    for (const int column : {1, 2}) released->push_back({tenant, remove->Bytes(column)});
    ++removed;
  }
  if (code != Stepped::kDone) return database.Error("remove snapshots");
  return removed;
}

absl::StatusOr<size_t> RemoveAndRelease(Database& database, StatementUse remove) {
  std::vector<Released> released;
  const absl::StatusOr<size_t> removed = RemoveSnapshots(database, std::move(remove), &released);
  if (!removed.ok()) return removed.status();
  for (Released& segment : released) {
    absl::Status status = Release(database, std::move(segment));
    if (!status.ok()) return status;
  }
  return *removed;
}

// `sql` selects the segment's columns and its bytes.
absl::StatusOr<StoredSegment> SelectSegment(Database& database, const char* sql,
                                            const std::string& tenant, const SegmentKey& key) {
  absl::StatusOr<StatementUse> select = database.Use(sql);
  if (!select.ok()) return select.status();
  const std::string bytes = KeyBytes(key);
  (*select)->BindText(0, tenant);
  (*select)->BindBlob(1, bytes);
  const Stepped code = (*select)->Step();
  if (code == Stepped::kRow) return ReadSegmentRow(**select);
  if (code != Stepped::kDone) return database.Error("read a segment");
  return absl::NotFoundError(absl::StrCat("store: there is no segment ", key.ToString()));
}

absl::Status CheckHasSegment(Database& database, const std::string& tenant, const SegmentKey& key) {
  const absl::StatusOr<StoredSegment> found = FindStoredSegment(database, tenant, key);
  if (found.ok()) return absl::OkStatus();
  if (!absl::IsNotFound(found.status()) && !absl::IsDataLoss(found.status())) {
    return found.status();
  }
  return absl::FailedPreconditionError(absl::StrCat(found.status().message(), "; write it anew"));
}

absl::Status InsertSegment(Database& database, const std::string& tenant,
                           const StoredSegment& segment) {
  absl::StatusOr<StatementUse> insert =
      database.Use("INSERT INTO segments(" LONGSTREAM_SEGMENT_COLUMNS
                   ", data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
  if (!insert.ok()) return insert.status();
  const BoundSegment bound(**insert, tenant, segment);
  return database.Run(**insert, "add a segment");
}

// Notes the sum of a new span, so that SpanBytes knows it.
absl::Status AddSpanSum(Database& database, const std::string& tenant, const SegmentKey& key) {
  absl::StatusOr<StatementUse> insert =
      database.Use("INSERT INTO span_sums(segment, bytes) " LONGSTREAM_CHAIN
                   " SELECT (SELECT number FROM segments WHERE tenant = ?1 AND key = ?2), "
                   "CAST(sum(bytes) AS INTEGER) FROM chain WHERE true"
                   " ON CONFLICT (segment) DO UPDATE SET bytes = excluded.bytes");
  if (!insert.ok()) return insert.status();
  const std::string bytes = KeyBytes(key);
  (*insert)->BindText(0, tenant);
  (*insert)->BindBlob(1, bytes);
  return database.Run(**insert, "add up spans");
}

WrittenFiles* WrittenBy(const AddSnapshot& add) {
  return static_cast<WrittenFiles*>(add.written.get());
}

absl::Status PutSegments(Database& database, const AddSnapshot& add) {
  WrittenFiles* const written = WrittenBy(add);
  if (written == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < written->segments().size(); ++i) {
    absl::Status status = PutSegment(database, add.tenant, written->segments()[i]);
    if (!status.ok()) return status;
    written->NoteRow(i);
  }
  return absl::OkStatus();
}

absl::Status CheckIsCommitted(Database& database, const std::string& tenant, TurnNumber turn) {
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT EXISTS (SELECT 1 FROM turns t JOIN sessions s ON s.number = t.session"
      " WHERE t.number = ?1 AND t.state = 2 AND s.tenant = ?2)");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, turn);
  (*select)->BindText(1, tenant);
  const absl::StatusOr<int64_t> found = ReadNumber(database, **select, "look for a turn");
  if (!found.ok()) return found.status();
  if (*found != 0) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("store: the tenant has no committed turn ", turn, " for a snapshot"));
}

// Puts the snapshot in the place of the turn's one with the same `cache`.
absl::Status PutSnapshot(Database& database, const AddSnapshot& add,
                         std::vector<Released>* released) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM snapshots WHERE turn = ?1 AND cache = ?2 RETURNING tenant, span, fixed");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, add.snapshot.turn);
  (*remove)->BindBlob(1, add.snapshot.cache);
  absl::Status status = RemoveSnapshots(database, *std::move(remove), released).status();
  if (!status.ok()) return status;
  absl::StatusOr<StatementUse> insert = database.Use(
      "INSERT INTO snapshots(" LONGSTREAM_SNAPSHOT_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  if (!insert.ok()) return insert.status();
  const BoundSnapshot bound(**insert, add.tenant, add.snapshot);
  return database.Run(**insert, "add a snapshot");
}

absl::Status DropSnapshots(Database& database, TurnNumber turn) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM snapshots WHERE turn = ?1"
      " AND NOT EXISTS (SELECT 1 FROM sessions WHERE head = ?1) RETURNING tenant, span, fixed");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, turn);
  return RemoveAndRelease(database, *std::move(remove)).status();
}

}  // namespace

absl::Status PutSegment(Database& database, const std::string& tenant,
                        const StoredSegment& segment) {
  const SegmentRow& row = segment.row;
  if (row.previous) {
    absl::Status status = CheckHasSegment(database, tenant, *row.previous);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<StoredSegment> old = FindStoredSegment(database, tenant, row.key);
  if (old.ok() && !segment.file.empty() && old->file == segment.file) return absl::OkStatus();
  absl::Status status = RemoveSegment(database, {tenant, KeyBytes(row.key)}).status();
  if (status.ok()) status = InsertSegment(database, tenant, segment);
  if (!status.ok() || row.kind != SegmentKind::kSpan) return status;
  return AddSpanSum(database, tenant, row.key);
}

absl::StatusOr<StoredSegment> FindStoredSegment(Database& database, const std::string& tenant,
                                                const SegmentKey& key) {
  return SelectSegment(database,
                       "SELECT " LONGSTREAM_SEGMENT_COLUMNS
                       ", NULL FROM segments WHERE tenant = ?1 AND key = ?2",
                       tenant, key);
}

absl::StatusOr<StoredSegment> ReadStoredSegment(Database& database, const std::string& tenant,
                                                const SegmentKey& key) {
  return SelectSegment(database,
                       "SELECT " LONGSTREAM_SEGMENT_COLUMNS
                       ", data FROM segments WHERE tenant = ?1 AND key = ?2",
                       tenant, key);
}

absl::StatusOr<std::vector<StoredSegment>> SpansUpTo(Database& database, const std::string& tenant,
                                                     const SegmentKey& key) {
  absl::StatusOr<StatementUse> select = database.Use(
      "WITH RECURSIVE chain(span, previous, begin_token) AS ("
      "  SELECT key, previous, begin_token FROM segments WHERE tenant = ?1 AND key = ?2"
      "  UNION ALL"
      "  SELECT n.key, n.previous, n.begin_token FROM chain JOIN segments n"
      "    ON n.tenant = ?1 AND n.key = chain.previous AND n.begin_token < chain.begin_token)"
      " SELECT " LONGSTREAM_SEGMENT_COLUMNS
      ", NULL FROM segments WHERE tenant = ?1 AND key IN (SELECT span FROM chain)");
  if (!select.ok()) return select.status();
  const std::string bytes = KeyBytes(key);
  (*select)->BindText(0, tenant);
  (*select)->BindBlob(1, bytes);
  std::vector<StoredSegment> spans;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    absl::StatusOr<StoredSegment> span = ReadSegmentRow(**select);
    if (span.ok()) spans.push_back(*std::move(span));
  }
  if (code != Stepped::kDone) return database.Error("read spans");
  return spans;
}

absl::StatusOr<uint64_t> PathBytes(Database& database, TurnNumber number) {
  absl::StatusOr<StatementUse> select =
      database.Use(LONGSTREAM_PATH " SELECT CAST(coalesce(sum(bytes), 0) AS INTEGER) FROM path");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, number);
  const absl::StatusOr<int64_t> bytes = ReadNumber(database, **select, "add up turns");
  if (!bytes.ok()) return bytes.status();
  return static_cast<uint64_t>(*bytes);
}

absl::Status AddPathSum(Database& database, TurnNumber number) {
  absl::StatusOr<StatementUse> insert =
      database.Use("INSERT INTO turn_sums(turn, bytes) " LONGSTREAM_PATH
                   " SELECT CAST(?1 AS INTEGER), CAST(sum(bytes) AS INTEGER) FROM path WHERE true"
                   " ON CONFLICT (turn) DO UPDATE SET bytes = excluded.bytes");
  if (!insert.ok()) return insert.status();
  (*insert)->Bind(0, number);
  return database.Run(**insert, "add up turns");
}

absl::StatusOr<uint64_t> SpanBytes(Database& database, const std::string& tenant,
                                   const SegmentKey& key) {
  absl::StatusOr<StatementUse> select =
      database.Use(LONGSTREAM_CHAIN " SELECT CAST(coalesce(sum(bytes), 0) AS INTEGER) FROM chain");
  if (!select.ok()) return select.status();
  const std::string bytes = KeyBytes(key);
  (*select)->BindText(0, tenant);
  (*select)->BindBlob(1, bytes);
  const absl::StatusOr<int64_t> sum = ReadNumber(database, **select, "add up spans");
  if (!sum.ok()) return sum.status();
  return static_cast<uint64_t>(*sum);
}

absl::Status AddSnapshotRows(Database& database, const AddSnapshot& add) {
  const SnapshotRow& row = add.snapshot;
  absl::Status status = CheckIsCommitted(database, add.tenant, row.turn);
  if (status.ok()) status = PutSegments(database, add);
  if (status.ok()) status = CheckHasSegment(database, add.tenant, row.fixed);
  if (status.ok() && row.span) status = CheckHasSegment(database, add.tenant, *row.span);
  std::vector<Released> released;
  if (status.ok()) status = PutSnapshot(database, add, &released);
  for (Released& segment : released) {
    if (status.ok()) status = Release(database, std::move(segment));
  }
  for (const TurnNumber turn : add.drop) {
    if (status.ok() && turn != row.turn) status = DropSnapshots(database, turn);
  }
  return status;
}

void ForgetWrittenRows(const AddSnapshot& add) {
  if (WrittenFiles* const written = WrittenBy(add); written != nullptr) written->ForgetRows();
}

absl::Status RemoveSnapshotsOf(Database& database, TurnNumber turn) {
  absl::StatusOr<StatementUse> remove =
      database.Use("DELETE FROM snapshots WHERE turn = ?1 RETURNING tenant, span, fixed");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, turn);
  return RemoveAndRelease(database, *std::move(remove)).status();
}

absl::StatusOr<size_t> RemoveOldestSnapshots(Database& database, size_t limit) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM snapshots WHERE number IN (SELECT number FROM snapshots ORDER BY number"
      " LIMIT ?1) RETURNING tenant, span, fixed");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, static_cast<int64_t>(limit));
  return RemoveAndRelease(database, *std::move(remove));
}

absl::StatusOr<int64_t> LastSegmentNumber(Database& database) {
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT max(number) FROM (SELECT max(number) AS number FROM segments"
      " UNION ALL SELECT max(number) FROM snapshots) AS numbers");
  if (!select.ok()) return select.status();
  return ReadNumber(database, **select, "look for the last segment");
}

absl::Status ReleaseForgotten(Database& database, int64_t first, int64_t last) {
  absl::StatusOr<StatementUse> remove = database.Use(
      "DELETE FROM snapshots WHERE number BETWEEN ?1 AND ?2 AND NOT EXISTS"
      " (SELECT 1 FROM turns t WHERE t.number = snapshots.turn AND t.state = 2)"
      " RETURNING tenant, span, fixed");
  if (!remove.ok()) return remove.status();
  (*remove)->Bind(0, first);
  (*remove)->Bind(1, last);
  absl::Status removed = RemoveAndRelease(database, *std::move(remove)).status();
  if (!removed.ok()) return removed;

  std::vector<Released> released;
  {
    absl::StatusOr<StatementUse> select = database.Use(
        "SELECT s.tenant, s.key FROM segments s WHERE s.number BETWEEN ?1 AND ?2"
        " AND NOT " LONGSTREAM_HAS_USERS("s.tenant", "s.key"));
    if (!select.ok()) return select.status();
    (*select)->Bind(0, first);
    (*select)->Bind(1, last);
    Stepped code;
    while ((code = (*select)->Step()) == Stepped::kRow) {
      released.push_back({(*select)->Bytes(0), (*select)->Bytes(1)});
    }
    if (code != Stepped::kDone) return database.Error("look for segments without users");
  }
  for (Released& segment : released) {
    absl::Status status = Release(database, std::move(segment));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DeadBytes(Database& database) {
  absl::StatusOr<StatementUse> select =
      database.Use("SELECT CAST(coalesce(sum(bytes), 0) AS INTEGER) FROM dead_segments");
  if (!select.ok()) return select.status();
  const absl::StatusOr<int64_t> bytes = ReadNumber(database, **select, "add up dead files");
  if (!bytes.ok()) return bytes.status();
  return static_cast<uint64_t>(*bytes);
}

absl::StatusOr<bool> HasDeadFiles(Database& database, absl::Time now, absl::Duration age) {
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT count(*) FROM (SELECT 1 FROM dead_segments WHERE dead_at IS NULL OR dead_at > ?1"
      " OR (dead_at <= ?2 AND file NOT LIKE '%/%') LIMIT 1) AS dead");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, Microseconds(now));
  (*select)->Bind(1, Microseconds(now - age));
  if ((*select)->Step() != Stepped::kRow) return database.Error("look for collected segments");
  return (*select)->Int(0) != 0;
}

absl::StatusOr<std::vector<DeadFile>> OldDeadFiles(Database& database, absl::Time now,
                                                   absl::Duration age, size_t limit) {
  {
    absl::StatusOr<StatementUse> update =
        database.Use("UPDATE dead_segments SET dead_at = ?1 WHERE dead_at IS NULL OR dead_at > ?1");
    if (!update.ok()) return update.status();
    (*update)->Bind(0, Microseconds(now));
    absl::Status status = database.Run(**update, "note when segments were collected");
    if (!status.ok()) return status;
  }
  // A damaged name must not lead out of the directory.
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT file, bytes FROM dead_segments WHERE dead_at <= ?1 AND file NOT LIKE '%/%'"
      " LIMIT ?2");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, Microseconds(now - age));
  (*select)->Bind(1, static_cast<int64_t>(limit));
  std::vector<DeadFile> files;
  Stepped code;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    files.push_back({(*select)->Bytes(0), static_cast<uint64_t>((*select)->Int(1))});
  }
  if (code != Stepped::kDone) return database.Error("look for files of collected segments");
  return files;
}

absl::StatusOr<bool> ForgetDeadFile(Database& database, const std::string& name) {
  absl::StatusOr<StatementUse> remove =
      database.Use("DELETE FROM dead_segments WHERE file = ?1 RETURNING 1");
  if (!remove.ok()) return remove.status();
  (*remove)->BindText(0, name);
  const Stepped code = (*remove)->Step();
  if (code == Stepped::kDone) return false;
  if (code != Stepped::kRow) return database.Error("forget the file of a collected segment");
  const Stepped end = (*remove)->Step();
  if (end != Stepped::kDone) return database.Error("forget the file of a collected segment");
  return true;
}

}  // namespace longstream::store
