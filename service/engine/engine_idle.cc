// Work that the engine does while no engine has live work.
#include <utility>

#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/engine/policy/background.h"

namespace longstream {

void Engine::RunWhenIdle(std::unique_ptr<IdleWork> work) {
  Post([this, work = std::move(work)]() mutable {
    // Otherwise it ends here, with the message.
    if (gave_up_ || has_ended_) return;
    idle_work_.push_back(std::move(work));
    has_idle_work_.store(true);
  });
}

bool Engine::RunIdleWork() {
  idle_begins_ = MonotonicTime::InfiniteFuture();
  if (idle_work_.empty() || !waiting_.empty() || !running_.empty()) {
    idle_hold_.reset();
    return false;
  }
  const uint64_t begun = live_work_->num_begun();
  const MonotonicTime begins =
      BackgroundBegins(live_work_->QuietSince(), options_.background_pause);
  if (MonotonicTime::Now() < begins) {
    idle_begins_ = begins;  // if there is live work, its end wakes the engine
    idle_hold_.reset();
    return false;
  }
  if (!idle_hold_.has_value()) idle_hold_.emplace(live_work_);
  IdleWork& work = *idle_work_.front();
  const bool goes_on = work.Run(model_->backend());
  if (goes_on && live_work_->num_begun() != begun) work.Disturb();
  if (!goes_on) idle_work_.pop_front();
  has_idle_work_.store(!idle_work_.empty());
  if (idle_work_.empty()) idle_hold_.reset();
  return true;
}

void Engine::YieldIdleWork() {
  for (const std::unique_ptr<IdleWork>& work : idle_work_) work->Yield();
}

void Engine::DropIdleWork() {
  idle_work_.clear();
  has_idle_work_.store(false);
  idle_hold_.reset();
}

}  // namespace longstream
