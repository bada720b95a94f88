// Admitted turns whose caches are read from the store.
#include <algorithm>
#include <optional>
#include <utility>

#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/engine/turn/turn_history.h"

namespace longstream {

void Engine::BeginRestore(ActiveTurn& turn) {
  const uint64_t number = ++num_restores_;
  const absl::Duration limit =
      turn.RestoreLimit(pipeline_.reading_times(), options_.least_restore_limit);
  auto fill = std::make_shared<CacheFill>(turn.TakeImport());
  restoring_.push_back({number, &turn, fill, MonotonicTime::Now() + limit});
  turn.session().stored_caches()->Fill(
      *turn.restore_from(), std::move(fill), [this, number](const StoredCaches::Filled& filled) {
        Post([this, number, filled] { EndRestore(number, filled); });
      });
}

void Engine::NoteStored(Session& session) const {
  const std::optional<StoredPlace> place = ChooseStored(session, model_->backend(), Costs());
  session.caches().stored_position = place.has_value() ? place->position : 0;
}

void Engine::EndRestore(uint64_t number, const StoredCaches::Filled& filled) {
  if (filled.status.ok()) restore_speed_.Learn(filled.bytes, filled.time);
  const auto found =
      std::find_if(restoring_.begin(), restoring_.end(),
                   [&](const RestoringTurn& restoring) { return restoring.number == number; });
  if (found == restoring_.end()) return;
  ActiveTurn& turn = *found->turn;
  SnapshotImport import = found->fill->Take(absl::OkStatus());
  restoring_.erase(found);  // its memory is not promised any more
  turn.FinishRestore(std::move(import), filled, MonotonicTime::Now());
  if (turn.awaits_room()) WaitAgain(turn);
}

void Engine::DropRestores() {
  std::erase_if(restoring_, [](const RestoringTurn& restoring) {
    if (restoring.turn->restore_from() != nullptr) return false;
    restoring.fill->Take(absl::CancelledError("the turn has ended"));
    return true;
  });
}

void Engine::EndSlowRestores() {
  const MonotonicTime now = MonotonicTime::Now();
  while (true) {
    const auto late =
        std::find_if(restoring_.begin(), restoring_.end(),
                     [&](const RestoringTurn& restoring) { return restoring.until <= now; });
    if (late == restoring_.end()) return;
    StoredCaches::Filled filled;
    filled.status = absl::DeadlineExceededError("reading it has taken longer than computing does");
    ActiveTurn& turn = *late->turn;
    SnapshotImport import = late->fill->Take(filled.status);
    restoring_.erase(late);
    turn.FinishRestore(std::move(import), filled, now);
    if (turn.awaits_room()) WaitAgain(turn);
  }
}

void Engine::WaitAgain(ActiveTurn& turn) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& running) { return running.get() == &turn; });
  const auto before = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
    return other->turn().request.priority <= turn.turn().request.priority;
  });
  turn.place().Leave();
  turn.slot().WaitAgain();
  waiting_.splice(before, running_, found);
}

}  // namespace longstream
