// Turns in the background, and the live work that keeps them waiting.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/engine/policy/background.h"

namespace longstream {

absl::Status Engine::EnqueueBackground(std::shared_ptr<Turn> turn, TurnLease lease) {
  std::unique_ptr<QueueRoom::Slot> slot = background_.TryEnter();
  if (slot == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("model ", model_->name(), ": there are already ", BackgroundTurns::kMostTurns,
                     " turns in the background, the limit"));
  }
  turn->stream.SetWriter(
      options_.stream_buffer_bytes, [this] { Wake(); }, &wakes_);
  return PostTurn(
      [this, turn = std::move(turn), lease = std::move(lease), slot = std::move(slot)]() mutable {
        has_background_.store(true);
        background_.Add(std::move(turn), std::move(lease), std::move(slot));
      });
}

void Engine::NoteLiveWork() {
  const bool is_live =
      std::any_of(waiting_.begin(), waiting_.end(),
                  [](const auto& turn) { return !turn->ended() && !turn->concluding(); }) ||
      std::any_of(running_.begin(), running_.end(),
                  [](const auto& turn) { return turn->computes(); });
  if (!is_live) {
    live_.End();
  } else if (!live_) {
    live_ = live_work_->Begin();
  }
}

bool Engine::StepBackground() {
  background_begins_ = MonotonicTime::InfiniteFuture();
  if (!background_.empty()) {
    if (absl::Status open = CheckOpen(); !open.ok()) background_.EndAll(open);
  }
  has_background_.store(!background_.empty());
  if (background_.empty()) return false;
  const MonotonicTime begins =
      BackgroundBegins(live_work_->BackgroundQuietSince(), options_.background_pause);
  if (MonotonicTime::Now() < begins) {
    background_begins_ = begins;  // if there is live work, its end wakes the engine
    return false;
  }
  const bool stepped = background_.Step([this] { return FreeBytes(); }, Costs());
  if (!background_.lost().ok()) GiveUp(background_.lost());
  return stepped;
}

void Engine::TakeFromBackground(uint64_t wanted) {
  if (!background_.hold_memory()) return;
  const uint64_t budget = model_->backend().memory().budget;
  if (!BackgroundMayKeep(wanted, FreeBytes(), budget)) background_.EndHolders();
}

}  // namespace longstream
