// The life of one turn, step by step.
#include "service/engine/turn/active_turn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

std::shared_ptr<Session> SessionOf(const Turn& turn, const ServedModel& model) {
  if (turn.request.session != nullptr) return turn.request.session;
  // A scored text needs caches, but nobody else may find them: a session outside the table.
  return std::make_shared<Session>(SessionId{}, model.name(), model.backend().info().context_limit,
                                   absl::InfiniteDuration());
}

std::string_view NameOf(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStopToken:
      return "stop_token";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kMaxTokens:
      return "max_tokens";
    case FinishReason::kContext:
      return "context";
  }
  return "";
}

TokenLogProb LogProbRow(const ls_result& result, uint32_t row, uint32_t num_top, int32_t token) {
  TokenLogProb log_prob;
  log_prob.token = token;
  log_prob.log_prob = result.log_probs[row];
  const ls_top_token* top = result.top + static_cast<size_t>(row) * num_top;
  log_prob.top.assign(top, top + num_top);
  return log_prob;
}

}  // namespace

ActiveTurn::ActiveTurn(std::shared_ptr<Turn> turn, ServedModel* model, ModelMetrics* metrics,
                       const FailureListener& on_failure)
    : turn_(std::move(turn)),
      session_(SessionOf(*turn_, *model)),
      model_(model),
      metrics_(metrics),
      on_failure_(on_failure),
      input_open_(turn_->request.kind == TurnKind::kAppend),
      start_tokens_(turn_->request.kept_tokens.value_or(session_->tokens.size())) {}

// ---------------------------------------------------------------- steps

absl::Duration ActiveTurn::ClientSilence(MonotonicTime now) {
  if (ending() || phase_ == Phase::kWaiting) return absl::ZeroDuration();
  // What arrives makes the history longer, what is read the queue shorter.
  const uint64_t progress = session_->tokens.size() - turn_->stream.queued_bytes();
  if (progress != client_progress_ || Computes()) {
    client_progress_ = progress;
    client_seen_ = now;
  }
  return now - client_seen_;
}

uint64_t ActiveTurn::unread() const {
  const uint64_t known = session_->tokens.size();
  return known - std::min(known, session_->sequence.position());
}

bool ActiveTurn::GoesOn() const { return !generator_->NextIsLast(session_->tokens.size() + 1); }

bool ActiveTurn::CanLookAhead() const {
  const ls_model_info& info = model_->backend().info();
  // What LS_CAP_LOOK_AHEAD lets be taken back without computing anything again.
  const uint64_t end = session_->sequence.position() + 1;
  const bool is_free = info.state_bytes_per_sequence == 0 || end % info.prefill_grid != 0;
  return is_free && generator_->CanLookAhead();
}

bool ActiveTurn::AwaitsResult() {
  return drawing() && !ending() && GoesOn() && !CanLookAhead() && !turn_->stream.Full();
}

std::optional<StepCandidate> ActiveTurn::Candidate() {
  if (ending() || phase_ == Phase::kWaiting || turn_->stream.Full()) return std::nullopt;
  if (drawing() && !(GoesOn() && CanLookAhead())) return std::nullopt;
  StepCandidate candidate;
  candidate.position = session_->sequence.position();
  candidate.remaining = drawing() ? 1 : unread();
  // Only a generating turn reads the last token: its logits are what it draws from.
  if (turn_->request.kind != TurnKind::kGenerate && candidate.remaining > 0) --candidate.remaining;
  if (candidate.remaining == 0) return std::nullopt;
  candidate.is_decode = drawing() || phase_ == Phase::kDecode;
  const uint64_t drawn = usage_.generated_tokens + (drawing() ? 1 : 0);
  candidate.is_beginning = candidate.is_decode && drawn < kBeginningTokens;
  candidate.input_open = input_open_;
  candidate.priority = static_cast<int32_t>(turn_->request.priority);
  candidate.last_step = last_step_;
  if (!CanStep(candidate, model_->backend().info().prefill_grid)) return std::nullopt;
  return candidate;
}

