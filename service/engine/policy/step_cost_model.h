// How much of prompts a step reads beside decode rows.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_COST_MODEL_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_COST_MODEL_H_

#include <cstdint>

#include "absl/time/time.h"

namespace longstream {

// Whoever reads a stream waits for the prompts in the same step: without a bound, the time of
// max_batch_tokens of them. A step with both may take `stretch` times as long as one of the decode
// rows alone, so that prompts keep the share 1 - 1 / stretch of the processor and streams go on.
// (Beside streams that have just begun it may take longer: kBeginningTokens, step_plan.h.)
//
// Learns both costs from the steps themselves: `d` of decode rows alone and `c` of a token of a
// prompt. Where d is not known, or was learned too many mixed steps ago, the next step is to have
// decode rows alone. Used by one thread.
class StepCostModel {
 public:
  // Mixed steps after which a step of decode rows alone is due: one in so many, so cheap.
  static constexpr uint32_t kMaxAge = 64;

  StepCostModel(uint32_t prefill_grid, double stretch) : grid_(prefill_grid), stretch_(stretch) {}

  // A step of so many decode rows and tokens of prompts took `time`. One of no time or less tells
  // nothing.
  void Learn(uint64_t decode_rows, uint64_t prompt_tokens, absl::Duration time);

  // Tokens of prompts that the next step may read beside decode rows: 0, or a multiple of the
  // prefill grid, at least one. (stretch - 1) d / c, rounded down.
  uint64_t PromptTokens() const;

  // What reading so many tokens of prompts takes, on average; zero where nothing is known.
  // PrefillSpeed says what it takes at least, and forgets it after some seconds without prompts.
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
