// A server may collect segments meanwhile, so a fault counts only if its row is still there.
#include "service/sessions/store/sql/check_segments.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/segments/sealed_segments.h"
#include "service/sessions/store/sql/segment_rows.h"
#include "service/sessions/store/sql/snapshots.h"

namespace longstream::store {
namespace {

constexpr int64_t kPage = 100;  // rows that are in memory at once, of up to 64 KiB each
constexpr absl::Duration kMayGetRow = absl::Minutes(10);

absl::Status ReadAll(SegmentFiles& files, const StoredSegment& segment) {
  absl::StatusOr<std::unique_ptr<SegmentReader>> reader =
      files.sealing().keys == nullptr ? files.NewStoredReader(segment) : files.NewReader(segment);
  if (!reader.ok()) return reader.status();
  return ReadPieces(**reader, [](std::string_view) { return absl::OkStatus(); });
}

bool StillHas(const WithDatabase& with_database, const TenantSegment& checked) {
  bool has = false;
  with_database([&](Database& database) {
    const absl::StatusOr<StoredSegment> now =
        FindStoredSegment(database, checked.tenant, checked.segment.row.key);
    has = now.ok() && now->file == checked.segment.file;
  });
  return has;
}

absl::Status CheckSegments(const WithDatabase& with_database, SegmentFiles& files, size_t limit,
                           std::vector<std::string>* faults) {
  for (int64_t after = 0; after != INT64_MAX;) {
    absl::StatusOr<SegmentPage> page = absl::UnknownError("");
    with_database([&](Database& database) { page = ReadSegmentPage(database, &after); });
    if (!page.ok()) return page.status();
    for (const TenantSegment& checked : page->segments) {
      if (faults->size() >= limit) return absl::OkStatus();
      const absl::Status status = ReadAll(files, checked.segment);
      if (!status.ok() && StillHas(with_database, checked)) {
        faults->emplace_back(status.message());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOrphans(const WithDatabase& with_database, SegmentDirectory& directory,
                          absl::Time now, size_t limit, std::vector<std::string>* faults) {
  absl::StatusOr<std::vector<std::string>> names = directory.List();
  if (!names.ok()) return names.status();
  absl::StatusOr<NamedFiles> named = absl::UnknownError("");
  with_database([&](Database& database) { named = FilesWithRows(database); });
  if (!named.ok()) return named.status();
  for (const std::string& name : SegmentNamesWithout(*std::move(names), std::move(named->names))) {
    if (faults->size() >= limit) break;
    if (!IsOrphan(directory, name, now - kMayGetRow)) continue;
    faults->push_back(absl::StrCat("store: the file ", name,
                                   " of segments has no row; the next start removes it"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsOrphan(SegmentDirectory& directory, const std::string& name, absl::Time before) {
  const absl::StatusOr<std::unique_ptr<InputFile>> file = directory.Open(name);
  if (!file.ok()) return false;
  const absl::StatusOr<FileInfo> info = (*file)->Info();
  return info.ok() && info->write_time < before;
}

absl::StatusOr<SegmentPage> ReadSegmentPage(Database& database, int64_t* after) {
  absl::StatusOr<StatementUse> select =
      database.Use("SELECT " LONGSTREAM_SEGMENT_COLUMNS
                   ", data, number FROM segments WHERE number > ?1 ORDER BY number LIMIT ?2");
  if (!select.ok()) return select.status();
  (*select)->Bind(0, *after);
  (*select)->Bind(1, kPage);
  SegmentPage page;
  bool found = false;
  Stepped code;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    found = true;
    *after = (*select)->Int(11);
    absl::StatusOr<StoredSegment> segment = ReadSegmentRow(**select);
    if (segment.ok()) {
      page.segments.push_back({(*select)->Bytes(0), *std::move(segment)});
    } else {
      page.damaged.emplace_back(segment.status().message());
    }
  }
  if (code != Stepped::kDone) return database.Error("read segments");
  if (!found) *after = INT64_MAX;
  return page;
}

absl::StatusOr<NamedFiles> FilesWithRows(Database& database) {
  absl::StatusOr<StatementUse> select = database.Use(
      "SELECT file, bytes FROM segments WHERE file IS NOT NULL"
      " UNION ALL SELECT file, bytes FROM dead_segments");
  if (!select.ok()) return select.status();
  NamedFiles named;
  Stepped code;
  while ((code = (*select)->Step()) == Stepped::kRow) {
    named.names.push_back((*select)->Bytes(0));
    named.bytes += static_cast<uint64_t>((*select)->Int(1));
  }
  if (code != Stepped::kDone) return database.Error("read the names of segments' files");
  return named;
}

void CheckSegmentFiles(const WithDatabase& with_database, SegmentFiles& files, absl::Time now,
                       size_t limit, std::vector<std::string>* faults) {
  absl::Status status = CheckSegments(with_database, files, limit, faults);
  if (status.ok()) status = CheckOrphans(with_database, files.directory(), now, limit, faults);
  if (!status.ok() && faults->size() < limit) faults->emplace_back(status.message());
}

}  // namespace longstream::store
