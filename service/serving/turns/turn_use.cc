// Passes the events of a turn on to the gate of the fleet.
#include "service/serving/turns/turn_use.h"

namespace longstream {

void TurnUse::Admitted(bool is_logged) {
  {
    absl::MutexLock lock(&mutex_);
    stage_ = is_logged ? Stage::kStarted : Stage::kStarting;
  }
  // The gate did not read the log, which has the turn: this is what the store would answer.
  if (is_logged && !use_->resumes()) {
    use_->Started(absl::AlreadyExistsError("the turn has been started before"));
  }
}

void TurnUse::StartAnswered(const absl::Status& outcome) {
  if (!use_->resumes()) use_->Started(outcome);
  GoOn go_on;
  fleet::TurnEnd end = fleet::TurnEnd::kFails;
  {
    absl::MutexLock lock(&mutex_);
    stage_ = outcome.ok() ? Stage::kStarted : Stage::kRefused;
    refusal_ = outcome;
    go_on = std::exchange(go_on_, nullptr);
    end = end_;
  }
  if (go_on) Ran(end, std::move(go_on));
}

void TurnUse::Ran(fleet::TurnEnd end, GoOn go_on) {
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    if (stage_ == Stage::kStarting) {
      go_on_ = std::move(go_on);
      end_ = end;
      return;
    }
    refusal = refusal_;
    // If it was not admitted, nothing was made of a use that does not resume.
    if (stage_ == Stage::kNew && !use_->resumes()) refusal = absl::CancelledError("not admitted");
  }
  if (!refusal.ok()) return go_on(refusal);
  use_->Ran(end, std::move(go_on));
}

}  // namespace longstream
