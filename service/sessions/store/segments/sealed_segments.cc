// A sealed segment is opened block by block; another one must not look like a sealed one.
#include "service/sessions/store/segments/sealed_segments.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/sealing/sealed_block.h"
#include "service/sealing/unsealer.h"

namespace longstream::store {
namespace {

class SealedReader final : public SegmentReader {
 public:
  SealedReader(StoredSegment segment, std::unique_ptr<SegmentReader> stored,
               std::shared_ptr<const SealingKeys> keys)
      : segment_(std::move(segment)),
        stored_(std::move(stored)),
        unsealer_(std::move(keys), SealingContext(segment_.row)),
        piece_(kSealedBlockBytes) {}

  const SegmentRow& row() const override { return segment_.row; }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size()) {
      if (block_.empty()) {
        const absl::StatusOr<bool> found = NextBlock();
        if (!found.ok()) return found.status();
        if (!*found) break;
      }
      const size_t taken = std::min(block_.size(), buffer.size() - filled);
      std::copy_n(block_.begin(), taken, buffer.begin() + filled);
      block_.remove_prefix(taken);
      filled += taken;
    }
    return filled;
  }

 private:
  // False: the segment has ended, and all of it was right.
  absl::StatusOr<bool> NextBlock() {
    while (true) {
      const absl::StatusOr<std::optional<std::string_view>> block = unsealer_.Next();
      if (!block.ok()) return DamagedSegment(segment_, std::string(block.status().message()));
      if (block->has_value()) {
        block_ = **block;
        if (block_.empty()) continue;
        return true;
      }
      const absl::StatusOr<size_t> got = stored_->Read(absl::MakeSpan(piece_));
      if (!got.ok()) return got.status();
      if (*got == 0) break;
      unsealer_.Add({piece_.data(), *got});
    }
    const absl::Status complete = unsealer_.Finish();
    if (!complete.ok()) return DamagedSegment(segment_, std::string(complete.message()));
    return false;
  }

  const StoredSegment segment_;
  const std::unique_ptr<SegmentReader> stored_;
  Unsealer unsealer_;
  std::vector<char> piece_;
  std::string_view block_;  // what is left of it
};

class PlainReader final : public SegmentReader {
 public:
  PlainReader(StoredSegment segment, std::unique_ptr<SegmentReader> stored)
      : segment_(std::move(segment)), stored_(std::move(stored)) {}

  const SegmentRow& row() const override { return segment_.row; }

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    absl::StatusOr<size_t> got = stored_->Read(buffer);
    if (!got.ok()) return got.status();
    const size_t missing = kSealedMagic.size() - begin_.size();
    begin_.append(buffer.data(), std::min(missing, *got));
    if (IsSealed(begin_)) return DamagedSegment(segment_, "is sealed, and there are no keys");
    return got;
  }

 private:
  const StoredSegment segment_;
  const std::unique_ptr<SegmentReader> stored_;
  std::string begin_;  // the first bytes
};

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// The first bytes of the segment as it is stored.
absl::StatusOr<std::string> ReadHeader(SegmentFiles& files, const StoredSegment& segment) {
  const absl::StatusOr<std::unique_ptr<SegmentReader>> reader = files.NewStoredReader(segment);
  if (!reader.ok()) return reader.status();
  std::string header(kSealedHeaderBytes, '\0');
  const absl::StatusOr<size_t> got = (*reader)->Read(absl::MakeSpan(header.data(), header.size()));
  if (!got.ok()) return got.status();
  header.resize(*got);
  return header;
}

// A reader of a segment that must not be sealed.
absl::StatusOr<std::unique_ptr<SegmentReader>> NewPlainReader(SegmentFiles& files,
                                                              const StoredSegment& segment) {
  absl::StatusOr<std::unique_ptr<SegmentReader>> stored = files.NewStoredReader(segment);
  if (!stored.ok()) return stored.status();
  return NewOpeningReader(segment, *std::move(stored), /*keys=*/nullptr);
}

absl::StatusOr<std::shared_ptr<WrittenSegments>> Write(SegmentFiles& files, SegmentReader& from) {
  const std::unique_ptr<SegmentWriter> writer = files.NewWriter();
  if (absl::Status status = writer->Begin(from.row()); !status.ok()) return status;
  absl::Status status =
      ReadPieces(from, [&](std::string_view piece) { return writer->Append(piece); });
  if (!status.ok()) return status;
  return writer->Finish();
}

}  // namespace

absl::Status DamagedSegment(const StoredSegment& segment, const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("store: segment ", segment.row.key.ToString(), ", ",
                   segment.file.empty() ? "in a row" : "file " + segment.file, ", ", what));
}

std::string SealingContext(const SegmentRow& row) {
  return absl::StrCat("longstream segment\n", row.key.ToString(), "\n", static_cast<int>(row.kind),
                      "\n", row.begin, "\n", row.end, "\n",
                      row.previous ? row.previous->ToString() : "");
}

std::unique_ptr<SegmentReader> NewOpeningReader(StoredSegment segment,
                                                std::unique_ptr<SegmentReader> stored,
                                                std::shared_ptr<const SealingKeys> keys) {
  segment.data.clear();  // `stored` has it
  if (keys == nullptr) {
    return std::make_unique<PlainReader>(std::move(segment), std::move(stored));
  }
  return std::make_unique<SealedReader>(std::move(segment), std::move(stored), std::move(keys));
}

absl::Status ReadPieces(SegmentReader& from,
                        const std::function<absl::Status(std::string_view)>& take) {
  std::vector<char> piece(static_cast<size_t>(std::min(kPieceBytes, from.row().bytes + 1)));
  while (true) {
    const absl::StatusOr<size_t> got = from.Read(absl::MakeSpan(piece));
    if (!got.ok()) return got.status();
    if (absl::Status status = take({piece.data(), *got}); !status.ok()) return status;
    if (*got < piece.size()) return absl::OkStatus();
  }
}

absl::StatusOr<std::shared_ptr<WrittenSegments>> SealAgain(SegmentFiles& files,
                                                           const StoredSegment& segment,
                                                           Unsealed unsealed) {
  const absl::StatusOr<std::string> header = ReadHeader(files, segment);
  if (!header.ok()) return header.status();
  const bool is_sealed = IsSealed(*header);
  if (!is_sealed && unsealed == Unsealed::kRefuse) {
    return DamagedSegment(segment,
                          "is not sealed, so somebody without a key may have written it; to seal a "
                          "store for the first time, use --unsealed");
  }
  const absl::StatusOr<std::unique_ptr<SegmentReader>> reader =
      is_sealed ? files.NewReader(segment) : NewPlainReader(files, segment);
  if (!reader.ok()) return reader.status();
  if (SealedBy(*header) != files.sealing().keys->first().id) return Write(files, **reader);
  // The id says nothing about the key's bytes, or the file's: only opening the segment does.
  absl::Status opened = ReadPieces(**reader, [](std::string_view) { return absl::OkStatus(); });
  if (!opened.ok()) return opened;
  return nullptr;
}

}  // namespace longstream::store
