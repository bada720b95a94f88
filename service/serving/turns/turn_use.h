// The use that a turn makes of its session, if a fleet shares the session.
#ifndef LONGSTREAM_SERVICE_SERVING_TURNS_TURN_USE_H_
#define LONGSTREAM_SERVICE_SERVING_TURNS_TURN_USE_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/session_gate.h"

namespace longstream {

// Tells the gate how the turn goes on, in the order that SessionUse asks for: the turn may have
// run before the store has answered to its start. Thread-safe. No function blocks.
class TurnUse {
 public:
  explicit TurnUse(std::shared_ptr<fleet::SessionUse> use) : use_(std::move(use)) {}

  // The engine has admitted the turn. `is_logged`: the log has it as started. Otherwise its start
  // is being made, and StartAnswered follows.
  void Admitted(bool is_logged) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAnswered(const absl::Status& outcome) ABSL_LOCKS_EXCLUDED(mutex_);

  // The engine has ended the turn. `go_on`: as for SessionUse::Ran. A turn whose start was not made
  // gets the error of the start.
  using GoOn = std::function<void(const absl::Status&)>;
  void Ran(fleet::TurnEnd end, GoOn go_on) ABSL_LOCKS_EXCLUDED(mutex_);
  void Committed(const absl::Status& outcome) { use_->Committed(outcome); }

 private:
  enum class Stage {
    kNew,       // not admitted
    kStarting,  // its start is being made
    kStarted,
    kRefused,  // the store has refused its start
  };

  const std::shared_ptr<fleet::SessionUse> use_;  // shared with the gate
  absl::Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kNew;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  // While the start is being made: the turn has run.
  GoOn go_on_ ABSL_GUARDED_BY(mutex_);
  fleet::TurnEnd end_ ABSL_GUARDED_BY(mutex_) = fleet::TurnEnd::kFails;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_TURNS_TURN_USE_H_
