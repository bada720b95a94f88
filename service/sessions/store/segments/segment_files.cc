// A segment stays in memory until it is long enough for a file.
#include "service/sessions/store/segments/segment_files.h"

#include <zlib.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "service/sealing/sealer.h"
#include "service/sessions/session_id.h"
#include "service/sessions/store/segments/sealed_segments.h"

namespace longstream::store {
namespace {

constexpr uint64_t kMaxRoomOfLog = uint64_t{1} << 30;

uint32_t Crc32(uint32_t before, std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string NewName() { return SessionId::Random().ToString(); }

// Whether NewName may have given this name.
bool IsNameOfSegment(const std::string& name) {
  const absl::StatusOr<SessionId> id = SessionId::Parse(name, "name");
  return id.ok() && id->ToString() == name;
}

class Writer final : public SegmentWriter {
 public:
  explicit Writer(SegmentFiles* files)
      : files_(files), written_(std::make_shared<WrittenFiles>(files)) {}
  ~Writer() override { files_->GiveUp(current_); }

  absl::Status Begin(const SegmentRow& row) override {
    if (absl::Status ended = End(); !ended.ok()) return ended;
    begun_ = true;
    current_.row = row;
    current_.row.bytes = 0;
    if (files_->sealing().keys != nullptr) sealer_.emplace(files_->sealing(), SealingContext(row));
    return files_->CheckRoom();
  }

  absl::Status Append(std::string_view bytes) override {
    if (!sealer_.has_value()) return Store(bytes);
    sealed_.clear();
    sealer_->Add(bytes, &sealed_);
    return Store(sealed_);
  }

  absl::StatusOr<std::shared_ptr<WrittenSegments>> Finish() override {
    if (absl::Status ended = End(); !ended.ok()) return ended;
    if (has_files_) {
      if (absl::Status status = files_->directory().Sync(); !status.ok()) return status;
    }
    return std::move(written_);
  }

 private:
  // Adds bytes to the segment as they are stored.
  absl::Status Store(std::string_view bytes) {
    current_.row.bytes += bytes.size();
    current_.checksum = Crc32(current_.checksum, bytes);
    if (file_ == nullptr && current_.data.size() + bytes.size() < kMinFileBytes) {
      current_.data.append(bytes);
      return absl::OkStatus();
    }
    const bool begins = file_ == nullptr;
    if (begins) {
      if (absl::Status made = MakeFile(); !made.ok()) return made;
    }
    files_->CountAdded(begins ? current_.row.bytes : bytes.size());
    absl::Status status = files_->CheckRoom();
    if (status.ok()) status = file_->Append(std::exchange(current_.data, {}));
    return status.ok() ? file_->Append(bytes) : status;
  }

  absl::Status MakeFile() {
    std::string name = NewName();
    absl::StatusOr<std::unique_ptr<OutputFile>> file = files_->directory().Create(name);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    current_.file = std::move(name);
    has_files_ = true;
    return absl::OkStatus();
  }

  // Ends the segment, if one has begun.
  absl::Status End() {
    if (sealer_.has_value()) {
      sealed_.clear();
      sealer_->Finish(&sealed_);
      sealer_.reset();
      if (absl::Status status = Store(sealed_); !status.ok()) return status;
    }
    if (file_ != nullptr) {
      if (absl::Status status = file_->Sync(); !status.ok()) return status;
      file_.reset();
    }
    if (begun_) written_->Add(std::exchange(current_, {}));
    begun_ = false;
    return absl::OkStatus();
  }

  SegmentFiles* const files_;
  std::shared_ptr<WrittenFiles> written_;
  bool begun_ = false;
  bool has_files_ = false;
  StoredSegment current_;         // while it has no file, its bytes are in `data`
  std::optional<Sealer> sealer_;  // of this segment, if it is sealed
  std::string sealed_;
  std::unique_ptr<OutputFile> file_;
};

class Reader final : public SegmentReader {
 public:
  // `file`: null if the bytes are in `segment.data`.
  Reader(StoredSegment segment, std::unique_ptr<InputFile> file)
      : segment_(std::move(segment)), file_(std::move(file)) {}

  const SegmentRow& row() const override { return segment_.row; }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    const auto left = static_cast<size_t>(segment_.row.bytes - position_);
    buffer = buffer.subspan(0, left);
    if (file_ == nullptr) {
      std::copy_n(segment_.data.begin() + static_cast<ptrdiff_t>(position_), buffer.size(),
                  buffer.begin());
    } else {
      const absl::StatusOr<size_t> got = file_->Read(buffer);
      if (!got.ok()) return got.status();
      if (*got < buffer.size()) return DamagedSegment(segment_, "is too short");
    }
    checksum_ = Crc32(checksum_, {buffer.data(), buffer.size()});
    position_ += buffer.size();
    if (position_ == segment_.row.bytes && checksum_ != segment_.checksum) {
      return DamagedSegment(segment_, "is damaged: its checksum differs");
    }
    return buffer.size();
  }

 private:
  const StoredSegment segment_;
  const std::unique_ptr<InputFile> file_;
  uint64_t position_ = 0;
  uint32_t checksum_ = 0;
};

}  // namespace

std::vector<std::string> SegmentNamesWithout(std::vector<std::string> names,
                                             std::vector<std::string> known) {
  std::erase_if(names, [](const std::string& name) { return !IsNameOfSegment(name); });
  std::sort(names.begin(), names.end());
  std::sort(known.begin(), known.end());
  std::vector<std::string> others;
  std::set_difference(names.begin(), names.end(), known.begin(), known.end(),
                      std::back_inserter(others));
  return others;
}

WrittenFiles::~WrittenFiles() {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (!has_row_[i]) files_->GiveUp(segments_[i]);
  }
}

