// Finds places and cuts the state of a session.
#include "service/serving/log/place.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "service/tokenizer/text_decoder.h"

namespace longstream {
namespace {

// The incomplete character at a position within a turn.
TextTail TailAt(const TurnOfHistory& turn, uint64_t position, const ServedModel& model,
                const std::vector<int32_t>& tokens) {
  if (position <= turn.prompt_end) {
    if (turn.has_messages || turn.before.bytes.empty()) return {};
    return {turn.before.bytes, /*has_ended=*/true};
  }
  const bool goes_on =
      turn.prompt_end == turn.start && !turn.has_messages && !turn.before.has_ended;
  const std::span<const int32_t> answer(&tokens[turn.prompt_end], position - turn.prompt_end);
  return {IncompleteCharacter(model.tokenizer(), answer, goes_on ? turn.before.bytes : ""),
          /*has_ended=*/false};
}

}  // namespace

void CutState(const TurnOfHistory& turn, uint64_t position, const ServedModel& model,
              SessionState* state) {
  state->tokens.resize(position);
  state->generated.resize(position);
  // The last token is never read (SessionCaches::sequence).
  state->feed.GoBack(position - 1, model.backend().info().prefill_grid);
  const bool is_end = position == turn.position;
  state->tail = is_end ? turn.tail : TailAt(turn, position, model, state->tokens);
  state->conversation = position >= turn.prompt_end ? turn.conversation : nullptr;
}

absl::StatusOr<PartOfHistory> FindPosition(const std::vector<TurnRange>& history,
                                           uint64_t position) {
  const uint64_t end = history.empty() ? 0 : history.back().end;
  if (position > end) {
    return absl::InvalidArgumentError(
        absl::StrCat("position: expected 0 ... ", end, ", found ", position));
  }
  if (position == 0) return PartOfHistory{};
  // Later turns may have replaced the token.
  size_t found = history.size() - 1;
  for (size_t i = history.size() - 1; i > 0 && history[i].start >= position; --i) {
    if (history[i - 1].end >= position) found = i - 1;
  }
  return PartOfHistory{found + 1, position};
}

}  // namespace longstream
