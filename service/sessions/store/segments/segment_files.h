// Segments as files: how they are written, read and removed.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_FILES_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_FILES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/segments.h"
#include "service/sessions/store/segments/segment_directory.h"

namespace longstream::store {

// A segment of fewer bytes has no file: a driver stores its bytes in its row.
inline constexpr size_t kMinFileBytes = size_t{64} << 10;

// A segment as a driver stores it.
struct StoredSegment {
  SegmentRow row;
  uint32_t checksum = 0;  // CRC-32 of the segment's bytes, of the sealed ones if it is sealed
  std::string file;       // the file's name; empty: the bytes are in `data`
  std::string data;
};

class SegmentFiles;

// Returns, sorted, the names that a file of a segment may have and that are not in `known`. Files
// with other names belong to somebody else, and the store must not remove them.
std::vector<std::string> SegmentNamesWithout(std::vector<std::string> names,
                                             std::vector<std::string> known);

// The segments that a writer of SegmentFiles has written. A driver notes which segments have got a
// row. The destructor removes the files of the others.
class WrittenFiles final : public WrittenSegments {
 public:
  // `files` must outlive this object.
  explicit WrittenFiles(SegmentFiles* files) : files_(files) {}
  ~WrittenFiles() override;

  const std::vector<SegmentRow>& rows() const override { return rows_; }
  size_t bytes_in_memory() const override { return bytes_in_memory_; }

  const std::vector<StoredSegment>& segments() const { return segments_; }
  void Add(StoredSegment segment);

  // The segment has got a row. One thread at a time may call these two functions.
  void NoteRow(size_t segment) { has_row_[segment] = true; }
  void ForgetRows() { has_row_.assign(has_row_.size(), false); }

 private:
  SegmentFiles* const files_;
  std::vector<SegmentRow> rows_;
  std::vector<StoredSegment> segments_;
  std::vector<bool> has_row_;
  size_t bytes_in_memory_ = 0;
};

// A file has a random name, and a segment that is written again has a new one. So a file never
// changes after it is written, no reader sees a part of one, and no name of a removed file returns.
// Because no row names a file before all its bytes are durable, it needs no temporary name.
//
// With keys, all segments are sealed, also those without a file, and no other ones are read:
// somebody who can change the disk but has no key could make others.
//
// Thread-safe.
class SegmentFiles {
 public:
  explicit SegmentFiles(std::unique_ptr<SegmentDirectory> directory, Sealing sealing = {})
      : directory_(std::move(directory)), sealing_(std::move(sealing)) {}

  // This object must outlive the writer and what it returns.
  std::unique_ptr<SegmentWriter> NewWriter();

  // A reader of a segment. DATA_LOSS: the file is missing or has another size.
  absl::StatusOr<std::unique_ptr<SegmentReader>> NewReader(StoredSegment segment);

  // A reader of a segment's bytes as they are stored.
  absl::StatusOr<std::unique_ptr<SegmentReader>> NewStoredReader(StoredSegment segment);

  const Sealing& sealing() const { return sealing_; }

  // Removes all files of segments that are not in `keep`, which together have `bytes` bytes. Files
  // that others are writing go, too.
  absl::Status RemoveOthers(std::vector<std::string> keep, uint64_t bytes);

  // Bytes of all files.
  uint64_t bytes() const { return bytes_; }

  SegmentDirectory& directory() { return *directory_; }

  // RESOURCE_EXHAUSTED: the disk has only the room that is kept for the log: 1 GiB or a twentieth
  // of the file system, whichever is less.
  absl::Status CheckRoom();

  // Bytes have been added to files, or files with so many bytes have been removed.
  void CountAdded(uint64_t bytes) { bytes_ += bytes; }
  void CountRemoved(uint64_t bytes) { bytes_ -= bytes; }

  // Gives up the file of a segment that has no row. It stays until the next start if this fails.
  void GiveUp(const StoredSegment& segment);

 private:
  const std::unique_ptr<SegmentDirectory> directory_;
  const Sealing sealing_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_FILES_H_
