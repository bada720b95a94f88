// How many prompt tokens a step reads beside decode rows.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_COST_MODEL_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_COST_MODEL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

// A stream waits for the prompts in the same step: without a bound, for max_batch_tokens of them.
// So a step with both may take at most `stretch` times as long as its decode rows alone. Prompts
// keep the share 1 - 1 / stretch of the processor, and streams go on. (Beside streams that have
// just begun a step may take longer: kBeginningTokens, step_plan.h.)
//
// Learns both costs from the steps: `d` of decode rows alone and `c` of a prompt token. If d is not
// known, or was learned too many mixed steps ago, the next step must have decode rows alone. Used
// by one thread.
class StepCostModel {
 public:
  // Mixed steps after which a step of decode rows alone is due; they are rare, so they cost little.
  static constexpr uint32_t kMaxAge = 64;

  StepCostModel(uint32_t prefill_grid, double stretch) : grid_(prefill_grid), stretch_(stretch) {}

  // A step of so many decode rows and prompt tokens took `time`. A `time` <= 0 is ignored.
  void Learn(uint64_t decode_rows, uint64_t prompt_tokens, absl::Duration time);

  // Prompt tokens that the next step may read beside decode rows: 0, or a multiple of the prefill
  // grid, at least one. (stretch - 1) d / c, rounded down.
  uint64_t PromptTokens() const;

  // The average time of reading so many prompt tokens; zero if nothing is known. PrefillSpeed has
  // the least time, and forgets it after some seconds without prompts.
  absl::Duration PromptTime(uint64_t tokens) const {
    return absl::Seconds(token_seconds_ * static_cast<double>(tokens));
  }

 private:
  const uint64_t grid_;
  const double stretch_;
  double decode_seconds_ = 0.0;  // d; 0: not known
  double token_seconds_ = 0.0;   // c; 0: not known
  uint32_t age_ = 0;             // mixed steps since d was learned
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_COST_MODEL_H_
