// Places in the batch: decides which of the running turns take part in the next steps.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/engine/policy/batch_places.h"

namespace longstream {

void Engine::GivePlaces() {
  const MonotonicTime now = MonotonicTime::Now();
  std::vector<ActiveTurn*> turns;
  std::vector<PlaceCandidate> candidates;
  size_t computing = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    computing += turn->computes();
    if (!turn->needs_place()) {
      turn->place().Leave();
      if (!turn->ended()) turn->Begin(now);
      continue;
    }
    turn->place().Want(++place_changes_);
    turns.push_back(turn.get());
    candidates.push_back(turn->AsPlaceCandidate(now, options_.time_slice));
  }
  const double elapsed = absl::FDivDuration(now - places_given_at_, options_.time_slice);
  const PlaceChanges changes = SharePlaces(candidates, options_.max_batch_sequences, elapsed,
                                           place_shares_, shares_.weights());
  for (const uint32_t i : changes.yields) turns[i]->place().Yield(++place_changes_);
  for (const uint32_t i : changes.renews) turns[i]->place().Renew(++place_changes_);
  for (const uint32_t i : changes.takes) {
    turns[i]->place().Take(++place_changes_);
    turns[i]->Begin(now);
  }
  place_shares_ = changes.shares;
  places_given_at_ = now;
  PublishRoom(computing, candidates.size());
}

void Engine::PublishRoom(size_t computing, size_t need_place) {
  // More turns may compute than are admitted to compute, because clients that were waited for go
  // on.
  const auto left = [](size_t most, size_t taken) { return most - std::min(most, taken); };
  const size_t places = options_.max_batch_sequences;
  const size_t room = std::min(left(places, need_place), left(options_.max_open_turns, computing));
  std::vector<QueueRoom::Change> changes;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    if (turn->ended()) continue;
    const BatchPlace& place = turn->place();
    const QueueRoom::State state = place.held()      ? QueueRoom::State::kPlaced
                                   : place.awaited() ? QueueRoom::State::kParked
                                                     : QueueRoom::State::kLeft;
    if (state != turn->slot().state()) changes.push_back({&turn->slot(), state});
  }
  // While a turn waits, every turn that arrives waits behind it.
  queue_.Publish(waiting_.empty() ? room : 0, changes);
}

void Engine::LevelShares() {
  if (!shares_.are_shared()) return;
  std::vector<bool> wants(shares_.weights().size());
  for (const std::unique_ptr<ActiveTurn>& turn : waiting_) wants[turn->tenant()] = true;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    const std::optional<StepCandidate>& candidate = turn->candidate();
    const bool has_prompt = candidate.has_value() && !candidate->is_decode;
    if (has_prompt || turn->place().awaited()) wants[turn->tenant()] = true;
  }
  shares_.Level(wants);
}

}  // namespace longstream
