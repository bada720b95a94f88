// Decides which waiting turns are admitted, and counts how often a waiting turn was overtaken.
#include "service/engine/policy/admission.h"

#include <algorithm>

namespace longstream {

bool AdmissionRound::GoesOn() const {
  const auto holds_the_line = [](const Waiting& turn) {
    return turn.is_coming && turn.times_overtaken >= kMaxOvertaken;
  };
  return running_.computing < running_.max_computing &&
         std::none_of(waiting_.begin(), waiting_.end(), holds_the_line);
}

bool AdmissionRound::MayFit(const PoolBytes& wanted) const {
  const auto is_less = [&wanted](const PoolBytes& missing) {
    return missing.pages <= wanted.pages && missing.fixed <= wanted.fixed;
  };
  return wanted.total() <= budget_.free && std::none_of(missing_.begin(), missing_.end(), is_less);
}

void AdmissionRound::Admit(const Admitted& admitted) {
  ++running_.all;
  running_.computing += admitted.computes ? 1 : 0;
  budget_.free = admitted.free;
  budget_.most_coming += admitted.most_coming;
  if (admitted.computes) budget_.coming += admitted.coming;
  for (Waiting& turn : waiting_) ++turn.times_overtaken;
}

bool AdmissionRound::Wait(const PoolBytes& wanted, uint32_t times_overtaken) {
  if (running_.all == 0 || !budget_.CanCome(wanted.total())) return false;
  waiting_.push_back({times_overtaken, budget_.IsComing(wanted.total())});
  return true;
}

}  // namespace longstream
