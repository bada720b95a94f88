// Work that the engine does while it has no turn.
#include <utility>

#include "service/engine/engine.h"

namespace longstream {

void Engine::RunWhenIdle(std::unique_ptr<IdleWork> work) {
  Post([this, work = std::move(work)]() mutable {
    // Otherwise it ends here, with the message.
    if (!gave_up_ && !has_ended_) idle_work_.push_back(std::move(work));
  });
}

bool Engine::RunIdleWork() {
  if (idle_work_.empty() || !waiting_.empty() || !running_.empty()) return false;
  if (!idle_work_.front()->Run(model_->backend())) idle_work_.pop_front();
  return true;
}

void Engine::YieldIdleWork() {
  for (const std::unique_ptr<IdleWork>& work : idle_work_) work->Yield();
}

}  // namespace longstream
