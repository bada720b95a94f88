// Counts the parts of live work, and tells the end of the last one.
#include "service/engine/live_work.h"

#include <utility>

namespace longstream {

LiveWork::Part::Part(std::shared_ptr<LiveWork> of) : of_(std::move(of)) {
  absl::MutexLock lock(&of_->mutex_);
  ++of_->parts_;
  ++of_->begun_;
}

LiveWork::Part& LiveWork::Part::operator=(Part&& other) noexcept {
  if (this == &other) return *this;
  End();
  of_ = std::move(other.of_);
  return *this;
}

void LiveWork::Part::End() {
  const std::shared_ptr<LiveWork> of = std::exchange(of_, nullptr);
  if (of == nullptr) return;
  absl::MutexLock lock(&of->mutex_);
  if (--of->parts_ > 0) return;
  of->quiet_since_ = MonotonicTime::Now();
  for (const auto& [number, ended] : of->listeners_) ended();
}

LiveWork::Hold::Hold(std::shared_ptr<LiveWork> of) : of_(std::move(of)) {
  absl::MutexLock lock(&of_->mutex_);
  ++of_->holds_;
}

LiveWork::Hold::~Hold() {
  absl::MutexLock lock(&of_->mutex_);
  if (--of_->holds_ > 0) return;
  for (const auto& [number, ended] : of_->listeners_) ended();
}

LiveWork::Listener::Listener(std::shared_ptr<LiveWork> to, std::function<void()> ended)
    : to_(std::move(to)) {
  absl::MutexLock lock(&to_->mutex_);
  number_ = ++to_->last_listener_;
  to_->listeners_.emplace(number_, std::move(ended));
}

LiveWork::Listener::~Listener() {
  absl::MutexLock lock(&to_->mutex_);
  to_->listeners_.erase(number_);
}

}  // namespace longstream
