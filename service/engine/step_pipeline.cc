// Composes and submits steps, and takes in their results.
#include "service/engine/step_pipeline.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// If a prompt piece of at least this many tokens is alone in its step, the step's time shows the
// cost of a token. The time of a shorter piece mostly shows the fixed cost of a step.
constexpr uint64_t kTellingTokens = 64;

absl::Status Failure(const absl::Status& status) {
  return absl::InternalError(absl::StrCat("the backend failed a step: ", status.message()));
}

}  // namespace

bool StepPipeline::Advance(const Turns& turns) {
  const bool submitted = Submit(turns);
  if (submitted && in_flight_.size() < most_in_flight_) return true;
  if (in_flight_.empty()) return submitted;
  TakeInOldest();
  return true;
}

absl::Duration StepPipeline::PromptTime(const Turns& turns) const {
  if (!in_flight_.empty()) return absl::ZeroDuration();
  uint64_t tokens = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : turns) {
    const std::optional<StepCandidate>& candidate = turn->candidate();
    if (!turn->place().held() || !candidate.has_value()) continue;
    if (candidate->is_decode) return absl::ZeroDuration();
    tokens += candidate->remaining;
  }
  return tokens < limits_.max_tokens ? cost_model_.PromptTime(tokens) : absl::ZeroDuration();
}

void StepPipeline::Drain() {
  while (!in_flight_.empty()) TakeInOldest();
}

bool StepPipeline::Submit(const Turns& turns) {
  std::vector<ActiveTurn*> able;
  std::vector<StepCandidate> candidates;
  for (const std::unique_ptr<ActiveTurn>& turn : turns) {
    if (!turn->place().held()) continue;
    if (turn->awaits_result()) return false;
    if (!turn->candidate().has_value()) continue;
    able.push_back(turn.get());
    candidates.push_back(*turn->candidate());
    candidates.back().tenant_work = shares_->got(turn->tenant());
  }
  const auto alone = std::find_if(able.begin(), able.end(),
                                  [](const ActiveTurn* turn) { return turn->goes_alone(); });
  if (alone != able.end()) {
    candidates = {candidates[static_cast<size_t>(alone - able.begin())]};
    able = {*alone};
  }
  StepLimits limits = limits_;
  limits.max_prompt_tokens = cost_model_.PromptTokens();
  limits.max_tokens = static_cast<uint32_t>(std::min<uint64_t>(limits.max_tokens, most_tokens_));
  const std::vector<StepPiece> plan = PlanStep(candidates, limits);
  if (plan.empty()) return false;

  Step step;
  std::vector<ls_batch_entry> entries;
  for (const StepPiece& piece : plan) {
    step.turns.push_back(able[piece.candidate]);
    entries.push_back(step.turns.back()->Entry(piece.num_tokens));
    const bool is_decode = candidates[piece.candidate].is_decode;
    (is_decode ? step.decode_rows : step.prompt_tokens) += piece.num_tokens;
  }
  last_prompt_tokens_ = step.prompt_tokens;
  step.submitted = MonotonicTime::Now();
  const absl::StatusOr<uint64_t> ticket = backend_.Submit(entries);
  ++step_number_;
  if (!ticket.ok()) {
    Refused(step, ticket.status());
    return true;
  }
  // Submitted resets what PassedOver counts, for the turns in the step.
  if (step.prompt_tokens > 0) {
    for (ActiveTurn* turn : able) turn->PassedOver();
  }
  for (ActiveTurn* turn : step.turns) turn->Submitted(step_number_, step.submitted);
  if (shares_->are_shared()) ChargeTenants(step, plan, candidates);
  step.ticket = *ticket;
  in_flight_.push_back(std::move(step));
  return true;
}

void StepPipeline::ChargeTenants(const Step& step, std::span<const StepPiece> plan,
                                 std::span<const StepCandidate> candidates) {
  const double decode_seconds =
      cost_model_.decode_seconds() / static_cast<double>(std::max<uint64_t>(1, step.decode_rows));
  for (size_t i = 0; i < plan.size(); ++i) {
    shares_->Charge(step.turns[i]->tenant(),
                    WorkOfRows(plan[i].num_tokens, candidates[plan[i].candidate].is_decode,
                               decode_seconds, cost_model_.token_seconds()));
  }
}

void StepPipeline::Refused(const Step& step, const absl::Status& status) {
  if (step.turns.size() == 1) return step.turns.front()->Abort(Failure(status));
  for (ActiveTurn* turn : step.turns) turn->Refused();
}

void StepPipeline::TakeInOldest() {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  absl::StatusOr<std::span<const ls_result>> results = backend_.Wait(step.ticket);
  if (results.ok() && results->size() != step.turns.size()) {
    results = absl::InternalError("results are missing");
  }
  const MonotonicTime now = MonotonicTime::Now();
  if (results.ok()) {
    // The time of this step begins when the previous step is done, because only then does this step
    // have the device to itself.
    const absl::Duration time = now - std::max(step.submitted, last_done_);
    cost_model_.Learn(step.decode_rows, step.prompt_tokens, time);
    if (step.decode_rows == 0 && step.prompt_tokens >= kTellingTokens) {
      prefill_speed_->Learn(step.prompt_tokens, time, now);
    }
  }
  last_done_ = now;
  for (size_t i = 0; i < step.turns.size(); ++i) {
    if (results.ok()) {
      const ls_result& result = (*results)[i];
      if (result.code == LS_UNAVAILABLE) lost_ = FailureOf(result);
      step.turns[i]->Absorb(result, now);
    } else {
      step.turns[i]->AbsorbFailure(Failure(results.status()));
    }
  }
}

}  // namespace longstream
