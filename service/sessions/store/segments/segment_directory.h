// A flat directory of files, with the few functions that segments need. A test replaces it by one
// that fails.
#ifndef LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_DIRECTORY_H_
#define LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace longstream::store {

// A file that is being written from its beginning to its end. The destructor closes it.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Makes the bytes durable, but not the file's name.
  virtual absl::Status Sync() = 0;
};

struct FileInfo {
  uint64_t bytes = 0;
  absl::Time write_time;  // of the last write
};

// A file that is being read from its beginning to its end. The destructor closes it.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual absl::StatusOr<FileInfo> Info() = 0;
  // Reads the next bytes; less than the buffer's size only at the end.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;
};

// How many bytes the directory's file system can hold (0: it does not say), and how many more it
// can take.
struct DiskRoom {
  uint64_t capacity = 0;
  uint64_t free = 0;
};

// Names have no slash, and files are no links; anything else is DATA_LOSS. Thread-safe; each file
// belongs to one thread at a time.
//
// Every function may fail with UNAVAILABLE, or RESOURCE_EXHAUSTED if the disk or the quota is full.
// The message names the file.
class SegmentDirectory {
 public:
  virtual ~SegmentDirectory() = default;

  // Makes a file. The name must be new.
  virtual absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& name) = 0;
  // NOT_FOUND: there is no such file.
  virtual absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& name) = 0;
  // OK if there is no such file.
  virtual absl::Status Remove(const std::string& name) = 0;
  // Makes the names of files durable.
  virtual absl::Status Sync() = 0;
  // The names of all files, in any order.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  virtual absl::StatusOr<DiskRoom> Room() = 0;
};

// The directory `path` of the system. It is made, with mode 0700, when the first file is.
std::unique_ptr<SegmentDirectory> NewPosixDirectory(std::string path);

}  // namespace longstream::store

#endif  // LONGSTREAM_SERVICE_SESSIONS_STORE_SEGMENTS_SEGMENT_DIRECTORY_H_
