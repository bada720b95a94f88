// Which turns take part in the next step, and with how many tokens.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "service/config/batch_limits.h"

namespace longstream {

// A turn is beginning until it has generated so many tokens. If all decode rows are of beginning
// turns, prompts that end in the step are read without the bound of a mixed step. So turns that
// arrive together are decoded together. If they were read piece by piece, they would begin and end
// one after the other, in steps of few rows that cost nearly as much as full ones. A stream has
// fewer than so many of these long steps. A bound of 0 always holds: that step measures the cost of
// decode rows alone.
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
  // Rows of prompts in a step that has decode rows (StepCostModel::PromptTokens). Beside beginning
  // turns alone, prompts that end in the step may have more (kBeginningTokens).
  uint64_t max_prompt_tokens = std::numeric_limits<uint64_t>::max();
  uint32_t prefill_grid = 64;
};

// Whether some budget is large enough for it. A prompt that may still grow cannot be read before it
// reaches the next grid line.
bool CanStep(const StepCandidate& candidate, uint64_t prefill_grid);

// Decode rows come first: they are cheap and clients are reading. Then come pieces of prefills.
// Both are ordered by priority, then by the longest wait for a step, then by arrival (the order
// given).
//
// Decode rows that could fill all entries leave one to the first prompt, so that both go on. A turn
// that finds no entry goes before the others of its kind and priority in the next step. A single
// entry goes to the turn that has waited longest. A step that must have decode rows alone
// (max_prompt_tokens 0) leaves no entry.
//
// A piece that does not reach the end of a prompt ends at an absolute multiple of prefill_grid, so
// that the cut, and with it every bit of the result, depends on the sequence alone and not on other
// turns.
std::vector<StepPiece> PlanStep(std::span<const StepCandidate> candidates,
                                const StepLimits& limits);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
