// How a turn ends, and to which position its session is rolled back if the turn was aborted.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/turn/active_turn.h"
#include "service/tokenizer/text_decoder.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {
namespace {

// Whether the caller or a shutdown ended the turn, and not the backend.
bool EndedFromOutside(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnavailable(status);
}

}  // namespace

void ActiveTurn::Abort(absl::Status status) {
  TurnEnd end;
  end.status = std::move(status);
  End(std::move(end));
}

void ActiveTurn::End(TurnEnd end) {
  if (ending()) return;
  outcome_ = std::move(end);
  if (!parts_.in_flight()) Conclude();
}

void ActiveTurn::EndAtContext() {
  AddPrompt(request().prompt);
  PushStarted();
  TurnEnd end;
  end.reason = FinishReason::kContext;
  End(std::move(end));
}

void ActiveTurn::DropStopText() {
  const Tokenizer& tokenizer = model_->tokenizer();
  const std::span<const int32_t> tokens = history_.tokens();
  const uint64_t prompt_end = history_.start() + meter_.usage().prompt_tokens;
  const std::span<const int32_t> before = tokens.first(prompt_end);
  const bool continues = std::any_of(before.begin(), before.end(),
                                     [&](int32_t token) { return !tokenizer.IsSpecial(token); });
  TextDecoder decoder(tokenizer, {.skip_special = true, .continues = continues},
                      ContinuesText() ? history_.tail().bytes : "");
  const uint64_t delivered = generator_->text_bytes();
  std::string text;
  uint64_t keep = prompt_end;  // these tokens end at a character that a delta has
  uint64_t kept_bytes = 0;
  for (uint64_t i = prompt_end; i < tokens.size() && text.size() <= delivered; ++i) {
    decoder.Push(tokens[i], &text);
    if (text.size() > delivered || !decoder.pending().empty()) continue;
    keep = i + 1;
    kept_bytes = text.size();
  }
  const std::string rest = text.substr(kept_bytes, delivered - kept_bytes);
  dropped_ = true;
  history_.RollBack(keep, "the text of a stop was taken back");
  outcome_->kept_text_bytes = 0;
  outcome_->incomplete_character.clear();
  if (rest.empty()) return;
  const std::optional<int32_t> last =
      keep > 0 ? std::optional(history_.tokens().back()) : std::nullopt;
  const absl::StatusOr<std::vector<int32_t>> again = tokenizer.EncodeAfter(last, rest);
  if (again.ok()) history_.Append(*again, /*generated=*/true);
}

bool ActiveTurn::Restore(const absl::Status& status) {
  if (status.ok() && request().stop.drops_text && outcome_->kept_text_bytes > 0) {
    DropStopText();
    return true;
  }
  if (status.ok()) {
    if (overread_) history_.RollBack(history_.size(), "surplus tokens of a turn were taken back");
    return true;
  }
  const uint64_t start = history_.start();
  uint64_t keep = start;
  if (request().on_abort == OnAbort::kKeep && EndedFromOutside(status)) {
    keep = request().kind == TurnKind::kAppend
               ? history_.size()
               : std::max(start, turn_->stream.delivered_position());
  }
  history_.RollBack(keep, absl::StrCat("an aborted turn was rolled back to position ", keep));
  if (keep == start) history_.PutBack();
  return keep > start;
}

TextTail ActiveTurn::TailAfter(const TurnEnd& end) const {
  const TextTail& before = history_.tail();
  if (!generates()) {
    const bool has_input = history_.size() > history_.start();
    if (before.bytes.empty() || request().kept_tokens.has_value()) return {};
    return {before.bytes, before.has_ended || has_input};
  }
  if (end.status.ok()) return {end.incomplete_character, /*has_ended=*/false};
  const std::span<const int32_t> tokens = history_.tokens();
  const uint64_t prompt_end = history_.start() + meter_.usage().prompt_tokens;
  return {
      IncompleteCharacter(model_->tokenizer(), tokens.subspan(std::min(prompt_end, tokens.size())),
                          ContinuesText() ? before.bytes : ""),
      /*has_ended=*/false};
}

