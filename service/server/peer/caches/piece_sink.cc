// Checks the order of the pieces, and writes each of them on a thread that may wait.
#include "service/server/peer/caches/piece_sink.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/server/peer/caches/piece_bytes.h"

namespace longstream {
namespace {

// An error if the piece may not be the next one. `begun`: the header has come.
absl::Status CheckPiece(const peer::v1::CachePiece& piece, bool begun, uint64_t bytes) {
  using Piece = peer::v1::CachePiece;
  if (piece.piece_case() == Piece::PIECE_NOT_SET) {
    return absl::InvalidArgumentError("piece: expected header, data or end");
  }
  if (piece.has_header() == begun) {
    return absl::InvalidArgumentError(begun ? "piece.header: comes twice"
                                            : "piece: expected the header first");
  }
  const size_t size = std::max(piece.header().size(), piece.data().size());
  if (size > kMaxPieceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece: expected at most ", kMaxPieceBytes, " bytes, found ", size));
  }
  if (piece.has_end() && piece.end().bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "piece.end.bytes: expected ", bytes, ", which have come, found ", piece.end().bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

void PieceSink::Take(peer::v1::CachePiece piece, std::function<void(Taken)> then) {
  Writer writer;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    status = ended_ ? absl::CancelledError() : CheckPiece(piece, begin_ == nullptr, bytes_);
    if (status.ok()) {
      bytes_ += piece.data().size();
      writer = writer_;
      // The end has come: what happens to the call does not count any more.
      if (piece.has_end()) ended_ = true;
    }
  }
  if (!status.ok()) {
    Fail(status);
    threads_->Run([then = std::move(then)] { then(Taken::kFailed); });
    return;
  }
  auto self = shared_from_this();
  if (piece.has_header()) {
    threads_->Run(
        [self, header = std::move(*piece.mutable_header()), then = std::move(then)]() mutable {
          self->TakeHeader(header, std::move(then));
        });
  } else if (piece.has_data()) {
    threads_->Run(
        [self, writer = std::move(writer), data = std::move(*piece.mutable_data()),
         then = std::move(then)]() mutable { self->Write(std::move(writer), data, then); });
  } else {
    threads_->Run([self, writer = std::move(writer), then = std::move(then)]() mutable {
      self->Finish(std::move(writer), then);
    });
  }
}

void PieceSink::TakeHeader(const std::string& header, std::function<void(Taken)> then) {
  fleet::Peers::BeginCaches begin;
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_) begin.swap(begin_);
  }
  if (begin == nullptr) return then(Taken::kFailed);
  begin(header, [self = shared_from_this(), then = std::move(then)](absl::StatusOr<Writer> writer) {
    self->threads_->Run([self, then, writer = std::move(writer)]() mutable {
      self->SetWriter(std::move(writer), then);
    });
  });
}

void PieceSink::SetWriter(absl::StatusOr<Writer> writer, const std::function<void(Taken)>& then) {
  absl::Status status = writer.status();
  if (status.ok() && *writer == nullptr) status = absl::InternalError("there is no writer");
  if (!status.ok()) {
    Fail(status);
    return then(Taken::kFailed);
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_) writer_ = *writer;
  }
  then(ended() ? Taken::kFailed : Taken::kMore);
}

void PieceSink::Write(Writer writer, const std::string& data,
                      const std::function<void(Taken)>& then) {
  if (ended()) return then(Taken::kFailed);
  const absl::Status status = writer->Write(data);
  writer.reset();  // Fail may have left it to this function
  if (!status.ok()) Fail(status);
  then(ended() ? Taken::kFailed : Taken::kMore);
}

void PieceSink::Finish(Writer writer, const std::function<void(Taken)>& then) {
  const absl::Status status = writer->Finish();
  writer.reset();
  Arrived arrived;
  {
    absl::MutexLock lock(&mutex_);
    writer_.swap(writer);
    arrived.swap(arrived_);
  }
  writer.reset();  // if it has failed, what it has written is free before `arrived` says so
  arrived(status);
  then(status.ok() ? Taken::kComplete : Taken::kFailed);
}

void PieceSink::Fail(const absl::Status& why) {
  Arrived arrived;
  Writer writer;
  fleet::Peers::BeginCaches begin;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    arrived.swap(arrived_);
    writer.swap(writer_);
    begin.swap(begin_);
  }
  threads_->Run([arrived = std::move(arrived), writer = std::move(writer), why]() mutable {
    writer.reset();
    arrived(why);
  });
}

}  // namespace longstream
