// The life of one turn, step by step.
#include "service/engine/turn/active_turn.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/engine/turn/batch_entry.h"
#include "service/tokenizer/text_decoder.h"

namespace longstream {
namespace {

TurnDemand DemandOf(const TurnRequest& request, const TurnHistory& history) {
  TurnDemand demand;
  demand.generates = request.kind == TurnKind::kGenerate;
  demand.keeps_caches = request.kind != TurnKind::kScore;
  demand.start_tokens = history.start();
  demand.prompt_tokens = request.prompt.size();
  demand.max_tokens = request.max_tokens;
  demand.context_limit = history.session().context_limit();
  return demand;
}

}  // namespace

ActiveTurn::ActiveTurn(std::shared_ptr<Turn> turn, TurnLease lease, ServedModel* model,
                       ModelMetrics* metrics, const FailureListener& on_failure)
    : turn_(std::move(turn)),
      model_(model),
      on_failure_(on_failure),
      history_(std::move(lease), &model->backend(), turn_->request.kept_tokens),
      demand_(DemandOf(turn_->request, history_)),
      meter_(metrics, turn_->arrival),
      input_open_(turn_->request.kind == TurnKind::kAppend) {}

// ---------------------------------------------------------------- admission

PoolBytes ActiveTurn::BytesWanted() const { return demand_.Wanted(info(), history_.cached()); }

uint64_t ActiveTurn::BytesUnused() const {
  if (ended() || reserved_end_ == 0) return 0;
  return demand_.GivenBack(info(), reserved_end_, history_.sequence().position());
}

uint64_t ActiveTurn::MostBytesBack() const {
  if (ended() || reserved_end_ == 0) return 0;
  return demand_.GivenBack(info(), reserved_end_, meter_.usage().reused_tokens);
}

absl::Status ActiveTurn::NoRoom() const {
  std::string asked =
      absl::StrCat("the turn asks for room up to position ", demand_.RequestedEnd());
  if (generates()) {
    absl::StrAppend(&asked, ", max_tokens ", request().max_tokens,
                    request().max_tokens == 0 ? " (the whole context)" : "");
  }
  return absl::ResourceExhaustedError(asked);
}

absl::Status ActiveTurn::Reserve(uint64_t tokens) {
  absl::Status status = history_.sequence().Reserve(tokens);
  if (status.ok()) reserved_end_ = history_.sequence().position() + tokens;
  return status;
}

absl::Status ActiveTurn::ReserveForRequest() {
  // Reserve at least one token, because a rollback point needs a reservation.
  absl::Status status =
      Reserve(std::max(demand_.RequestedEnd() - history_.sequence().position(), uint64_t{1}));
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "; ", NoRoom().message()));
}

absl::Status ActiveTurn::TakeMemory() {
  bool made_caches = false;
  if (absl::Status status = history_.EnsureCaches(&made_caches); !status.ok()) return status;
  absl::Status status = ReserveForRequest();
  if (status.ok()) status = history_.sequence().MarkRollbackPoint();
  if (!status.ok() && made_caches) history_.DropCaches();
  return status;
}

absl::Status ActiveTurn::Admit(MonotonicTime now) {
  history_.Cut();
  if (demand_.FillsContext()) {
    EndAtContext();
    return absl::OkStatus();
  }
  if (absl::Status status = TakeMemory(); !status.ok()) {
    history_.PutBack();
    return status;
  }
  meter_.Admit(history_.sequence().position(), history_.recomputed_tokens(),
               history_.recompute_reason());
  AddPrompt(request().prompt);
  if (generates()) {
    generator_.emplace(*model_, request(), history_.tokens(), history_.generated(),
                       ContinuesText() ? history_.tail().bytes : "");
  }
  prefill_total_ = history_.unread();
  client_seen_ = now;
  phase_ = Phase::kPrefill;
  PushStarted();
  // A scored text of one token has nothing to read, because no token comes before it that could
  // predict it.
  if (request().kind == TurnKind::kScore && prefill_total_ == 1) {
    AbsorbScore(ls_result{});
    FinishPrefill();
  }
  return absl::OkStatus();
}

void ActiveTurn::EndAtContext() {
  AddPrompt(request().prompt);
  PushStarted();
  TurnEnd end;
  end.reason = FinishReason::kContext;
  End(std::move(end));
}

bool ActiveTurn::ContinuesText() const {
  return request().prompt.empty() && !request().kept_tokens.has_value() &&
         !history_.tail().has_ended;
}

void ActiveTurn::PushStarted() {
  turn_->stream.Push(
      StartedEvent{history_.start(), meter_.usage().prompt_tokens, request().sampling.seed});
  const std::string& incomplete = history_.tail().bytes;
  if (!generates() || incomplete.empty() || (generator_.has_value() && ContinuesText())) return;
  // If the turn has messages, they contain the earlier text, with U+FFFD.
  if (request().kept_tokens.has_value()) return;
  DeltaEvent delta;
  delta.position = history_.start();
  TextDecoder(model_->tokenizer(), {.continues = true}, incomplete).Finish(&delta.text);
  turn_->stream.Push(std::move(delta));
}

void ActiveTurn::AddPrompt(std::span<const int32_t> tokens) {
  history_.Append(tokens, /*generated=*/false);
  meter_.AddPrompt(tokens.size());
}

// ---------------------------------------------------------------- a round