std::optional<SessionBytes> ActiveTurn::BytesAfter() const {
  std::optional<SessionBytes> bytes = history_.bytes();
  const auto& conversation = request().conversation;
  if (!bytes.has_value() || !keeps_prompt_ || conversation == nullptr) return bytes;
  const auto& before = history_.session_state().conversation;
  if (before != nullptr) bytes->host -= before->bytes;
  bytes->host += conversation->bytes;
  return bytes;
}

void ActiveTurn::Conclude() {
  concluding_ = true;
  TurnEnd& end = *outcome_;
  const bool began = phase_ != Phase::kWaiting || end.status.ok();
  keeps_prompt_ = began && Restore(end.status);
  if (keeps_prompt_) new_tail_ = TailAfter(end);
  history_.Settle(/*whole=*/end.status.ok() && !overread_ && !dropped_);
  meter_.Finish(BytesAfter());
  end.position = history_.size();
  end.usage = meter_.usage();
  if (turn_->journal != nullptr) LogEnd();
  TryToFinish();
}

void ActiveTurn::LogEnd() {
  const TurnEnd& end = *outcome_;
  EndedTurn ended;
  ended.end = end;
  ended.kept = keeps_prompt_;
  ended.answer = turn_->stream.answer();
  if (keeps_prompt_ && !end.status.ok() && ended.answer != nullptr) {
    // The session keeps the tokens that were delivered.
    auto delivered = std::make_shared<Answer>(*ended.answer);
    delivered->Truncate(end.position);
    ended.answer = std::move(delivered);
  }
  ended.state = &history_.session_state();
  ended.start_position = history_.start();
  ended.feed_begin = history_.feed_begin();
  ended.tail = new_tail_;
  ended.has_messages = request().kept_tokens.has_value();
  ended.conversation = request().conversation != nullptr ? request().conversation
                                                         : history_.session_state().conversation;
  if (turn_->journal->is_logged() && keeps_prompt_ && ended.has_messages) {
    ended.lowest_rewind = history_.NextLowestRewind();
  }
  turn_->journal->End(ended);
}

void ActiveTurn::FailToCommit(const absl::Status& status) {
  if (!keeps_prompt_) return;
  keeps_prompt_ = false;
  history_.RollBack(history_.start(), "a turn could not be committed");
  history_.PutBack();
  history_.Settle(/*whole=*/false);
  TurnEnd end;
  end.status = status;
  end.position = history_.size();
  end.usage = meter_.usage();
  outcome_ = std::move(end);
}

void ActiveTurn::TellAnswer() const {
  if (turn_->tap == nullptr || !generates() || !outcome_->status.ok() || !keeps_prompt_) return;
  const size_t answer_begin = history_.start() + meter_.usage().prompt_tokens;
  if (answer_begin >= history_.tokens().size()) return;  // there is nothing to compare
  turn_->tap->Answered({model_->name(), history_.tokens(), answer_begin});
}

void ActiveTurn::TryToFinish() {
  if (turn_->journal != nullptr) {
    const std::optional<absl::Status> outcome = turn_->journal->Outcome();
    if (!outcome.has_value()) return;
    if (!outcome->ok()) FailToCommit(*outcome);
  }
  ended_ = true;
  TurnEnd& end = *outcome_;
  if (keeps_prompt_) history_.set_tail(std::move(new_tail_));
  if (keeps_prompt_ && request().conversation != nullptr) {
    history_.set_conversation(request().conversation);
  }
  meter_.End(end);
  TellAnswer();
  if (absl::IsInternal(end.status) && on_failure_) {
    on_failure_(model_->name(), request().request_id, end.status);
  }
  if (!demand_.keeps_caches) history_.DropCaches();
  if (keeps_prompt_ && demand_.keeps_caches) kept_session_ = history_.shared_session();
  history_.GiveBack();
  if (turn_->journal != nullptr) turn_->journal->Release();
  turn_->allowance.GiveBack();
  slot_->Leave();
  if (request().logits != nullptr) request().logits->Ended(end.status);
  turn_->stream.Finish(std::move(end));
}

}  // namespace longstream
