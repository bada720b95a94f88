// The steps of one model: composed, submitted, waited for.
#ifndef LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_
#define LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/policy/step_cost_model.h"
#include "service/engine/policy/step_plan.h"
#include "service/engine/shared_prefill_speed.h"
#include "service/engine/turn/active_turn.h"
#include "service/models/backend_model.h"

namespace longstream {

// Keeps one step in flight, or two. With two, the model's device begins the second step while the
// host takes in the tokens of the first one, streams them and looks at new messages. Each turn gets
// the same tokens with one and with two.
//
// A second step is submitted only if no turn has to wait for the first one's results. A turn waits
// if its penalties count the token that is being drawn, or if that token could not be taken back
// for free. It would be in every other step only, and the steps without it would cost as much.
//
// The backend refuses a step as a whole for one malformed entry. That ends no turn by itself: the
// turns are submitted again one by one, and the turn whose entry is refused then ends.
//
// Used by the engine thread alone.
class StepPipeline {
 public:
  using Turns = std::list<std::unique_ptr<ActiveTurn>>;

  // `most_in_flight` 2 needs LS_CAP_LOOK_AHEAD. `backend` and `prefill_clock` outlive the pipeline;
  // turns live until they have ended.
  StepPipeline(BackendModel& backend, const StepLimits& limits, double max_decode_stretch,
               size_t most_in_flight, SharedPrefillSpeed* prefill_speed)
      : backend_(backend),
        limits_(limits),
        cost_model_(limits.prefill_grid, max_decode_stretch),
        most_in_flight_(most_in_flight),
        prefill_speed_(prefill_speed) {}

  // Submits a step of the turns that were candidates at their last look, if a step can be
  // submitted. Takes in the oldest step's results unless another step may join it in flight. False:
  // there was nothing to do.
  bool Advance(const Turns& turns);

  // The time that reading the turns' prompts takes, if the next step has no decode rows and room
  // for more prompts. Zero otherwise, and if the time is not known or a step is in flight.
  absl::Duration PromptTime(const Turns& turns) const;

  // Takes in all steps in flight.
  void Drain();

  // Not OK once a step has failed because the model's device is lost: UNAVAILABLE with the
  // backend's sentence. No step succeeds from then on.
  const absl::Status& lost() const { return lost_; }

 private:
  struct Step {
    uint64_t ticket = 0;
    std::vector<ActiveTurn*> turns;  // in the order of its entries
    uint64_t decode_rows = 0;
    uint64_t prompt_tokens = 0;
    MonotonicTime submitted;
  };

  bool Submit(const Turns& turns);
  // The backend has refused the step as a whole, and has changed nothing.
  static void Refused(const Step& step, const absl::Status& status);
  void TakeInOldest();

  BackendModel& backend_;
  const StepLimits limits_;
  StepCostModel cost_model_;
  const size_t most_in_flight_;
  SharedPrefillSpeed* const prefill_speed_;

  std::deque<Step> in_flight_;
  uint64_t step_number_ = 0;
  MonotonicTime last_done_ =
      MonotonicTime::InfinitePast();  // of the step before the oldest in flight
  absl::Status lost_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_STEP_PIPELINE_H_
