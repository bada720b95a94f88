// Reads a piece while the call sends the one before it.
#include "service/server/peer/caches/piece_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/caches/piece_bytes.h"

namespace longstream {

namespace {

bool IsLast(const PieceSource::Piece& piece) { return !piece.ok() || piece->has_end(); }

}  // namespace

std::optional<PieceSource::Piece> PieceSource::Next(Ready ready) {
  absl::MutexLock lock(&mutex_);
  std::optional<Piece> next = std::exchange(ahead_, std::nullopt);
  if (next.has_value()) {
    if (!IsLast(*next)) ReadAhead();
    return next;
  }
  ready_ = std::move(ready);
  if (!reading_) ReadAhead();
  return std::nullopt;
}

void PieceSource::ReadAhead() {
  reading_ = true;
  threads_->Run([self = shared_from_this()] { self->HasRead(self->Read()); });
}

void PieceSource::HasRead(Piece piece) {
  Ready ready;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (ready_ == nullptr) {
      ahead_ = std::move(piece);
      return;
    }
    ready.swap(ready_);
    if (!IsLast(piece)) ReadAhead();
  }
  ready(std::move(piece));
}

PieceSource::Piece PieceSource::Read() {
  peer::v1::CachePiece piece;
  if (!begun_) {
    begun_ = true;
    piece.set_header(reader_->header());
    return piece;
  }
  if (absl::Status status = reader_->Read(piece_bytes_, piece.mutable_data()); !status.ok()) {
    reader_.reset();
    return status;
  }
  bytes_ += piece.data().size();
  if (piece.data().size() > kMaxPieceBytes) {
    return absl::InternalError(absl::StrCat("a piece of caches has ", piece.data().size(),
                                            " bytes; at most ", kMaxPieceBytes, " are sent"));
  }
  if (piece.data().empty()) {
    reader_.reset();  // what it holds is free before the peer gets the end
    piece.mutable_end()->set_bytes(bytes_);
  }
  return piece;
}

}  // namespace longstream
