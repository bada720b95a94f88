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
  uint64_t taken = memory.reserved;
  for (const RestoringTurn& restoring : restoring_) {
    taken += restoring.turn->BytesPromised();
  }
  return memory.budget - std::min(memory.budget, taken);
}

AdmissionBudget Engine::Budget() const {
  AdmissionBudget budget;
  budget.total = model_->backend().memory().budget;
  budget.free = FreeBytes();
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    budget.most_coming += turn->BytesHeld();
    if (turn->computes()) budget.coming += turn->BytesHeld();
  }
  return budget;
}

RunningTurns Engine::Running() const {
  RunningTurns running{.max_computing = options_.max_open_turns, .all = running_.size()};
  for (const std::unique_ptr<ActiveTurn>& turn : running_) running.computing += turn->computes();
  if (!shares_.are_shared()) return running;
  const size_t num_tenants = shares_.weights().size();
  running.computing_of.resize(num_tenants);
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    running.computing_of[turn->tenant()] += turn->computes();
  }
  for (size_t tenant = 0; tenant < num_tenants; ++tenant) {
    running.part_of.push_back(shares_.PartOf(tenant, options_.max_open_turns));
  }
  return running;
}

void Engine::OrderWaiting() {
  if (!shares_.are_shared() || waiting_.size() < 2) return;
  std::vector<WaitingTurn> turns;
  std::vector<Turns::iterator> places;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    const TurnRequest& request = (*it)->turn().request;
    turns.push_back({static_cast<int32_t>(request.priority), static_cast<uint32_t>((*it)->tenant()),
                     1.0 + static_cast<double>(request.prompt.size())});
    places.push_back(it);
  }
  Turns ordered;
  for (const uint32_t i : FairOrder(turns, shares_)) {
    ordered.splice(ordered.end(), waiting_, places[i]);
  }
  waiting_ = std::move(ordered);
}

std::vector<AdmissionRound::TenantCaches> Engine::CountCaches() const {
  std::vector<AdmissionRound::TenantCaches> caches(shares_.weights().size());
  for (const std::shared_ptr<Session>& session : open_sessions_) {
    caches[session->tenant_index()].all += session->cache_charge().bytes();
  }
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    if (!turn->turn().request.has_own_session() || turn->ended()) continue;
    caches[turn->tenant()].all += turn->cache_charge().bytes();
  }
  for (Session* const session : FindIdle(nullptr).sessions) {
    caches[session->tenant_index()].idle += session->cache_charge().bytes();
  }
  return caches;
}

Engine::Admission Engine::TryToAdmit(ActiveTurn& turn, AdmissionRound& round) {
  CacheCharge& charge = turn.cache_charge();
  const uint64_t before = charge.bytes();
  const uint64_t bytes = std::max(before, turn.BytesAdmitted());
  const std::optional<Admission> refused = TryQuota(turn, bytes, round);
  if (refused.has_value()) return *refused;
  const Admission admission = TryMemory(turn, round);
  if (admission == Admission::kWaits) charge.Set(before);
  return admission;
}

Engine::Admission Engine::TryMemory(ActiveTurn& turn, AdmissionRound& round) {
  const PoolBytes wanted = turn.BytesWanted();
  uint64_t own = 0;
  if (wanted.total() > round.budget().free) {
    own = turn.BytesEvictable();
    if (!round.knows_idle()) {
      const IdleCaches idle = FindIdle(nullptr);
      round.SetIdle(idle.bytes, idle.safe_bytes);
    }
  }
  absl::Status status = absl::ResourceExhaustedError("");
  if (round.MayFit(wanted, own)) {
    status = WithRoom(wanted.total(), &turn.session(), "turn",
                      [&] { return turn.Admit(MonotonicTime::Now(), Costs()); });
    if (absl::IsResourceExhausted(status)) round.FoundMissing(wanted);
  }
  if (status.ok()) {
    if (turn.restore_from() != nullptr) BeginRestore(turn);
    TakeInput(turn);
    turn.Look();
    round.Admit({turn.tenant(), turn.computes(), FreeBytes(), turn.BytesHeld()});
    return Admission::kAdmitted;
  }
  if (absl::IsResourceExhausted(status)) {
    if (round.Wait(wanted, turn.times_overtaken(), own)) return Admission::kWaits;
    const absl::Status why = status.message().empty() ? turn.NoRoom() : status;
    status = absl::ResourceExhaustedError(
        absl::StrCat(why.message(), "; ", round.budget().Refusal(wanted.total())));
  }
  turn.Abort(std::move(status));
  return Admission::kRefused;
}

bool Engine::AdmitWaiting() {
  lacks_memory_.store(false, std::memory_order_relaxed);
  if (waiting_.empty()) return false;
  YieldIdleWork();
  MakeRoomForWaiting();
  OrderWaiting();
  AdmissionRound round(Running(), Budget());
  std::vector<ActiveTurn*> waits;  // in the same order as round.waiting()
  bool any_ended = false;
  for (auto it = waiting_.begin(); it != waiting_.end() && round.GoesOn();) {
    const size_t tenant = (*it)->tenant();
    // A turn that concludes was admitted before, and waits for its journal.
    if ((*it)->concluding() || !round.HasPlaceFor(tenant)) {
      ++it;
      continue;
    }
    switch (TryToAdmit(**it, round)) {
      case Admission::kAdmitted:
        // Its slot says that it waits until GivePlaces tells more. Otherwise the queue would look
        // empty meanwhile, and take more turns than it may.
        any_ended |= (*it)->ended();
        running_.splice(running_.end(), waiting_, it++);
        break;
      case Admission::kWaits:
        waits.push_back((it++)->get());
        break;
      case Admission::kRefused:
        if (!(*it)->ended()) {
          running_.splice(running_.end(), waiting_, it++);
          break;
        }
        num_turns_.fetch_sub(1);
        it = waiting_.erase(it);
        break;
    }
  }
  bool lacks_memory = false;
  for (size_t i = 0; i < waits.size(); ++i) {
    const AdmissionRound::Waiting& wait = round.waiting()[i];
    waits[i]->set_times_overtaken(wait.times_overtaken);
    lacks_memory |= !wait.is_for_tenant;
  }
  lacks_memory_.store(lacks_memory, std::memory_order_relaxed);
  return any_ended;
}

}  // namespace longstream
