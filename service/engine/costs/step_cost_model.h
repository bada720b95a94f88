// Decides how many prompt tokens a step reads beside its decode rows.
#ifndef LONGSTREAM_SERVICE_ENGINE_COSTS_STEP_COST_MODEL_H_
#define LONGSTREAM_SERVICE_ENGINE_COSTS_STEP_COST_MODEL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

// A stream waits until its step has read all prompt tokens in it. Without a bound these could be
// max_batch_tokens tokens. Therefore a step with decode rows and prompts may take at most `stretch`
// times as long as its decode rows alone. Prompts then get the share 1 - 1 / stretch of the
// processor's time, and streams still progress. (A step may take longer if all its streams have
// just begun: see kBeginningTokens in step_plan.h.)
//
// The model learns two costs from the times of steps: `d`, the time of a step's decode rows alone,
// and `c`, the time of one prompt token. If d is unknown, or if kMaxAge mixed steps (steps with
// decode rows and prompts) have run since d was learned, the next step must have decode rows only.
// Used by one thread.
class StepCostModel {
 public:
  // After this many mixed steps, a step with decode rows only must run. Such steps are rare, so
  // they cost little.
  static constexpr uint32_t kMaxAge = 64;

  StepCostModel(uint32_t prefill_grid, double stretch) : grid_(prefill_grid), stretch_(stretch) {}

  // Learns that a step with these numbers of decode rows and prompt tokens took `time`. A `time` <=
  // 0 is ignored.
  void Learn(uint64_t decode_rows, uint64_t prompt_tokens, absl::Duration time);

  // How many prompt tokens the next step may read beside decode rows: (stretch - 1) d / c, rounded
  // down to a multiple of the prefill grid but at least one grid interval; or 0 if the next step
  // must have decode rows only.
  uint64_t PromptTokens() const;

  // The average time of reading `tokens` prompt tokens; zero if it is not known. (PrefillSpeed
  // estimates the least time instead, and forgets it after some seconds without prompts.)
  absl::Duration PromptTime(uint64_t tokens) const {
    return absl::Seconds(token_seconds_ * static_cast<double>(tokens));
  }
  // The learned costs d and c. 0: unknown.
  double decode_seconds() const { return decode_seconds_; }
  double token_seconds() const { return token_seconds_; }

 private:
  const uint64_t grid_;
  const double stretch_;
  double decode_seconds_ = 0.0;  // d; 0: unknown
  double token_seconds_ = 0.0;   // c; 0: unknown
  uint32_t age_ = 0;             // mixed steps since d was learned
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_COSTS_STEP_COST_MODEL_H_