void WrittenFiles::Add(StoredSegment segment) {
  bytes_in_memory_ += sizeof(StoredSegment) + sizeof(SegmentRow) + segment.data.size();
  rows_.push_back(segment.row);
  segments_.push_back(std::move(segment));
  has_row_.push_back(false);
}

std::unique_ptr<SegmentWriter> SegmentFiles::NewWriter() { return std::make_unique<Writer>(this); }

absl::StatusOr<std::unique_ptr<SegmentReader>> SegmentFiles::NewReader(StoredSegment segment) {
  absl::StatusOr<std::unique_ptr<SegmentReader>> stored = NewStoredReader(segment);
  if (!stored.ok()) return stored.status();
  return NewOpeningReader(std::move(segment), *std::move(stored), sealing_.keys);
}

absl::StatusOr<std::unique_ptr<SegmentReader>> SegmentFiles::NewStoredReader(
    StoredSegment segment) {
  std::unique_ptr<InputFile> input;
  uint64_t bytes = segment.data.size();
  if (!segment.file.empty()) {
    absl::StatusOr<std::unique_ptr<InputFile>> file = directory_->Open(segment.file);
    if (absl::IsNotFound(file.status())) return DamagedSegment(segment, "has no file");
    if (!file.ok()) return file.status();
    const absl::StatusOr<FileInfo> info = (*file)->Info();
    if (!info.ok()) return info.status();
    input = *std::move(file);
    bytes = info->bytes;
  }
  if (bytes != segment.row.bytes) {
    return DamagedSegment(segment, absl::StrCat("has ", bytes, " bytes, not ", segment.row.bytes));
  }
  return std::make_unique<Reader>(std::move(segment), std::move(input));
}

void SegmentFiles::GiveUp(const StoredSegment& segment) {
  if (segment.file.empty()) return;
  if (directory_->Remove(segment.file).ok()) CountRemoved(segment.row.bytes);
}

absl::Status SegmentFiles::RemoveOthers(std::vector<std::string> keep, uint64_t bytes) {
  bytes_ = bytes;
  absl::StatusOr<std::vector<std::string>> names = directory_->List();
  if (!names.ok()) return names.status();
  for (const std::string& name : SegmentNamesWithout(*std::move(names), std::move(keep))) {
    if (absl::Status status = directory_->Remove(name); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SegmentFiles::CheckRoom() {
  const absl::StatusOr<DiskRoom> room = directory_->Room();
  if (!room.ok()) return room.status();
  const uint64_t kept = std::min(kMaxRoomOfLog, room->capacity / 20);
  if (room->free > kept || room->capacity == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "store: the disk has ", room->free, " bytes left, and ", kept, " are kept for the log"));
}

}  // namespace longstream::store
