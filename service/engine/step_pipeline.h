// Composes, submits and completes the steps of one model.
#ifndef LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_
#define LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/costs/step_cost_model.h"
#include "service/engine/policy/eviction.h"
#include "service/engine/policy/fair_share.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/shared_prefill_speed.h"
#include "service/engine/turn/active_turn.h"
#include "service/models/backend_model.h"

namespace longstream {

// Keeps one or two steps in flight. With two, the device begins the second step while the host
// takes in the tokens of the first step, streams them and runs new messages. The number of steps in
// flight does not change the tokens of any turn.
//
// A second step is submitted only if no turn with a place has to wait for the results of the first
// one. A turn has to wait if its penalties count the token that is being drawn, or if taking that
// token back would cost a recomputation. Without this rule, such a turn would be part of only every
// other step, and a step without the turn costs as much as a step with it.
//
// The backend refuses a whole step if one entry is malformed. Such a refusal ends no turn. The
// turns are submitted again one by one, and a turn ends if its entry alone is refused.
//
// Used by the engine thread alone.
class StepPipeline {
 public:
  using Turns = std::list<std::unique_ptr<ActiveTurn>>;

  // If `most_in_flight` is 2, the backend must have LS_CAP_LOOK_AHEAD. `backend`, `prefill_speed`
  // and `shares` outlive the pipeline. A turn must exist until it has ended.
  StepPipeline(BackendModel& backend, const StepLimits& limits, double max_decode_stretch,
               size_t most_in_flight, SharedPrefillSpeed* prefill_speed, WorkShares* shares)
      : backend_(backend),
        limits_(limits),
        cost_model_(limits.prefill_grid, max_decode_stretch),
        most_in_flight_(most_in_flight),
        prefill_speed_(prefill_speed),
        shares_(shares) {}

  // Submits a step of the turns that hold a place in the batch and are candidates
  // (ActiveTurn::candidate), if any. Then takes in the results of the oldest step, unless another
  // step may be submitted first. False: there was nothing to do.
  bool Advance(const Turns& turns);

  // The time that reading the prompts of the turns takes, if the next step has no decode rows and
  // has room for more prompts. Zero if these conditions do not hold, if the time is unknown, or if
  // a step is in flight.
  absl::Duration PromptTime(const Turns& turns) const;

  // From now on steps have at most so many rows, or those of the limits if they are fewer.
  void SetMostTokens(uint64_t tokens) { most_tokens_ = tokens; }
  // The prompt tokens of the step that was submitted last.
  uint64_t last_prompt_tokens() const { return last_prompt_tokens_; }

  // How long reading a token takes, in a prompt and as a decode entry.
  ReadingTimes reading_times() const {
    return {cost_model_.token_seconds(), cost_model_.decode_seconds()};
  }

  // Waits for all steps in flight and takes in their results.
  void Drain();

  // OK until a step fails because the device of the model is lost. Then UNAVAILABLE with the
  // message of the backend, and all later steps fail too.
  const absl::Status& lost() const { return lost_; }

 private:
  struct Step {
    uint64_t ticket = 0;
    std::vector<ActiveTurn*> turns;  // in the order of the step's entries
    uint64_t decode_rows = 0;
    uint64_t prompt_tokens = 0;
    MonotonicTime submitted;
  };

  bool Submit(const Turns& turns);
  // Handles a step that the backend has refused as a whole. The backend has changed nothing.
  static void Refused(const Step& step, const absl::Status& status);
  void TakeInOldest();
  // Counts the work of the step's rows for the tenants of its turns.
  void ChargeTenants(const Step& step, std::span<const StepPiece> plan,
                     std::span<const StepCandidate> candidates);

  BackendModel& backend_;
  const StepLimits limits_;
  StepCostModel cost_model_;
  const size_t most_in_flight_;
  SharedPrefillSpeed* const prefill_speed_;
  WorkShares* const shares_;

  uint64_t most_tokens_ = std::numeric_limits<uint64_t>::max();
  uint64_t last_prompt_tokens_ = 0;
  std::deque<Step> in_flight_;
  uint64_t step_number_ = 0;
  MonotonicTime last_done_ =
      MonotonicTime::InfinitePast();  // when the last completed step was done
  absl::Status lost_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_
