// Turns come from the store one by one; caches come from a snapshot, beside the model's steps.
#include "service/serving/session_export.h"

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/serving/file/session_file_rows.h"
#include "service/serving/log/turn_codec.h"

namespace longstream {

SessionExport::SessionExport(store::SessionStore* store, store::SessionRow row,
                             std::shared_ptr<Engine> engine, Snapshot snapshot,
                             const Sealing& sealing, std::shared_ptr<TransferPlace> place)
    : store_(store),
      row_(std::move(row)),
      engine_(std::move(engine)),
      place_(std::move(place)),
      snapshot_(std::move(snapshot)) {
  if (sealing.keys != nullptr) sealer_.emplace(sealing, kSealedFileContext);
}

SessionExport::~SessionExport() {
  if (snapshot_.valid()) FreeSnapshot();
  place_->Return();
}

void SessionExport::FreeSnapshot() {
  place_->caches().Set(0);
  engine_->Free(std::move(snapshot_));  // looks at the turns that wait for the quota
}

absl::Status SessionExport::Begin(std::string* bytes) {
  if (row_.head != store::kNoTurn) {
    absl::Status status = store_->VisitLinks(row_.head, [this](const store::TurnRow& turn) {
      turns_.push_back(turn.number);
      return true;
    });
    if (!status.ok()) return status;
  }
  absl::StatusOr<LoggedProperties> properties = DecodeProperties(row_.properties);
  if (!properties.ok()) return properties.status();
  // In the file, turns are numbered from 1.
  std::erase_if(properties->cuts, [this](LoggedProperties::Cut& cut) {
    const auto found = std::find(turns_.rbegin(), turns_.rend(), cut.turn);
    cut.turn = found - turns_.rbegin() + 1;
    return found == turns_.rend();
  });
  FileSession session{row_, turns_.size(), 0, 0};
  session.row.properties = EncodeProperties(*properties);
  if (snapshot_.valid()) {
    session.caches_position = snapshot_.info().position;
    session.caches_bytes = snapshot_.info().span_bytes + snapshot_.info().fixed_bytes;
  }
  *bytes += writer_.Begin();
  *bytes += writer_.Record(RecordKind::kSession, EncodeFileSession(session));
  has_begun_ = true;
  return absl::OkStatus();
}

absl::Status SessionExport::Read(size_t size, std::string* bytes) {
  if (!sealer_.has_value()) return ReadPlain(size, bytes);
  bytes->clear();
  // The last piece may take several calls, because the sealer holds a block back.
  while (bytes->empty() && !is_sealed_) {
    if (absl::Status status = ReadPlain(size, &plain_); !status.ok()) return status;
    is_sealed_ = plain_.empty();
    if (is_sealed_) {
      sealer_->Finish(bytes);
    } else {
      sealer_->Add(plain_, bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status SessionExport::ReadPlain(size_t size, std::string* bytes) {
  bytes->clear();
  absl::Status status = has_begun_ ? absl::OkStatus() : Begin(bytes);
  while (status.ok() && bytes->size() < size && !is_complete_) {
    status = turns_.empty() ? ReadCaches(size - bytes->size(), bytes) : ReadTurn(bytes);
  }
  return status;
}

absl::Status SessionExport::ReadTurn(std::string* bytes) {
  absl::StatusOr<store::TurnRow> turn = store_->Turn(turns_.back());
  if (!turn.ok()) return turn.status();
  const absl::StatusOr<std::string> record = EncodeFileTurn(*std::move(turn), row_.key.id);
  if (!record.ok()) return record.status();
  if (record->size() > kMaxRecordBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("session_id: a turn of session ", row_.key.id.ToString(), " has ",
                     record->size(), " bytes; the limit of a file is ", kMaxRecordBytes));
  }
  *bytes += writer_.Record(RecordKind::kTurn, *record);
  turns_.pop_back();
  return absl::OkStatus();
}

absl::Status SessionExport::ReadCaches(size_t size, std::string* bytes) {
  if (snapshot_.valid()) {
    if (!has_caches_header_) {
      *bytes += writer_.CachesHeader(snapshot_.info().span_bytes + snapshot_.info().fixed_bytes);
      has_caches_header_ = true;
    }
    const size_t begin = bytes->size();
    bytes->resize(begin + size);
    const absl::StatusOr<size_t> read =
        snapshot_.Read(segment_, std::as_writable_bytes(std::span(*bytes).subspan(begin)));
    bytes->resize(begin + read.value_or(0));
    if (!read.ok()) return read.status();
    if (*read == size) return absl::OkStatus();
    if (segment_ == Snapshot::Segment::kSpan) {
      segment_ = Snapshot::Segment::kFixed;
      return absl::OkStatus();
    }
    // Other sessions can have the pages as soon as they are read.
    FreeSnapshot();
  }
  *bytes += writer_.Record(RecordKind::kEnd, "");
  is_complete_ = true;
  return absl::OkStatus();
}

}  // namespace longstream
