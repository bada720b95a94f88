// Frames records: a header with kind, checksum and size, then the data.
#include "service/serving/file/file_records.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr std::string_view kMagic = "LNSGSESS";
constexpr uint32_t kVersion = 1;
constexpr size_t kBeginBytes = 12;   // magic, version
constexpr size_t kHeaderBytes = 16;  // kind, checksum, size

// Numbers are little-endian, whatever the processor.
void PutNumber(uint64_t number, size_t bytes, std::string* to) {
  for (size_t i = 0; i < bytes; ++i) to->push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t GetNumber(std::string_view from, size_t offset, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes; ++i) {
    number |= uint64_t{static_cast<unsigned char>(from[offset + i])} << (8 * i);
  }
  return number;
}

uint32_t Extend(uint32_t crc, std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The checksum of a record. `chain`: that of the record before it.
uint32_t Checksum(uint32_t chain, RecordKind kind, uint64_t size, std::string_view checked) {
  std::string head;
  PutNumber(chain, 4, &head);
  PutNumber(static_cast<uint32_t>(kind), 4, &head);
  PutNumber(size, 8, &head);
  return Extend(Extend(0, head), checked);
}

}  // namespace

std::string RecordWriter::Begin() {
  std::string begin(kMagic);
  PutNumber(kVersion, 4, &begin);
  chain_ = Extend(0, begin);
  return begin;
}

std::string RecordWriter::Header(RecordKind kind, uint64_t size, std::string_view checked) {
  chain_ = Checksum(chain_, kind, size, checked);
  std::string header;
  PutNumber(static_cast<uint32_t>(kind), 4, &header);
  PutNumber(chain_, 4, &header);
  PutNumber(size, 8, &header);
  return header;
}

std::string RecordWriter::Record(RecordKind kind, std::string_view data) {
  std::string record = Header(kind, data.size(), data);
  record += data;
  return record;
}

std::string RecordWriter::CachesHeader(uint64_t bytes) {
  return Header(RecordKind::kCaches, bytes, "");
}

absl::Status RecordReader::Damaged(const std::string& how) const {
  return absl::DataLossError(absl::StrCat("file: byte ", offset_, ": ", how));
}

absl::Status RecordReader::Add(std::string_view bytes) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const uint64_t room = BlockBytes(buffer_.size() + bytes.size());
  if (room > charge_.bytes()) {
    if (absl::Status status = charge_.Add(room - charge_.bytes()); !status.ok()) return status;
  }
  buffer_ += bytes;
  return absl::OkStatus();
}

void RecordReader::Take(size_t bytes) {
  begin_ += bytes;
  offset_ += bytes;
}

absl::Status RecordReader::ReadBegin() {
  const std::string_view begin = rest().substr(0, kBeginBytes);
  if (!begin.starts_with(kMagic)) return Damaged("this is not the file of a session");
  const uint64_t version = GetNumber(begin, kMagic.size(), 4);
  if (version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("file: it has version ", version, "; this program reads version ", kVersion));
  }
  chain_ = Extend(0, begin);
  Take(kBeginBytes);
  has_begun_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RecordReader::Record>> RecordReader::Next() {
  if (!has_begun_) {
    if (rest().size() < kBeginBytes) return std::nullopt;
    if (absl::Status status = ReadBegin(); !status.ok()) return status;
  }
  Record record;
  if (caches_left_ > 0) {
    if (rest().empty()) return std::nullopt;
    record.kind = RecordKind::kCaches;
    record.data = rest().substr(0, std::min<uint64_t>(caches_left_, rest().size()));
    caches_left_ -= record.data.size();
    record.is_last_piece = caches_left_ == 0;
    Take(record.data.size());
    return record;
  }
  if (rest().size() < kHeaderBytes) return std::nullopt;
  const std::string_view header = rest();
  record.kind = static_cast<RecordKind>(GetNumber(header, 0, 4));
  const uint32_t checksum = static_cast<uint32_t>(GetNumber(header, 4, 4));
  const uint64_t size = GetNumber(header, 8, 8);
  const bool is_caches = record.kind == RecordKind::kCaches;
  const bool is_known = record.kind >= RecordKind::kSession && record.kind <= RecordKind::kEnd;
  if (!is_known) return Damaged("there is no such kind of record");
  if (!is_caches && size > kMaxRecordBytes) {
    return Damaged(absl::StrCat("a record of ", size, " bytes; the limit is ", kMaxRecordBytes));
  }
  const uint64_t checked = is_caches ? 0 : size;
  if (header.size() - kHeaderBytes < checked) return std::nullopt;
  record.data = header.substr(kHeaderBytes, checked);
  if (Checksum(chain_, record.kind, size, record.data) != checksum) {
    return Damaged("the checksum of this record differs");
  }
  chain_ = checksum;
  Take(kHeaderBytes + checked);
  if (!is_caches || size == 0) return record;
  caches_left_ = size;
  return Next();
}

}  // namespace longstream
