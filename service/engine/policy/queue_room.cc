#include "service/engine/policy/queue_room.h"

#include <utility>

namespace longstream {

QueueRoom::QueueRoom(size_t most, size_t free, std::vector<size_t> parts)
    : most_(most), parts_(std::move(parts)), free_(free), queued_of_(parts_.size()) {}

std::unique_ptr<QueueRoom::Slot> QueueRoom::TryEnter(size_t tenant) {
  absl::MutexLock lock(&mutex_);
  const bool is_full = num_queued_ >= most_ + free_;
  // The turns of others do not take a tenant's own part of the queue.
  if (is_full && queued_of_[tenant] >= parts_[tenant]) return nullptr;
  ++num_queued_;
  ++queued_of_[tenant];
  return std::make_unique<Slot>(this, tenant);
}

void QueueRoom::Set(Slot& slot, State state) {
  const auto is_queued = [](State of) { return of == State::kWaits || of == State::kParked; };
  if (is_queued(slot.state_) && !is_queued(state)) {
    --num_queued_;
    --queued_of_[slot.tenant_];
  } else if (!is_queued(slot.state_) && is_queued(state)) {
    ++num_queued_;
    ++queued_of_[slot.tenant_];
  }
  slot.state_ = state;
}

void QueueRoom::Publish(size_t free, std::span<const Change> changes) {
  absl::MutexLock lock(&mutex_);
  free_ = free;
  for (const Change& change : changes) Set(*change.slot, change.state);
}

void QueueRoom::Slot::Leave() {
  if (state_ == State::kLeft) return;
  absl::MutexLock lock(&room_->mutex_);
  if (state_ == State::kPlaced) ++room_->free_;
  room_->Set(*this, State::kLeft);
}

void QueueRoom::Slot::WaitAgain() {
  absl::MutexLock lock(&room_->mutex_);
  room_->Set(*this, State::kWaits);
}

}  // namespace longstream
