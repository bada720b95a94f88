// The records of a session's file (docs/durability.md, Session files).
#ifndef LONGSTREAM_SERVICE_SERVING_FILE_FILE_RECORDS_H_
#define LONGSTREAM_SERVICE_SERVING_FILE_FILE_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/host_memory/host_memory.h"

namespace longstream {

enum class RecordKind : uint32_t {
  kSession = 1,  // file.Session; the first record
  kTurn = 2,     // file.Turn; as many as file.Session says
  kCaches = 3,   // a span and a fixed block (docs/snapshots.md), if file.Session says so
  kEnd = 4,      // the last record, without data
};

// The context of a sealed file of a session (BlockCipher).
inline constexpr std::string_view kSealedFileContext = "longstream session file\n";

// A larger record, but for kCaches, is refused.
inline constexpr uint64_t kMaxRecordBytes = uint64_t{64} << 20;

// Makes the bytes of the records. Each record's checksum covers its header and its data, and the
// checksum of the record before it. So a record that is missing or moved is noticed. The data of
// kCaches have checksums of their own.
class RecordWriter {
 public:
  // The beginning of the file.
  std::string Begin();
  // A record of another kind than kCaches.
  std::string Record(RecordKind kind, std::string_view data);
  // The header of a record of kCaches, whose data follow.
  std::string CachesHeader(uint64_t bytes);

 private:
  std::string Header(RecordKind kind, uint64_t size, std::string_view checked);

  uint32_t chain_ = 0;
};

// Reads records from bytes that come in pieces. Trusts nothing. Not thread-safe.
class RecordReader {
 public:
  // `memory` counts the bytes that wait; nullptr: nothing counts them. Outlives the reader.
  explicit RecordReader(HostMemory* memory) : charge_(memory) {}

  // A record, or the next piece of the data of kCaches. `data` is valid until the next call.
  struct Record {
    RecordKind kind = RecordKind::kEnd;
    std::string_view data;
    bool is_last_piece = true;  // of the record
  };

  // Adds the next bytes of the file. RESOURCE_EXHAUSTED: the host's memory has no room for them.
  absl::Status Add(std::string_view bytes);
  // The next record, if enough bytes are there. DATA_LOSS: the bytes are not those of a session's
  // file, or are damaged. FAILED_PRECONDITION: another version of the format.
  absl::StatusOr<std::optional<Record>> Next();

  // The number of bytes that records have taken.
  uint64_t offset() const { return offset_; }
  // Whether bytes are there that no record has taken.
  bool has_rest() const { return begin_ < buffer_.size(); }

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  void Take(size_t bytes);
  absl::Status ReadBegin();
  absl::Status Damaged(const std::string& how) const;

  HostCharge charge_;
  std::string buffer_;
  size_t begin_ = 0;  // the bytes before it are taken
  uint64_t offset_ = 0;
  uint32_t chain_ = 0;
  bool has_begun_ = false;
  uint64_t caches_left_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FILE_FILE_RECORDS_H_