ls_batch_entry ActiveTurn::Entry(uint32_t num_tokens) {
  static constexpr int32_t kFromPrevious = LS_TOKEN_FROM_PREVIOUS;
  const TurnRequest& request = turn_->request;
  const uint64_t position = session_->sequence.position();
  // What reaches the end of what is known is what the next draw is for.
  const bool draws = request.kind == TurnKind::kGenerate && (drawing() || num_tokens == unread());
  next_piece_ = {position, position + num_tokens, draws};
  ls_batch_entry entry{};
  entry.sequence = session_->sequence.handle();
  entry.tokens = drawing() ? &kFromPrevious : &session_->tokens[position];
  entry.num_tokens = num_tokens;
  entry.is_decode = drawing() || phase_ == Phase::kDecode ? 1 : 0;
  if (draws) {
    entry.sampling = generator_->Sampling(/*ahead=*/drawing() ? 1 : 0);
    if (request.log_probs) {
      entry.log_prob_rows = LS_ROWS_LAST;
      entry.num_top = request.top_log_probs;
    }
  } else if (request.kind == TurnKind::kScore) {
    entry.log_prob_rows = LS_ROWS_ALL;
    entry.targets = entry.tokens + 1;
    entry.num_top = std::max(1u, request.top_log_probs);
  }
  return entry;
}

void ActiveTurn::Submitted(uint64_t step_number) {
  in_flight_.push_back(next_piece_);
  last_step_ = step_number;
  steps_alone_ = false;
}

std::optional<ActiveTurn::Piece> ActiveTurn::Land() {
  const Piece piece = in_flight_.front();
  in_flight_.pop_front();
  if (!ending()) return piece;
  overread_ = true;
  if (!in_flight()) Conclude();
  return std::nullopt;
}

void ActiveTurn::AbsorbFailure(absl::Status status) {
  if (Land().has_value()) Abort(std::move(status));
}

void ActiveTurn::Absorb(const ls_result& result, MonotonicTime now) {
  const std::optional<Piece> piece = Land();
  if (!piece.has_value()) return;
  if (result.code != LS_OK) return Abort(FailureOf(result));
  if (turn_->request.kind == TurnKind::kScore) AbsorbScore(result);
  if (!ending() && phase_ == Phase::kPrefill) AbsorbPrefill(piece->end, now);
  if (!ending() && piece->draws) AbsorbToken(result, now);
  if (!ending() && piece->end - piece->begin > 1) session_->Publish();
}

void ActiveTurn::AbsorbPrefill(uint64_t position, MonotonicTime now) {
  const uint64_t left = session_->tokens.size() - position;
  turn_->stream.Push(PrefillEvent{prefill_total_ - left, prefill_total_});
  prefilled_ = now;
  const bool generates = turn_->request.kind == TurnKind::kGenerate;
  if (!input_open_ && left <= (generates ? 0u : 1u)) FinishPrefill();
}

void ActiveTurn::FinishPrefill() {
  usage_.prefill_time = prefilled_ - admitted_;
  metrics_->ObservePrefill(absl::ToDoubleSeconds(usage_.prefill_time));
  if (turn_->request.kind != TurnKind::kGenerate) End(TurnEnd{});
}

void ActiveTurn::AbsorbScore(const ls_result& result) {
  const uint32_t num_top = std::max(1u, turn_->request.top_log_probs);
  ScoreEvent event;
  event.first_index = scored_;
  if (scored_ == 0) {
    TokenLogProb first;
    first.token = session_->tokens.front();
    first.log_prob = std::numeric_limits<float>::quiet_NaN();
    event.tokens.push_back(std::move(first));
  }
  for (uint32_t row = 0; row < result.num_log_prob_rows; ++row) {
    if (std::isnan(result.log_probs[row])) {
      return Abort(absl::InternalError(
          absl::StrCat("the backend gave no log-probability for token ",
                       scored_ + event.tokens.size(), " of the text: the logits are NaN")));
    }
    const int32_t token = session_->tokens[scored_ + event.tokens.size()];
    event.tokens.push_back(LogProbRow(result, row, num_top, token));
  }
  scored_ += event.tokens.size();
  turn_->stream.Push(std::move(event));
}

void ActiveTurn::AbsorbToken(const ls_result& result, MonotonicTime now) {
  if (result.sampled < 0) {
    return Abort(absl::InternalError("the backend drew no token: every one was banned or NaN"));
  }
  if (phase_ == Phase::kPrefill) {
    phase_ = Phase::kDecode;
    usage_.time_to_first_token = now - turn_->arrival;
    metrics_->ObserveTimeToFirstToken(absl::ToDoubleSeconds(usage_.time_to_first_token));
  } else {
    metrics_->ObserveInterTokenLatency(absl::ToDoubleSeconds(now - last_token_));
  }
  last_token_ = now;
  usage_.decode_time = now - prefilled_;
  ++usage_.generated_tokens;
  metrics_->AddGeneratedTokens(1);
  session_->tokens.push_back(result.sampled);
  session_->generated.push_back(true);
  session_->Publish();

  Generator::Step step = generator_->Take(result.sampled, session_->tokens.size());
  if (turn_->request.log_probs && result.num_log_prob_rows == 1) {
    step.delta.log_probs.push_back(
        LogProbRow(result, 0, turn_->request.top_log_probs, result.sampled));
  }
  turn_->stream.Push(std::move(step.delta));
  if (step.reason == FinishReason::kNone) return;
  TurnEnd end;
  end.reason = step.reason;
  end.stop_string = std::move(step.stop_string);
  if (step.reason == FinishReason::kStopToken) end.stop_token = result.sampled;
  End(std::move(end));
}

