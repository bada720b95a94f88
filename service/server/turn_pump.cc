// Passes the events of a turn on, one at a time.
#include "service/server/turn_pump.h"

#include <utility>
#include <variant>

namespace longstream {

absl::Status TurnPump::Start(NewTurn turn, TurnRequest request, std::shared_ptr<void> owner) {
  turn_ = turn.Make(std::move(request), [this, owner = std::move(owner)] { Pump(); });
  // Cancel stores its reason before it reads started_. So either Start finds the reason here, or
  // Cancel finds the handle set.
  started_.store(true);
  absl::Status reason;
  {
    absl::MutexLock lock(&mutex_);
    reason = cancel_reason_;
  }
  if (!reason.ok()) turn_.Cancel(reason);
  absl::Status status = turn.Start(turn_);
  if (!status.ok()) turn_.SetReader(nullptr);  // the reader function holds the owner
  return status;
}

void TurnPump::Cancel(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (cancel_reason_.ok()) cancel_reason_ = reason;
  }
  if (started_.load()) turn_.Cancel(reason);
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
      turn_.SetReader(nullptr);  // the reader function holds the owner; Pump's caller holds it too
      return sink_->OnEnd(*end);
    }
    const auto& event = std::get<TurnEvent>(item);
    if (const auto* delta = std::get_if<DeltaEvent>(&event)) position_ = delta->position;
    if (sink_->OnEvent(event)) return;
  }
}

}  // namespace longstream
