// Reads, writes and checks the rows of segments and snapshots.
#include "service/sessions/store/sql/segment_rows.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/sessions/store/sql/rows.h"

namespace longstream::store {
namespace {

std::string KeyBytes(const std::optional<SegmentKey>& key) {
  return key ? KeyBytes(*key) : std::string();
}

void BindBlobOrNull(Statement& statement, int parameter, std::string_view bytes) {
  if (bytes.empty()) {
    statement.BindNull(parameter);
  } else {
    statement.BindBlob(parameter, bytes);
  }
}

// `data` is covered by the checksum of the segment's bytes.
int64_t SegmentChecksum(std::string_view tenant, const StoredSegment& segment) {
  const SegmentRow& row = segment.row;
  return RowChecksum()
      .Add(tenant)
      .Add(KeyBytes(row.key))
      .Add(static_cast<int64_t>(row.kind))
      .Add(KeyBytes(row.previous))
      .Add(static_cast<int64_t>(row.begin))
      .Add(static_cast<int64_t>(row.end))
      .Add(static_cast<int64_t>(row.bytes))
      .Add(segment.checksum)
      .Add(segment.file)
      .value();
}

int64_t SnapshotChecksum(std::string_view tenant, const SnapshotRow& snapshot) {
  return RowChecksum()
      .Add(snapshot.turn)
      .Add(tenant)
      .Add(snapshot.cache)
      .Add(static_cast<int64_t>(snapshot.position))
      .Add(KeyBytes(snapshot.span))
      .Add(KeyBytes(snapshot.fixed))
      .value();
}

}  // namespace

std::string KeyBytes(const SegmentKey& key) { return {key.bytes.begin(), key.bytes.end()}; }

std::optional<SegmentKey> KeyOf(const std::string& bytes) {
  SegmentKey key;
  if (bytes.size() != key.bytes.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

absl::StatusOr<StoredSegment> ReadSegmentRow(const Statement& statement) {
  StoredSegment segment;
  SegmentRow& row = segment.row;
  const std::string tenant = statement.Bytes(0), key = statement.Bytes(1);
  row.key = KeyOf(key).value_or(SegmentKey{});
  row.kind = static_cast<SegmentKind>(statement.Int(2));
  row.previous = KeyOf(statement.Bytes(3));
  row.begin = static_cast<uint64_t>(statement.Int(4));
  row.end = static_cast<uint64_t>(statement.Int(5));
  row.bytes = static_cast<uint64_t>(statement.Int(6));
  segment.checksum = static_cast<uint32_t>(statement.Int(7));
  segment.file = statement.Bytes(8);
  segment.data = statement.Bytes(10);
  if (SegmentChecksum(tenant, segment) != statement.Int(9)) {
    return absl::DataLossError(absl::StrCat("store: the row of segment ",
                                            absl::BytesToHexString(key),
                                            " is damaged: its checksum differs"));
  }
  return segment;
}

BoundSegment::BoundSegment(Statement& statement, const std::string& tenant,
                           const StoredSegment& segment)
    : key_(KeyBytes(segment.row.key)), previous_(KeyBytes(segment.row.previous)) {
  const SegmentRow& row = segment.row;
  statement.BindText(0, tenant);
  statement.BindBlob(1, key_);
  statement.Bind(2, static_cast<int64_t>(row.kind));
  BindBlobOrNull(statement, 3, previous_);
  statement.Bind(4, static_cast<int64_t>(row.begin));
  statement.Bind(5, static_cast<int64_t>(row.end));
  statement.Bind(6, static_cast<int64_t>(row.bytes));
  statement.Bind(7, segment.checksum);
  if (segment.file.empty()) {
    statement.BindNull(8);
    statement.BindBlob(10, segment.data);
  } else {
    statement.BindText(8, segment.file);
    statement.BindNull(10);
  }
  statement.Bind(9, SegmentChecksum(tenant, segment));
}

absl::StatusOr<SnapshotRow> ReadSnapshot(const Statement& statement) {
  SnapshotRow snapshot;
  snapshot.turn = statement.Int(0);
  snapshot.cache = statement.Bytes(2);
  snapshot.position = static_cast<uint64_t>(statement.Int(3));
  snapshot.span = KeyOf(statement.Bytes(4));
  snapshot.fixed = KeyOf(statement.Bytes(5)).value_or(SegmentKey{});
  if (SnapshotChecksum(statement.Bytes(1), snapshot) != statement.Int(6)) {
    return absl::DataLossError(absl::StrCat("store: a snapshot of turn ", snapshot.turn,
                                            " is damaged: its checksum differs"));
  }
  return snapshot;
}

BoundSnapshot::BoundSnapshot(Statement& statement, const std::string& tenant,
                             const SnapshotRow& snapshot)
    : span_(KeyBytes(snapshot.span)), fixed_(KeyBytes(snapshot.fixed)) {
  statement.Bind(0, snapshot.turn);
  statement.BindText(1, tenant);
  statement.BindBlob(2, snapshot.cache);
  statement.Bind(3, static_cast<int64_t>(snapshot.position));
  BindBlobOrNull(statement, 4, span_);
  statement.BindBlob(5, fixed_);
  statement.Bind(6, SnapshotChecksum(tenant, snapshot));
}

}  // namespace longstream::store