void ActiveTurn::TakeInput() {
  if (!input_open_ || phase_ == Phase::kWaiting || ending() || parts_.in_flight()) return;
  const Turn::Input input = turn_->TakeInput();
  if (!input.tokens.empty()) {
    AddPrompt(input.tokens);
    prefill_total_ += input.tokens.size();
    absl::Status status = Reserve(history_.unread());
    if (!status.ok()) return Abort(std::move(status));
  }
  input_open_ = !input.closed;
  // The sequence has read all tokens but the last one, or there was nothing to read.
  if (!input_open_ && history_.unread() <= 1) FinishPrefill();
}

void ActiveTurn::Look() {
  candidate_.reset();
  awaits_result_ = false;
  is_settled_ = false;
  if (ending() || phase_ == Phase::kWaiting || turn_->stream.Full()) return;
  if (parts_.drawing() && !GoesOn()) return;
  awaits_result_ = parts_.drawing() && !CanLookAhead();
  if (!awaits_result_) candidate_ = FindCandidate();
  is_settled_ = candidate_.has_value() && !input_open_ && !parts_.in_flight();
}

bool ActiveTurn::CanLookAhead() const {
  // A token is free to take back if the model has no recurrent state, or if the token does not end
  // on a grid line. LS_CAP_LOOK_AHEAD promises that the backend takes such a token back without a
  // recomputation.
  const uint64_t end = history_.sequence().position() + 1;
  const bool is_free = info().state_bytes_per_sequence == 0 || end % info().prefill_grid != 0;
  return is_free && generator_->CanLookAhead();
}

std::optional<StepCandidate> ActiveTurn::FindCandidate() {
  const bool drawing = parts_.drawing();
  StepCandidate candidate;
  candidate.position = history_.sequence().position();
  candidate.remaining = drawing ? 1 : history_.unread();
  // Only a generating turn reads the last token, because it draws the next token from its logits.
  if (!generates() && candidate.remaining > 0) --candidate.remaining;
  if (candidate.remaining == 0) return std::nullopt;
  candidate.is_decode = drawing || phase_ == Phase::kDecode;
  const uint64_t drawn = meter_.usage().generated_tokens + (drawing ? 1 : 0);
  candidate.is_beginning = candidate.is_decode && drawn < kBeginningTokens;
  candidate.input_open = input_open_;
  candidate.priority = static_cast<int32_t>(request().priority);
  candidate.last_step = parts_.last_step();
  candidate.passed_over = parts_.passed_over();
  if (!CanStep(candidate, info().prefill_grid)) return std::nullopt;
  return candidate;
}

absl::Duration ActiveTurn::ClientSilence(MonotonicTime now) {
  if (ending() || phase_ == Phase::kWaiting) return absl::ZeroDuration();
  if (computes()) {
    client_seen_ = now;
    return absl::ZeroDuration();
  }
  // The history grows when tokens arrive, and the queue shrinks when the client reads.
  const uint64_t progress = history_.size() - turn_->stream.queued_bytes();
  if (progress != client_progress_) {
    client_progress_ = progress;
    client_seen_ = now;
  }
  return now - client_seen_;
}

// ---------------------------------------------------------------- a step

ls_batch_entry ActiveTurn::Entry(uint32_t num_tokens) {
  const bool drawing = parts_.drawing();
  const uint64_t position = history_.sequence().position();
  // A part draws a token only if it ends with the last known token.
  const bool draws = generates() && (drawing || num_tokens == history_.unread());
  const StepPart part{position, position + num_tokens, draws};
  parts_.Compose(part);
  const bool is_decode = drawing || phase_ == Phase::kDecode;
  const ls_sampling* sampling = draws ? generator_->Sampling(/*ahead=*/drawing ? 1 : 0) : nullptr;
  return MakeBatchEntry(history_, request(), part, is_decode, /*from_previous=*/drawing, sampling);
}

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
  const std::optional<StepPart> part = Land();
  if (!part.has_value()) return;
  if (result.code != LS_OK) return Abort(FailureOf(result));
  if (request().kind == TurnKind::kScore) AbsorbScore(result);
  if (!ending() && phase_ == Phase::kPrefill) AbsorbPrefill(part->end, now);
  if (!ending() && part->draws) AbsorbToken(result, now);
  if (!ending() && part->end - part->begin > 1) history_.Publish();
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

void ActiveTurn::AbsorbScore(const ls_result& result) {
  absl::StatusOr<ScoreEvent> event = ScoreRows(result, scored_, history_.tokens(), request());
  if (!event.ok()) return Abort(event.status());
  scored_ += event->tokens.size();
  turn_->stream.Push(*std::move(event));
}

void ActiveTurn::AbsorbToken(const ls_result& result, MonotonicTime now) {
  const int32_t token = result.sampled;
  if (token < 0) {
    return Abort(absl::InternalError(
        "the backend drew no token: every token was banned or its logit is NaN"));
  }
  phase_ = Phase::kDecode;
  meter_.AddToken(now);
  history_.Append(token, /*generated=*/true);
  history_.Publish();

  Generator::Step step = generator_->Take(token, history_.size());
  if (request().log_probs && result.num_log_prob_rows == 1) {
    step.delta.log_probs.push_back(LogProbRow(result, 0, request().top_log_probs, token));
  }
  turn_->stream.Push(std::move(step.delta));
  if (step.reason == FinishReason::kNone) return;
  TurnEnd end;
  end.reason = step.reason;
  end.stop_string = std::move(step.stop_string);
  end.kept_text_bytes = step.kept_text_bytes;
  end.incomplete_character = std::move(step.incomplete_character);
  if (step.reason == FinishReason::kStopToken) end.stop_token = token;
  End(std::move(end));
}

}  // namespace longstream
