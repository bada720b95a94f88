// Counts the uses of engines.
#include "service/serving/engines/engine_uses.h"

namespace longstream {

absl::Status EngineUses::AddSession(const Engine& engine) {
  absl::MutexLock lock(&mutex_);
  if (engine.unloading()) return engine.CheckOpen();
  ++counts_[&engine].sessions;
  return absl::OkStatus();
}

void EngineUses::RemoveSession(const Engine& engine) {
  absl::MutexLock lock(&mutex_);
  --counts_[&engine].sessions;
  Tidy(engine);
}

std::shared_ptr<void> EngineUses::Hold(const std::shared_ptr<Engine>& engine) {
  absl::MutexLock lock(&mutex_);
  if (engine->unloading()) return nullptr;
  ++counts_[engine.get()].calls;
  // The call may outlive the owner of this object.
  return {engine.get(),
          [self = shared_from_this(), engine](void*) { self->End(*engine, &Count::calls); }};
}

std::shared_ptr<void> EngineUses::BeginMove(const std::shared_ptr<Engine>& from, size_t most) {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(from.get());
  if (found != counts_.end() && found->second.moves >= most) return nullptr;
  ++counts_[from.get()].moves;
  return {from.get(),
          [self = shared_from_this(), from](void*) { self->End(*from, &Count::moves); }};
}

void EngineUses::End(const Engine& engine, size_t Count::*use) {
  absl::MutexLock lock(&mutex_);
  --(counts_[&engine].*use);
  Tidy(engine);
}

void EngineUses::Tidy(const Engine& engine) {
  const auto found = counts_.find(&engine);
  if (found->second == Count{}) counts_.erase(found);
}

EngineUses::Count EngineUses::of(const Engine& engine) const {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(&engine);
  return found == counts_.end() ? Count{} : found->second;
}

bool EngineUses::UnloadIfFree(Engine& engine) {
  absl::MutexLock lock(&mutex_);
  // A turn without a session has a call that holds the engine until the turn is counted there.
  if (counts_.contains(&engine) || engine.num_turns() > 0) return false;
  engine.BeginUnload();
  return true;
}

bool EngineUses::UnloadIfNoCall(Engine& engine) {
  absl::MutexLock lock(&mutex_);
  const auto found = counts_.find(&engine);
  if (found != counts_.end() && found->second.calls > 0) return false;
  engine.BeginUnload();
  return true;
}

}  // namespace longstream
