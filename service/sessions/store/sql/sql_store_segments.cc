// Snapshots and their segments; and the rows of aliases.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "service/sessions/store/segments/sealed_segments.h"
#include "service/sessions/store/sql/check_segments.h"
#include "service/sessions/store/sql/rows.h"
#include "service/sessions/store/sql/snapshots.h"
#include "service/sessions/store/sql/sql_store.h"
#include "service/sessions/store/sql/turn_path.h"

namespace longstream::store {
namespace {

// Rows that one transaction looks at, so that other changes wait for about 10 ms.
constexpr int64_t kReleaseSlice = 1000;
constexpr size_t kRemoveSlice = 16;
constexpr size_t kDeadSlice = 1000;
constexpr char kNoArms[] = "\xff";  // no message begins so
// Rows that HeadBytes looks at: turns whose snapshots count, and spans of a snapshot whose keys are
// compared with those of other snapshots.
constexpr int64_t kPathTurns = 256;
constexpr int kPathSpans = 256;

}  // namespace

absl::StatusOr<std::vector<AliasRow>> SqlStore::Aliases() {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StatementUse> select =
      reader->Use("SELECT " LONGSTREAM_ALIAS_COLUMNS " FROM aliases ORDER BY name");
  if (!select.ok()) return select.status();
  std::vector<AliasRow> rows;
  Stepped code = Stepped::kRow;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    absl::StatusOr<AliasRow> row = ReadAlias(**select);
    // Without its row, the alias would seem to be as the configuration says.
    rows.push_back(row.ok() ? *std::move(row) : AliasRow{(*select)->Bytes(0), kNoArms});
  }
  if (code != Stepped::kDone) return reader->Error("read the aliases");
  return rows;
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> SqlStore::WriteSegments() {
  if (absl::Status room = files_.CheckRoom(); !room.ok()) return room;
  return files_.NewWriter();
}

absl::StatusOr<std::vector<SnapshotRow>> SqlStore::Snapshots(TurnNumber number, size_t max_turns) {
  if (max_turns == 0) return std::vector<SnapshotRow>();
  size_t turns = 0;
  absl::Status status = VisitLinks(number, [&](const TurnRow&) { return ++turns < max_turns; });
  if (!status.ok()) return status;
  const ReaderPool::Reader reader = readers_.Take();
  return SnapshotsOfPath(*reader, number, static_cast<int64_t>(turns));
}

absl::StatusOr<std::vector<SegmentRow>> SqlStore::Segments(const std::string& tenant,
                                                           const SnapshotRow& snapshot) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StoredSegment> fixed = FindStoredSegment(*reader, tenant, snapshot.fixed);
  if (!fixed.ok()) return fixed.status();
  std::vector<SegmentRow> rows = {fixed->row};
  std::map<SegmentKey, SegmentRow> spans;
  if (snapshot.span) {
    const absl::StatusOr<std::vector<StoredSegment>> read =
        SpansUpTo(*reader, tenant, *snapshot.span);
    if (!read.ok()) return read.status();
    for (const StoredSegment& span : *read) spans.emplace(span.row.key, span.row);
  }
  for (std::optional<SegmentKey> key = snapshot.span; key; key = rows.back().previous) {
    if (!spans.contains(*key)) {  // it is missing or damaged, or the order is
      absl::StatusOr<StoredSegment> span = FindStoredSegment(*reader, tenant, *key);
      if (!span.ok()) return span.status();
      spans.emplace(*key, span->row);
    }
    const SegmentRow& span = spans.at(*key);
    // A damaged link could make a circle, but not one of falling places.
    if (rows.size() > 1 && span.begin >= rows.back().begin) {
      return absl::DataLossError("store: the spans of segment " + key->ToString() +
                                 " are not in the order of their tokens");
    }
    rows.push_back(span);
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

absl::StatusOr<uint64_t> SqlStore::HeadBytes(const std::string& tenant, TurnNumber head) {
  const ReaderPool::Reader reader = readers_.Take();
  const absl::StatusOr<uint64_t> of_turns = PathBytes(*reader, head);
  if (!of_turns.ok()) return of_turns.status();
  const absl::StatusOr<std::vector<SegmentKey>> last = SegmentsOfPath(*reader, head, kPathTurns);
  if (!last.ok()) return last.status();
  uint64_t bytes = *of_turns;
  std::set<SegmentKey> counted;
  bool has_all_spans = false;  // also those before the ones in `counted`
  for (const SegmentKey& one : *last) {
    // The spans before one that has been counted have been counted, too.
    std::optional<SegmentKey> key = one;
    for (int spans = 0; key.has_value() && counted.insert(*key).second; ++spans) {
      if (spans == kPathSpans) {
        if (std::exchange(has_all_spans, true)) break;
        const absl::StatusOr<uint64_t> rest = SpanBytes(*reader, tenant, *key);
        if (!rest.ok()) return rest.status();
        bytes += *rest;
        break;
      }
      const absl::StatusOr<StoredSegment> segment = FindStoredSegment(*reader, tenant, *key);
      if (absl::IsNotFound(segment.status()) || absl::IsDataLoss(segment.status())) break;
      if (!segment.ok()) return segment.status();
      bytes += segment->row.bytes;
      key = segment->row.previous;
    }
  }
  return bytes;
}

absl::StatusOr<SegmentRow> SqlStore::FindSegment(const std::string& tenant, const SegmentKey& key) {
  const ReaderPool::Reader reader = readers_.Take();
  absl::StatusOr<StoredSegment> segment = FindStoredSegment(*reader, tenant, key);
  if (!segment.ok()) return segment.status();
  return segment->row;
}

absl::StatusOr<std::unique_ptr<SegmentReader>> SqlStore::ReadSegment(const std::string& tenant,
                                                                     const SegmentKey& key) {
  absl::StatusOr<StoredSegment> segment = absl::UnknownError("");
  {
    const ReaderPool::Reader reader = readers_.Take();
    segment = ReadStoredSegment(*reader, tenant, key);
  }
  if (!segment.ok()) return segment.status();
  return files_.NewReader(*std::move(segment));
}

absl::Status SqlStore::ReleaseAllForgotten() {
  int64_t last = 0;
  {
    const ReaderPool::Reader reader = readers_.Take();
    const absl::StatusOr<int64_t> number = LastSegmentNumber(*reader);
    if (!number.ok()) return number.status();
    last = *number;
  }
  for (; last > 0; last -= kReleaseSlice) {
    const absl::Status status = Transact([&](Database& database) {
      return ReleaseForgotten(database, last - kReleaseSlice + 1, last);
    });
    if (!status.ok() && !absl::IsDataLoss(status)) return status;  // Check reports damage
  }
  return absl::OkStatus();
}

absl::Status SqlStore::KeepWithin(uint64_t max_bytes) {
  while (true) {
    {
      const ReaderPool::Reader reader = readers_.Take();
      const absl::StatusOr<uint64_t> bytes = FileBytes(*reader);
      if (!bytes.ok()) return bytes.status();
      const absl::StatusOr<uint64_t> dead = DeadBytes(*reader);
      if (!dead.ok()) return dead.status();
      if (*bytes <= *dead || *bytes - *dead <= max_bytes) return absl::OkStatus();
    }
    bool has_removed = false;
    const absl::Status status = Transact([&](Database& database) {
      const absl::StatusOr<size_t> removed = RemoveOldestSnapshots(database, kRemoveSlice);
      has_removed = removed.ok() && *removed > 0;
      return removed.status();
    });
    if (!status.ok() || !has_removed) return status;
  }
}

absl::StatusOr<uint64_t> SqlStore::RemoveDeadFiles(absl::Time now, absl::Duration age) {
  {
    const ReaderPool::Reader reader = readers_.Take();
    const absl::StatusOr<bool> has_work = HasDeadFiles(*reader, now, age);
    if (!has_work.ok()) return has_work.status();
    if (!*has_work) return uint64_t{0};
  }
  std::vector<DeadFile> files;
  absl::Status status = Transact([&](Database& database) {
    absl::StatusOr<std::vector<DeadFile>> old = OldDeadFiles(database, now, age, kDeadSlice);
    if (!old.ok()) return old.status();
    files = *std::move(old);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (files.empty()) return uint64_t{0};
  absl::Status failed;
  std::erase_if(files, [&](const DeadFile& file) {
    const absl::Status removed = files_.directory().Remove(file.name);
    failed.Update(removed);
    return !removed.ok();
  });
  uint64_t bytes = 0;
  status = Transact([&](Database& database) {
    for (const DeadFile& file : files) {
      const absl::StatusOr<bool> was_there = ForgetDeadFile(database, file.name);
      if (!was_there.ok()) return was_there.status();
      if (*was_there) bytes += file.bytes;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  files_.CountRemoved(bytes);
  if (!failed.ok()) return failed;
  return bytes;
}

absl::StatusOr<uint64_t> SqlStore::CollectSegments(const SegmentCollection& collection) {
  uint64_t max_bytes = UINT64_MAX;
  if (collection.max_bytes) {
    max_bytes = *collection.max_bytes;
  } else {
    const absl::StatusOr<DiskRoom> room = files_.directory().Room();
    if (!room.ok()) return room.status();
    if (room->capacity > 0) max_bytes = room->capacity / 2;
  }
  if (absl::Status status = KeepWithin(max_bytes); !status.ok()) return status;
  uint64_t bytes = 0;
  while (true) {
    const absl::StatusOr<uint64_t> removed =
        RemoveDeadFiles(collection.now, collection.remove_after);
    if (!removed.ok()) return removed.status();
    if (*removed == 0) return bytes;
    bytes += *removed;
  }
}

absl::StatusOr<bool> SqlStore::ResealSegment(const TenantSegment& old, Unsealed unsealed) {
  const absl::StatusOr<std::shared_ptr<WrittenSegments>> written =
      SealAgain(files_, old.segment, unsealed);
  if (!written.ok()) return written.status();
  if (*written == nullptr) return false;
  auto& files = static_cast<WrittenFiles&>(**written);
  absl::Status status = Transact([&](Database& database) {
    return PutSegment(database, old.tenant, files.segments().front());
  });
  if (status.ok() || absl::IsUnknown(status)) files.NoteRow(0);
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<SqlStore::Resealed> SqlStore::Reseal(Unsealed unsealed) {
  Resealed done;
  // Segments that are sealed anew get new rows behind all others.
  for (int64_t after = 0; after != INT64_MAX;) {
    absl::StatusOr<SegmentPage> page = absl::UnknownError("");
    {
      const ReaderPool::Reader reader = readers_.Take();
      page = ReadSegmentPage(*reader, &after);
    }
    if (!page.ok()) return page.status();
    std::move(page->damaged.begin(), page->damaged.end(), std::back_inserter(done.faults));
    for (const TenantSegment& segment : page->segments) {
      const absl::StatusOr<bool> resealed = ResealSegment(segment, unsealed);
      if (resealed.ok()) {
        done.segments += *resealed ? 1 : 0;
      } else if (absl::IsDataLoss(resealed.status()) ||
                 absl::IsFailedPrecondition(resealed.status())) {
        done.faults.emplace_back(resealed.status().message());
      } else {
        return resealed.status();
      }
    }
  }
  return done;
}

}  // namespace longstream::store
