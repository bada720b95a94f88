// Decides which waiting turns are admitted, and counts how often a waiting turn was overtaken.
#include "service/engine/policy/admission.h"

#include <algorithm>

namespace longstream {

bool AdmissionRound::GoesOn() const {
  const auto holds_the_line = [](const Waiting& turn) {
    return turn.is_coming && turn.times_overtaken >= kMaxOvertaken;
  };
  if (std::any_of(waiting_.begin(), waiting_.end(), holds_the_line)) return false;
  if (running_.computing < running_.max_computing) return true;
  for (size_t tenant = 0; tenant < running_.part_of.size(); ++tenant) {
    if (HasPlaceFor(tenant)) return true;
  }
  return false;
}

bool AdmissionRound::HasPlaceFor(size_t tenant) const {
  if (running_.computing < running_.max_computing) return true;
  return tenant < running_.part_of.size() &&
         running_.computing_of[tenant] < running_.part_of[tenant];
}

AdmissionRound::TenantCaches AdmissionRound::CachesOf(
    size_t tenant, absl::FunctionRef<std::vector<TenantCaches>()> count) {
  if (!caches_.has_value()) caches_ = count();
  return tenant < caches_->size() ? (*caches_)[tenant] : TenantCaches{};
}

void AdmissionRound::SetIdle(uint64_t evictable, uint64_t safe) {
  knows_idle_ = true;
  budget_.evictable = evictable;
  budget_.safe = safe;
}

bool AdmissionRound::MayFit(const PoolBytes& wanted, uint64_t own) const {
  const auto is_less = [&wanted](const PoolBytes& missing) {
    return missing.pages <= wanted.pages && missing.fixed <= wanted.fixed;
  };
  const bool has_room = wanted.total() <= budget_.free || budget_.HasRoom(wanted.total() + own);
  return has_room && std::none_of(missing_.begin(), missing_.end(), is_less);
}

void AdmissionRound::Admit(const Admitted& admitted) {
  ++running_.all;
  running_.computing += admitted.computes ? 1 : 0;
  if (admitted.computes && !running_.computing_of.empty()) ++running_.computing_of[admitted.tenant];
  budget_.free = admitted.free;
  budget_.most_coming += admitted.held;
  if (admitted.computes) budget_.coming += admitted.held;
  knows_idle_ = false;
  ForgetCaches();
  for (Waiting& turn : waiting_) turn.times_overtaken += turn.is_for_tenant ? 0 : 1;
}

bool AdmissionRound::Wait(const PoolBytes& wanted, uint32_t times_overtaken, uint64_t own) {
  const uint64_t bytes = wanted.total() + own;
  if ((running_.all == 0 && budget_.safe == 0) || !budget_.CanCome(bytes)) return false;
  waiting_.push_back({times_overtaken, budget_.IsComing(bytes)});
  return true;
}

}  // namespace longstream
