// Cuts the tokens of a session into prompts and answers.
#include "service/serving/log/session_history.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/log/restore.h"

namespace longstream {
namespace {

std::vector<int32_t> Tokens(std::span<const int32_t> tokens, uint64_t begin, uint64_t end) {
  if (begin >= end) return {};
  const std::span<const int32_t> part = tokens.subspan(begin, end - begin);
  return {part.begin(), part.end()};
}

}  // namespace

std::vector<TurnText> TurnsInMemory(std::span<const TurnOfHistory> history,
                                    std::span<const int32_t> tokens) {
  std::vector<TurnText> turns;
  uint64_t begin = 0;
  for (size_t i = 0; i < history.size(); ++i) {
    const TurnOfHistory& of_history = history[i];
    TurnText& turn = turns.emplace_back();
    turn.id = of_history.id;
    // Tokens before the turn's own are the rest of turns that it has replaced in part.
    turn.prompt = Tokens(tokens, begin, of_history.prompt_end);
    turn.answer = Tokens(tokens, of_history.prompt_end, of_history.position);
    turn.prompt_end = of_history.prompt_end;
    turn.answer_end = begin = of_history.position;
  }
  return turns;
}

absl::StatusOr<std::vector<TurnText>> TurnsInStore(store::SessionStore* store,
                                                   const store::SessionRow& row,
                                                   uint64_t tokenizer) {
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row.properties);
  if (!properties.ok()) return properties.status();
  absl::StatusOr<TurnsOfHistory> history = ReadTurnsOfHistory(store, row, *properties);
  if (!history.ok()) return history.status();
  std::vector<TurnText> turns;
  turns.reserve(history->turns.size());
  for (size_t i = 0; i < history->turns.size(); ++i) {
    LoggedTurn& logged = history->turns[i];
    if (logged.start.model.tokenizer != tokenizer) {
      return absl::FailedPreconditionError(absl::StrCat(
          "session_id: the tokens of session ", row.key.id.ToString(),
          " were made by another tokenizer than the present one of model ", row.model));
    }
    TurnText& turn = turns.emplace_back();
    turn.id = logged.row.id;
    const uint64_t start = logged.start.start_position;
    const uint64_t prompt_end = start + logged.result.prompt_tokens;
    turn.prompt_end = std::min(prompt_end, history->ends[i]);
    // Of a prompt that is cut, the session has a part of the text and no messages.
    if (turn.prompt_end == prompt_end) turn.messages = std::move(logged.start.messages);
    turn.answer_end = history->ends[i];
    turn.prompt = Tokens(logged.result.tokens, 0, turn.prompt_end - start);
    turn.answer = Tokens(logged.result.tokens, turn.prompt_end - start, turn.answer_end - start);
  }
  return turns;
}

}  // namespace longstream
