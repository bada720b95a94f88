// Reads a piece when the call has sent the one before it.
#include "service/server/peer/caches/piece_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/caches/piece_bytes.h"

namespace longstream {

void PieceSource::Next(Ready ready) {
  threads_->Run([self = shared_from_this(), ready = std::move(ready)] { ready(self->Read()); });
}

absl::StatusOr<peer::v1::CachePiece> PieceSource::Read() {
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
