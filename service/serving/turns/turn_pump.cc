// Passes the events of a turn on, one at a time.
#include "service/serving/turns/turn_pump.h"

#include <functional>
#include <utility>
#include <variant>

namespace longstream {

absl::Status TurnPump::Start(NewTurn turn, TurnRequest request, std::shared_ptr<void> owner) {
  // A reader that attaches is not woken until it has called Next. So a Cancel during Start does not
  // call the sink.
  const bool attaches = request.outlives_reader;
  std::function<void()> wake = [this, owner = std::move(owner)] { Pump(); };
  turn_ = turn.Make(std::move(request), attaches ? nullptr : wake);
  if (attaches) {
    TurnStream::Place place;
    place.tokens = turn_.request().forced_tokens;
    absl::Status status = turn_.Attach(place, std::move(wake));
    if (!status.ok()) return status;
  }
  SetStarted();
  absl::Status status = turn.Start(turn_);
  if (!status.ok()) {
    turn_.Forget();  // the reader function holds the owner
  } else if (attaches) {
    Pump();
  }
  return status;
}

absl::Status TurnPump::Attach(TurnHandle turn, const TurnStream::Place& place,
                              std::shared_ptr<void> owner) {
  turn_ = std::move(turn);
  absl::Status status = turn_.Attach(place, [this, owner = std::move(owner)] { Pump(); });
  if (!status.ok()) return status;
  SetStarted();
  Pump();
  return status;
}

void TurnPump::SetStarted() {
  // Cancel stores its reason before it reads started_. So either this finds the reason, or Cancel
  // finds the handle set.
  started_.store(true);
  absl::Status reason;
  {
    absl::MutexLock lock(&mutex_);
    reason = cancel_reason_;
  }
  if (!reason.ok()) CancelTurn(reason);
}

void TurnPump::CancelTurn(const absl::Status& reason) {
  turn_.outlives_reader() ? turn_.Leave() : turn_.Cancel(reason);
}

void TurnPump::Cancel(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (cancel_reason_.ok()) cancel_reason_ = reason;
  }
  if (started_.load()) CancelTurn(reason);
}

void TurnPump::Written(bool ok) {
  if (!ok) {
    Cancel(absl::CancelledError("the caller cancelled the turn"));
  } else if (position_ > 0) {
    turn_.Delivered(position_);
  }
  Pump();
}

void TurnPump::Pump() {
  while (true) {
    const TurnStream::Item item = turn_.Next();
    if (std::holds_alternative<std::monostate>(item)) return;
    if (const auto* end = std::get_if<TurnEnd>(&item)) {
      turn_.Forget();  // the reader function holds the owner; Pump's caller holds it too
      return sink_->OnEnd(*end);
    }
    const auto& event = std::get<TurnEvent>(item);
    if (const auto* delta = std::get_if<DeltaEvent>(&event)) position_ = delta->position;
    if (sink_->OnEvent(event)) return;
  }
}

}  // namespace longstream
