// Decides which turns take part in the next step, and with how many tokens.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "service/config/batch_limits.h"

namespace longstream {

// A turn is called "beginning" until it has generated this many tokens. If all decode rows of a
// step belong to beginning turns, the step may read prompts that end in it without the bound
// max_prompt_tokens. So turns that arrive together are decoded together. If their prompts were read
// piece by piece, the turns would begin and end one after the other. Their steps would have few
// rows and cost nearly as much as full steps. A stream takes part in fewer than kBeginningTokens
// such long steps. The bound 0 always applies, because that step measures the cost of decode rows
// alone.
inline constexpr uint64_t kBeginningTokens = 4;

// A prompt that was passed over by this many steps goes before all other prompts. So prompts of
// high priority and short new prompts do not stop other prompts for ever.
inline constexpr uint32_t kMostPassedOver = 64;

// A turn that can take part in the next step.
struct StepCandidate {
  uint64_t position = 0;      // tokens that its sequence has read
  uint64_t remaining = 0;     // tokens that it may read now, > 0; 1 if is_decode
  bool is_decode = false;     // the token was generated in this turn
  bool is_beginning = false;  // is_decode, and it has generated fewer than kBeginningTokens
  bool input_open = false;    // more prompt may arrive, so a piece must end on a grid line
  int32_t priority = 0;       // higher goes first
  uint64_t last_step = 0;     // number of the last step that it took part in; 0: none
  uint32_t passed_over = 0;   // steps since then that read other prompts and not this one
  bool gives_logits = false;  // a prompt of which each token gives a row of logits
  double tenant_work = 0.0;   // what its tenant has got (WorkShares::got)
};

struct StepPiece {
  uint32_t candidate = 0;  // index into the candidates
  uint32_t num_tokens = 0;
};

struct StepLimits {
  uint32_t max_tokens = kDefaultBatchTokens;        // rows of the step
  uint32_t max_sequences = kDefaultBatchSequences;  // entries of the step
  // Prompt rows in a step that also has decode rows (StepCostModel::PromptTokens). If all decode
  // rows belong to beginning turns (kBeginningTokens), prompts that end in the step may exceed it.
  uint64_t max_prompt_tokens = std::numeric_limits<uint64_t>::max();
  // Rows of all prompts with gives_logits together; at least one grid, so that they go on by turns.
  uint64_t max_logit_rows = std::numeric_limits<uint64_t>::max();
  uint32_t prefill_grid = 64;
};

// Whether a step could read a piece of the candidate at all. A prompt that may still grow cannot be
// read until it reaches the next grid line.
bool CanStep(const StepCandidate& candidate, uint64_t prefill_grid);

// Plans the next step. Decode rows come first, because they are cheap and clients wait for their
// tokens. Pieces of prompts follow. Both kinds are ordered by priority, then by the work that the
// tenant has got, then by the longest wait since the last step, then by arrival (the order of
// `candidates`). But first come prompts that were passed over too often (kMostPassedOver), in the
// order of how often. If there are prompts of several tenants, only those of the tenant that has
// got least come first in this way; those of another tenant come first among its own. So a tenant
// with many prompts, all of which wait long, does not block the prompts of the others.
//
// If decode rows could fill all entries, one entry is left for the first prompt, so that streams
// and prompts both progress. A turn that gets no entry goes before the other turns of its kind and
// priority in the next step. If the step has a single entry, the turn that has waited longest gets
// it. With max_prompt_tokens 0 the step has decode rows only, and they may take all entries.
//
// A piece that does not reach the end of its prompt ends at a position that is a multiple of
// prefill_grid. So the cut, and every bit of the result, depends on the sequence alone and not on
// other turns.
std::vector<StepPiece> PlanStep(std::span<const StepCandidate> candidates,
                                const StepLimits& limits);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_STEP_PLAN_H_
