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

// Returns the bytes of an incomplete character at the end of `tokens`. `before`: the bytes of an
// incomplete character before them.
std::string IncompleteEnd(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                          std::string_view before) {
  constexpr size_t kMostBytes = 3;  // of an incomplete character
  size_t begin = tokens.size();
  for (size_t bytes = 0; begin > 0 && bytes < kMostBytes;) {
    --begin;
    if (!tokenizer.IsSpecial(tokens[begin])) bytes += tokenizer.TokenBytes(tokens[begin]).size();
  }
  if (begin > 0) before = "";
  TextDecoder decoder(tokenizer, {.skip_special = true, .continues = true}, before);
  std::string text;
  for (const int32_t token : tokens.subspan(begin)) decoder.Push(token, &text);
  return std::string(decoder.pending());
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

bool ActiveTurn::Restore(const absl::Status& status) {
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
  return {IncompleteEnd(model_->tokenizer(), tokens.subspan(std::min(prompt_end, tokens.size())),
                        ContinuesText() ? before.bytes : ""),
          /*has_ended=*/false};
}

void ActiveTurn::Conclude() {
  ended_ = true;
  TurnEnd& end = *outcome_;
  const bool began = phase_ != Phase::kWaiting || end.status.ok();
  const bool keeps_prompt = began && Restore(end.status);
  if (keeps_prompt) history_.set_tail(TailAfter(end));
  history_.Settle(/*whole=*/end.status.ok() && !overread_);
  if (keeps_prompt && request().conversation != nullptr) {
    history_.set_conversation(request().conversation);
  }
  const std::optional<SessionBytes> bytes = history_.bytes();
  meter_.End(end, bytes);
  end.position = history_.size();
  end.usage = meter_.usage();
  if (absl::IsInternal(end.status) && on_failure_) on_failure_(model_->name(), end.status);
  if (!demand_.keeps_caches) history_.DropCaches();
  history_.GiveBack();
  turn_->stream.Finish(std::move(end));
}

}  // namespace longstream
