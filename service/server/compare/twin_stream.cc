// Decides which message goes next.
#include "service/server/compare/twin_stream.h"

#include <utility>

namespace longstream {

bool TwinStream::Begin(Source source) {
  absl::MutexLock lock(&mutex_);
  if (!in_flight_.has_value()) {
    in_flight_ = source;
    return true;
  }
  (source == Source::kTurn ? turn_waits_ : twin_waits_) = true;
  return false;
}

std::optional<TwinStream::Source> TwinStream::Next() {
  absl::MutexLock lock(&mutex_);
  const std::optional<Source> last = std::exchange(in_flight_, std::nullopt);
  const bool turn_first = last != Source::kTurn;
  for (const bool is_turn : {turn_first, !turn_first}) {
    if (!std::exchange(is_turn ? turn_waits_ : twin_waits_, false)) continue;
    in_flight_ = is_turn ? Source::kTurn : Source::kTwin;
    break;
  }
  return in_flight_;
}

void TwinStream::Go(Source source) {
  if (source == Source::kTwin) return WriteRows();
  message_ != nullptr ? writer_->Write(message_) : writer_->WriteEnd();
}

void TwinStream::WriteRows() {
  uint64_t end = 0;
  {
    absl::MutexLock lock(&mutex_);
    end = written_tokens_;
  }
  rows_.Clear();
  if (twin_->TakeRows(end, rows_.mutable_twin())) return writer_->Write(&rows_);
  if (const std::optional<Source> next = Next()) Go(*next);
}

void TwinStream::Write(const v1::GenerateResponse* message, uint64_t tokens) {
  message_ = message;
  {
    absl::MutexLock lock(&mutex_);
    told_tokens_ += tokens;
  }
  if (Begin(Source::kTurn)) Go(Source::kTurn);
}

void TwinStream::End() {
  message_ = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  }
  TryToEnd();
}

void TwinStream::TryToEnd() {
  const bool is_done = twin_->IsDone();
  {
    absl::MutexLock lock(&mutex_);
    if (!has_ended_ || !is_done || std::exchange(ends_, true)) return;
  }
  if (Begin(Source::kTurn)) Go(Source::kTurn);
}

bool TwinStream::Written() {
  bool is_turn = false;
  {
    absl::MutexLock lock(&mutex_);
    is_turn = in_flight_ == Source::kTurn;
    if (is_turn) written_tokens_ = told_tokens_;
  }
  if (const std::optional<Source> next = Next()) Go(*next);
  return is_turn;
}

void TwinStream::Look() {
  uint64_t end = 0;
  {
    absl::MutexLock lock(&mutex_);
    end = written_tokens_;
  }
  if (twin_->HasRows(end) && Begin(Source::kTwin)) WriteRows();
  TryToEnd();
}

}  // namespace longstream
