// Reads the next message when the one before is written.
#include "service/server/relay/relayed_turn.h"

#include <utility>

namespace longstream {

void RelayedTurn::Begin(Relays& relays, RelayRequest request) {
  request.on_message = [self = shared_from_this()](v1::GenerateResponse message) {
    self->OnMessage(std::move(message));
  };
  request.on_end = [self = shared_from_this()](const absl::Status& status) { self->OnEnd(status); };
  // A message may come before Relay has returned; its Written waits for the lock.
  absl::MutexLock lock(&mutex_);
  stream_ = relays.Relay(std::move(request));
  if (cancelled_) stream_->Cancel();
}

void RelayedTurn::OnMessage(v1::GenerateResponse message) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = true;
  }
  call_.write(std::move(message));
}

void RelayedTurn::Written(bool ok) {
  std::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    end = std::exchange(end_, std::nullopt);
    if (!end.has_value()) ok ? stream_->Next() : stream_->Cancel();
  }
  if (end.has_value()) call_.finish(*end);
}

void RelayedTurn::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

void RelayedTurn::OnEnd(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (writing_) {
      end_ = status;
      return;
    }
  }
  call_.finish(status);
}

}  // namespace longstream