// ---------------------------------------------------------------- the end

bool ActiveTurn::CallerAborted(const absl::Status& status) const {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnavailable(status);
}

void ActiveTurn::Abort(absl::Status status) {
  TurnEnd end;
  end.status = std::move(status);
  End(std::move(end));
}

void ActiveTurn::End(TurnEnd end) {
  if (ending()) return;
  outcome_ = std::move(end);
  if (!in_flight()) Conclude();
}

void ActiveTurn::Restore(const absl::Status& status) {
  keeps_prompt_ = status.ok();
  if (status.ok()) {
    if (overread_) RollBack(session_->tokens.size(), "the end of a turn was taken back");
    return;
  }
  uint64_t keep = start_tokens_;
  if (turn_->request.on_abort == OnAbort::kKeep && CallerAborted(status)) {
    keep = turn_->request.kind == TurnKind::kAppend
               ? session_->tokens.size()
               : std::max(start_tokens_, turn_->stream.delivered_position());
  }
  RollBack(keep, absl::StrCat("an aborted turn was rolled back to position ", keep));
  keeps_prompt_ = keep > start_tokens_;
  if (!keeps_prompt_) PutBackHistory();
}

void ActiveTurn::RollBack(uint64_t history, std::string reason) {
  session_->tokens.resize(history);
  session_->generated.resize(history);
  // The last token of a history is never read (Session::tokens).
  const uint64_t target =
      std::min(session_->sequence.position(), history > 0 ? history - 1 : uint64_t{0});
  absl::StatusOr<uint64_t> restored = session_->sequence.Truncate(target);
  // What an earlier rollback lost may not have been read again yet: it still is a recomputation.
  const uint64_t readable = history > 0 ? history - 1 : 0;
  session_->computed_tokens = std::max(target, std::min(session_->computed_tokens, readable));
  session_->recompute_reason = std::move(reason);
  if (restored.ok()) return;
  // The caches are beyond repair, the history is not: start over and read it again.
  session_->sequence = Sequence();
  absl::StatusOr<Sequence> fresh = model_->backend().CreateSequence();
  if (fresh.ok()) session_->sequence = *std::move(fresh);
  session_->recompute_reason =
      absl::StrCat("the backend could not roll back: ", restored.status().message());
}

void ActiveTurn::Conclude() {
  ended_ = true;
  TurnEnd& end = *outcome_;
  if (phase_ != Phase::kWaiting || end.status.ok()) Restore(end.status);
  if (session_->sequence.valid()) {
    // Giving back what is unused cannot fail; a backend that says otherwise loses only memory.
    session_->sequence.Reserve(0).IgnoreError();
    if (end.status.ok() && !overread_) session_->computed_tokens = session_->sequence.position();
    const ls_sequence_bytes bytes = session_->sequence.bytes();
    usage_.bytes = SessionBytes{bytes.kv, bytes.window, bytes.state};
    metrics_->ObserveSessionBytes(bytes.kv + bytes.window + bytes.state);
  }
  if (keeps_prompt_ && turn_->request.conversation != nullptr) {
    session_->conversation = turn_->request.conversation;
  }
  end.position = session_->tokens.size();
  end.usage = usage_;
  if (usage_.generated_tokens > 0) {
    metrics_->ObserveDecode(absl::ToDoubleSeconds(usage_.decode_time));
  }
  metrics_->ObserveEndToEnd(absl::ToDoubleSeconds(MonotonicTime::Now() - turn_->arrival));
  metrics_->CountRequest(absl::StatusCodeToString(end.status.code()), NameOf(end.reason));
  if (absl::IsInternal(end.status) && on_failure_) on_failure_(model_->name(), end.status);
  if (turn_->request.session != nullptr) {
    session_->EndTurn();
  } else {
    session_->sequence = Sequence();
  }
  turn_->stream.Finish(std::move(end));
}

}  // namespace longstream
