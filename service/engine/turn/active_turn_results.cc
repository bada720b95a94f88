// How a turn takes in the results of its steps.
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/turn/active_turn.h"

namespace longstream {

std::optional<StepPart> ActiveTurn::Land() {
  const StepPart part = parts_.Land();
  if (!ending()) return part;
  overread_ = true;
  if (!parts_.in_flight()) Conclude();
  return std::nullopt;
}

void ActiveTurn::AbsorbFailure(absl::Status status) {
  if (Land().has_value()) Abort(std::move(status));
}

void ActiveTurn::Absorb(const ls_result& result, MonotonicTime now) {
  if (result.code == LS_OK) history_.Record(parts_.oldest());
  const std::optional<StepPart> part = Land();
  if (!part.has_value()) return;
  if (result.code != LS_OK) return Abort(FailureOf(result));
  if (replays()) return AbsorbReplay(part->end, now);
  if (request().kind == TurnKind::kScore) AbsorbScore(result, part->end);
  if (!ending() && phase_ == Phase::kPrefill) AbsorbPrefill(part->end, now);
  if (!ending() && part->draws) AbsorbToken(result, now);
  if (!ending() && part->end - part->begin > 1) history_.Publish();
}

void ActiveTurn::AbsorbReplay(uint64_t position, MonotonicTime now) {
  turn_->stream.Push(PrefillEvent{prefill_total_ - (history_.size() - position), prefill_total_});
  meter_.AdvancePrefill(now);
  history_.Publish();
  if (parts_.in_flight() || history_.NeedsReplay()) return;
  absl::Status status = history_.sequence().MarkRollbackPoint();
  if (!status.ok()) return Abort(std::move(status));
  history_.FinishReplay(now);
  phase_ = Phase::kPrefill;
}

void ActiveTurn::AbsorbPrefill(uint64_t position, MonotonicTime now) {
  const uint64_t left = history_.size() - position;
  turn_->stream.Push(PrefillEvent{prefill_total_ - left, prefill_total_});
  meter_.AdvancePrefill(now);
  if (!input_open_ && left <= (generates() ? 0u : 1u)) FinishPrefill();
}

void ActiveTurn::FinishPrefill() {
  meter_.Begin(MonotonicTime::Now());  // if there was nothing to read
  meter_.FinishPrefill();
  if (!generates()) End(TurnEnd{});
}

void ActiveTurn::AbsorbScore(const ls_result& result, uint64_t position) {
  if (!WantsScores(request(), position)) {
    scored_ = position + 1;
    return;
  }
  absl::StatusOr<ScoreEvent> event = ScoreRows(result, scored_, history_.tokens(), request());
  if (!event.ok()) return Abort(event.status());
  scored_ += event->tokens.size();
  if (request().logits == nullptr) return turn_->stream.Push(*std::move(event));
  absl::Status status = PushScores(result, *event, info().vocabulary_size, request());
  if (!status.ok()) Abort(std::move(status));
}

bool ActiveTurn::PassRow(const ls_result& result, const std::optional<TokenLogProb>& log_prob,
                         std::string_view text) {
  LogitSink* const sink = request().logits.get();
  if (sink == nullptr || !sink->WantsRows()) return true;
  absl::Status status = PushDrawn(result, log_prob, text, info().vocabulary_size, request());
  if (status.ok() || sink->GoesOnWithout(status)) return true;
  Abort(std::move(status));
  return false;
}

void ActiveTurn::AbsorbToken(const ls_result& result, MonotonicTime now) {
  int32_t token = result.sampled;
  if (token < 0) {
    return Abort(absl::InternalError(
        "the backend drew no token: every token was banned or its logit is NaN"));
  }
  phase_ = Phase::kDecode;
  meter_.AddToken(now);
  turn_->allowance.Count(1);
  if (generator_->NextIsKnown()) {
    token = generator_->KnownToken(0);
    if (!generator_->follows()) meter_.ForceToken(/*drawn_differs=*/token != result.sampled);
  }
  history_.Append(token, /*generated=*/true);
  history_.Publish();

  Generator::Step step = generator_->Take(token, history_.size());
  if (!step.status.ok()) return Abort(std::move(step.status));
  std::optional<TokenLogProb> log_prob;
  if (result.num_log_prob_rows == 1) {
    log_prob = LogProbRow(result, 0, request().top_log_probs, token);
  }
  if (!PassRow(result, log_prob, step.delta.text)) return;
  if (request().log_probs && log_prob.has_value()) {
    step.delta.log_probs.push_back(*std::move(log_prob));
  }
  turn_->stream.Push(std::move(step.delta));
  if (step.reason == FinishReason::kNone) return;
  if (generator_->AwaitsForced()) {
    const uint64_t size = meter_.usage().generated_tokens;
    return Abort(absl::FailedPreconditionError(absl::StrCat(
        "resume.token_ids[", size, "]: the turn ends after ", size, " of these tokens")));
  }
  TurnEnd end;
  end.reason = step.reason;
  end.stop_string = std::move(step.stop_string);
  end.kept_text_bytes = step.kept_text_bytes;
  end.incomplete_character = std::move(step.incomplete_character);
  if (step.reason == FinishReason::kStopToken) end.stop_token = token;
  End(std::move(end));
}

}  // namespace longstream
