// Admits, steps and ends turns in the background.
#include "service/engine/background_turns.h"

#include <algorithm>
#include <utility>

#include "service/engine/policy/background.h"

namespace longstream {

BackgroundTurns::BackgroundTurns(ServedModel* model, const StepLimits& limits,
                                 absl::Duration step_limit, const FailureListener& on_failure)
    : model_(model),
      on_failure_(on_failure),
      room_(kMostTurns, /*free=*/0, /*parts=*/{0}),
      shares_(std::vector<double>()),
      // There are no decode rows, so the stretch does not matter.
      pipeline_(model->backend(), limits, /*max_decode_stretch=*/2, /*most_in_flight=*/1, &speed_,
                &shares_),
      pace_(limits.prefill_grid, step_limit),
      pace_with_logits_(limits.prefill_grid, step_limit) {}

void BackgroundTurns::Add(std::shared_ptr<Turn> turn, TurnLease lease,
                          std::unique_ptr<QueueRoom::Slot> slot) {
  turns_.push_back(std::make_unique<ActiveTurn>(std::move(turn), std::move(lease), std::move(slot),
                                                model_, /*metrics=*/nullptr, on_failure_));
}

bool BackgroundTurns::hold_memory() const {
  return std::any_of(turns_.begin(), turns_.end(),
                     [](const auto& turn) { return turn->BytesHeld() > 0; });
}

void BackgroundTurns::RemoveEnded() {
  std::erase_if(turns_, [](const auto& turn) { return turn->ended(); });
}

void BackgroundTurns::EndDue(MonotonicTime now) {
  for (const std::unique_ptr<ActiveTurn>& turn : turns_) {
    if (turn->turn().cancelled()) {
      turn->Abort(turn->turn().cancel_reason());
    } else if (now >= turn->turn().request.deadline) {
      turn->Abort(absl::DeadlineExceededError("the deadline passed during the turn"));
    }
  }
  RemoveEnded();
}

void BackgroundTurns::EndAll(const absl::Status& why) {
  for (const std::unique_ptr<ActiveTurn>& turn : turns_) turn->Abort(why);
  RemoveEnded();
}

void BackgroundTurns::EndHolders() {
  for (const std::unique_ptr<ActiveTurn>& turn : turns_) {
    if (turn->BytesHeld() == 0) continue;
    turn->Abort(absl::ResourceExhaustedError("a client's turn needs the memory"));
  }
  RemoveEnded();
}

void BackgroundTurns::Admit(ActiveTurn& turn, uint64_t free, const RestoreCosts& costs) {
  const uint64_t budget = model_->backend().memory().budget;
  if (!BackgroundMayTake(turn.BytesWanted().total(), free, budget)) {
    return turn.Abort(absl::ResourceExhaustedError("there is no free memory for the turn"));
  }
  const absl::Status status = turn.Admit(MonotonicTime::Now(), costs);
  if (!status.ok()) turn.Abort(status);
}

bool BackgroundTurns::Step(absl::FunctionRef<uint64_t()> free, const RestoreCosts& costs) {
  bool gives_logits = false;
  for (const std::unique_ptr<ActiveTurn>& turn : turns_) {
    if (!turn->admitted() && !turn->ended()) Admit(*turn, free(), costs);
    if (turn->ended()) continue;
    turn->Look();
    if (!turn->needs_place()) {
      turn->place().Leave();
      continue;
    }
    turn->place().Want(++place_changes_);
    if (turn->place().awaited()) turn->place().Take(++place_changes_);
    turn->Begin(MonotonicTime::Now());
    gives_logits |= turn->candidate().has_value() && turn->candidate()->gives_logits;
  }
  RemoveEnded();
  ChunkPace& pace = gives_logits ? pace_with_logits_ : pace_;
  // A step that gives logits takes no less time than one that only reads.
  const uint64_t most =
      pace_.is_known() ? std::min(pace.MostTokens(), pace_.MostTokens()) : pace.MostTokens();
  pipeline_.SetMostTokens(most);
  const MonotonicTime begin = MonotonicTime::Now();
  const bool stepped = pipeline_.Advance(turns_);
  if (stepped) pace.Learn(pipeline_.last_prompt_tokens(), MonotonicTime::Now() - begin);
  RemoveEnded();
  return stepped;
}

}  // namespace longstream
