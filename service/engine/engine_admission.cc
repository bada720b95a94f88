// Admission: decides which turns of the queue get their memory in this round.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/engine/engine.h"
#include "service/engine/policy/admission.h"

namespace longstream {

uint64_t Engine::FreeBytes() const {
  const ls_memory memory = model_->backend().memory();
  return memory.budget - std::min(memory.budget, memory.reserved);
}

AdmissionBudget Engine::Budget() const {
  AdmissionBudget budget;
  budget.total = model_->backend().memory().budget;
  budget.free = FreeBytes();
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    budget.most_coming += turn->MostBytesBack();
    if (turn->computes()) budget.coming += turn->BytesUnused();
  }
  return budget;
}

RunningTurns Engine::Running() const {
  RunningTurns running{.max_computing = options_.max_open_turns, .all = running_.size()};
  for (const std::unique_ptr<ActiveTurn>& turn : running_) running.computing += turn->computes();
  return running;
}

Engine::Admission Engine::TryToAdmit(ActiveTurn& turn, AdmissionRound& round) const {
  const PoolBytes wanted = turn.BytesWanted();
  absl::Status status = absl::ResourceExhaustedError("");
  if (round.MayFit(wanted)) {
    status = turn.Admit(MonotonicTime::Now());
    if (absl::IsResourceExhausted(status)) round.FoundMissing(wanted);
  }
  if (status.ok()) {
    turn.TakeInput();
    turn.Look();
    round.Admit({turn.computes(), FreeBytes(), turn.BytesUnused(), turn.MostBytesBack()});
    return Admission::kAdmitted;
  }
  if (absl::IsResourceExhausted(status)) {
    if (round.Wait(wanted, turn.times_overtaken())) return Admission::kWaits;
    const absl::Status why = status.message().empty() ? turn.NoRoom() : status;
    status = absl::ResourceExhaustedError(
        absl::StrCat(why.message(), "; ", round.budget().Refusal(wanted.total())));
  }
  turn.Abort(std::move(status));
  return Admission::kRefused;
}

bool Engine::AdmitWaiting() {
  if (waiting_.empty()) return false;
  AdmissionRound round(Running(), Budget());
  const size_t num_waiting = waiting_.size();
  std::vector<ActiveTurn*> waits;  // in the same order as round.waiting()
  bool any_ended = false;
  for (auto it = waiting_.begin(); it != waiting_.end() && round.GoesOn();) {
    switch (TryToAdmit(**it, round)) {
      case Admission::kAdmitted:
        any_ended |= (*it)->ended();
        running_.splice(running_.end(), waiting_, it++);
        break;
      case Admission::kWaits:
        waits.push_back((it++)->get());
        break;
      case Admission::kRefused:
        num_turns_.fetch_sub(1);
        it = waiting_.erase(it);
        break;
    }
  }
  for (size_t i = 0; i < waits.size(); ++i) {
    waits[i]->set_times_overtaken(round.waiting()[i].times_overtaken);
  }
  // They count as waiting until GivePlaces has counted them again. Otherwise the queue would look
  // empty meanwhile, and take more turns than it may.
  num_left_queue_ += num_waiting - waiting_.size();
  return any_ended;
}

}  // namespace longstream
