// Divides the token budget of a step among candidates.
#include "service/engine/policy/step_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace longstream {
namespace {

// The length of the largest prompt piece that fits into `budget`. 0 if the prompt may not be cut
// within the budget.
uint64_t PieceLength(const StepCandidate& candidate, uint64_t budget, uint64_t grid) {
  if (candidate.remaining <= budget && !candidate.input_open) return candidate.remaining;
  const uint64_t reach = candidate.position + std::min(candidate.remaining, budget);
  const uint64_t line = reach / grid * grid;
  return line > candidate.position ? line - candidate.position : 0;
}

// The least work that a tenant with candidates of this kind has got.
double LeastWork(std::span<const StepCandidate> candidates, bool is_decode) {
  double least = std::numeric_limits<double>::infinity();
  for (const StepCandidate& candidate : candidates) {
    if (candidate.is_decode == is_decode) least = std::min(least, candidate.tenant_work);
  }
  return least;
}

// Returns the indices of the candidates in the order in which the step serves them.
std::vector<uint32_t> Order(std::span<const StepCandidate> candidates) {
  std::vector<uint32_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0u);
  const double least_work[] = {LeastWork(candidates, false), LeastWork(candidates, true)};
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto rank = [&](uint32_t i) {
      const StepCandidate& candidate = candidates[i];
      const int64_t overdue = candidate.passed_over >= kMostPassedOver ? candidate.passed_over : 0;
      const bool has_least = candidate.tenant_work <= least_work[candidate.is_decode ? 1 : 0];
      return std::make_tuple(!candidate.is_decode, has_least ? -overdue : 0, -candidate.priority,
                             candidate.tenant_work, -overdue, candidate.last_step, i);
    };
    return rank(a) < rank(b);
  });
  return order;
}

// How many entries decode rows may take: all but one if a prompt can be read beside them, otherwise
// all. If the step has a single entry, the turn that has waited longest gets it.
uint32_t MostDecodeRows(std::span<const StepCandidate> candidates, const StepLimits& limits) {
  if (limits.max_prompt_tokens == 0) return limits.max_sequences;
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  uint64_t prompt_step = kNone;
  uint64_t decode_step = kNone;
  for (const StepCandidate& candidate : candidates) {
    if (!candidate.is_decode && !CanStep(candidate, limits.prefill_grid)) continue;
    uint64_t& first = candidate.is_decode ? decode_step : prompt_step;
    first = std::min(first, candidate.last_step);
  }
  if (prompt_step == kNone) return limits.max_sequences;
  return limits.max_sequences == 1 && decode_step < prompt_step ? 1 : limits.max_sequences - 1;
}

}  // namespace

bool CanStep(const StepCandidate& candidate, uint64_t prefill_grid) {
  return PieceLength(candidate, candidate.remaining, prefill_grid) > 0;
}

std::vector<StepPiece> PlanStep(std::span<const StepCandidate> candidates,
                                const StepLimits& limits) {
  const uint32_t most_decode_rows = MostDecodeRows(candidates, limits);
  std::vector<StepPiece> plan;
  bool is_mixed = false;  // a decode row was seen; Order puts them before all prompts
  bool keeps_to_bound = limits.max_prompt_tokens == 0;
  uint64_t budget = limits.max_tokens;
  uint64_t prompt_budget = limits.max_prompt_tokens;  // applies to mixed steps only
  uint64_t logit_budget = limits.max_logit_rows;
  for (const uint32_t i : Order(candidates)) {
    if (budget == 0 || plan.size() >= limits.max_sequences) break;
    const StepCandidate& candidate = candidates[i];
    if (candidate.is_decode) {
      is_mixed = true;
      keeps_to_bound |= !candidate.is_beginning;
      if (plan.size() >= most_decode_rows) continue;
    }
    uint64_t most = budget;
    if (!candidate.is_decode && is_mixed) {
      // If this prompt does not fit into the step, the bound holds for the prompts after it too. So
      // short prompts do not overtake a prompt that has to wait.
      keeps_to_bound |= candidate.remaining > budget || candidate.input_open;
      if (keeps_to_bound) most = std::min(budget, prompt_budget);
    }
    if (candidate.gives_logits) most = std::min(most, logit_budget);
    const uint64_t length = PieceLength(candidate, most, limits.prefill_grid);
    if (length == 0) continue;
    if (candidate.gives_logits) logit_budget -= length;
    plan.push_back(StepPiece{i, static_cast<uint32_t>(length)});
    budget -= length;
    if (!candidate.is_decode) prompt_budget -= std::min(prompt_budget, length);
  }
  return plan;
}

}  // namespace longstream
