// Which turns take part in the next step, and with how many tokens.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "service/config/batch_limits.h"

namespace longstream {

// A turn begins until it has generated so many tokens. Beside rows of such turns alone, prompts
// that end in the step are read without the bound of a mixed step, so that turns that come together
// are decoded together: read piece by piece, they would begin one after the other and end so, in
// steps of few rows that cost nearly as much as full ones. A stream has fewer than so many of these
// long steps. A bound of 0 holds in any case: what decode rows cost alone is to be learned.
inline constexpr uint64_t kBeginningTokens = 4;

// A turn that could use a step.
struct StepCandidate {
  uint64_t position = 0;      // tokens its sequence has read
  uint64_t remaining = 0;     // tokens it may read now; 1 with is_decode; > 0
  bool is_decode = false;     // the token was generated in this turn
  bool is_beginning = false;  // with is_decode: it has generated fewer than kBeginningTokens
  bool input_open = false;    // more prompt may arrive, so a piece must end on a grid line
  int32_t priority = 0;       // higher goes first
  uint64_t last_step = 0;     // number of the step it took part in last; 0: none
};

struct StepPiece {
  uint32_t candidate = 0;  // index
  uint32_t num_tokens = 0;
};

struct StepLimits {
  uint32_t max_tokens = kDefaultBatchTokens;        // rows of the step
  uint32_t max_sequences = kDefaultBatchSequences;  // entries of the step
  // Rows of prompts in a step that has decode rows (StepCostModel::PromptTokens). Beside turns that
  // begin, prompts that end in the step may be more (kBeginningTokens).
  uint64_t max_prompt_tokens = std::numeric_limits<uint64_t>::max();
  uint32_t prefill_grid = 64;
};

// Whether some budget is large enough for it: a prompt of which more may arrive cannot be read
// before it reaches the next grid line.
bool CanStep(const StepCandidate& candidate, uint64_t prefill_grid);

// Decode rows first: they are cheap and somebody is reading. Then pieces of prefills. Both in the
// order of priority, then of who has waited longest for a step, then of arrival (the order given).
//
// Decode rows that are as many as a step has entries leave one to the first prompt, so that both go
// on: whoever finds no entry goes before the others of its kind and priority in the next step. Of a
// step of one entry it is whoever has waited longest. A step that is to have decode rows alone
// (max_prompt_tokens 0) leaves none.
//
// A piece that does not reach the end of a prompt ends at an absolute multiple of prefill_grid, so
// that the cut, and with it every bit of the result, depends on the sequence alone and not on what
// else is running.
std::vector<StepPiece> PlanStep(std::span<const StepCandidate> candidates,
                                const StepLimits& limits);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
