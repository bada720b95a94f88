// The history of a session: its head, and the places to which a session in memory can return.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/turns/session_turns.h"

namespace longstream {
namespace {

// Forgets conversations of earlier turns, because each holds the whole text: keeps those of the
// last four turns, of every second of the four before, of every fourth of the eight before, and so
// on.
void ForgetConversations(std::vector<TurnOfHistory>* history) {
  constexpr size_t kLast = 4;
  for (size_t i = 0; i < history->size(); ++i) {
    const size_t age = history->size() - 1 - i;
    const int level = std::bit_width(age / kLast);
    if (i % (size_t{1} << level) != 0) (*history)[i].conversation = nullptr;
  }
}

}  // namespace

SessionTurns::Head SessionTurns::head() const {
  absl::MutexLock lock(&mutex_);
  return head_;
}

void SessionTurns::SetHead(Head head) {
  absl::MutexLock lock(&mutex_);
  head_ = std::move(head);
  // Turns that started on the same turn before are abandoned.
  if (!durable()) head_.number = static_cast<store::TurnNumber>(next_number_++);
  ++version_;
  Count();
}

uint64_t SessionTurns::version() const {
  if (durable()) return static_cast<uint64_t>(stored_.log->version());
  absl::MutexLock lock(&mutex_);
  return version_;
}

absl::Duration SessionTurns::ttl() const {
  absl::MutexLock lock(&mutex_);
  return head_.properties.ttl.value_or(stored_.ttl);
}

void SessionTurns::Describe(SessionView* view) const {
  view->version = version();
  if (durable()) view->ttl = ttl();
  absl::MutexLock lock(&mutex_);
  view->head_turn = head_.id;
}

void SessionTurns::AddToHistory(uint64_t number, const Record& record, const EndedTurn& ended) {
  ++version_;
  std::vector<TurnOfHistory>& history = head_.history;
  // The turn may have replaced the ends of earlier ones.
  while (!history.empty() && history.back().position > ended.start_position) history.pop_back();
  TurnOfHistory turn;
  turn.id = record.view.id;
  turn.number = static_cast<store::TurnNumber>(number);
  turn.start = ended.start_position;
  turn.prompt_end = ended.start_position + ended.end.usage.prompt_tokens;
  turn.position = ended.end.position;
  turn.has_messages = ended.has_messages;
  turn.before = ended.state->tail;
  turn.tail = ended.tail;
  turn.conversation = ended.conversation;
  history.push_back(std::move(turn));
  ForgetConversations(&history);
}

absl::StatusOr<SessionTurns::PlaceFound> SessionTurns::FindInMemory(
    const Place& place, const SessionState& state, const ServedModel& model) const {
  absl::MutexLock lock(&mutex_);
  PlaceFound found{head_, state};
  std::vector<TurnOfHistory>& history = found.head.history;
  if (place.turn.has_value()) {
    const auto turn = std::find_if(history.begin(), history.end(), [&](const TurnOfHistory& other) {
      return other.id == *place.turn;
    });
    const std::string name = absl::StrCat("turn_id: turn ", place.turn->ToString());
    if (turn == history.end() || turn->is_cut) {
      const auto known = numbers_.find(*place.turn);
      if (turn == history.end() && known == numbers_.end()) {
        return absl::NotFoundError(absl::StrCat("turn_id: no turn ", place.turn->ToString(),
                                                " in session ", session_id_.ToString()));
      }
      const bool is_committed =
          turn != history.end() || records_.at(known->second).view.state == TurnState::kCommitted;
      if (!is_committed) return absl::FailedPreconditionError(name + " is not committed");
      return absl::FailedPreconditionError(
          name +
          " is not in the session's history any more; only a session with DURABILITY_TURN"
          " can return to it");
    }
    history.erase(turn + 1, history.end());
  } else if (place.position.has_value()) {
    std::vector<TurnRange> ranges;
    ranges.reserve(history.size());
    for (const TurnOfHistory& turn : history) ranges.push_back({turn.start, turn.position});
    const absl::StatusOr<PartOfHistory> part = FindPosition(ranges, *place.position);
    if (!part.ok()) return part.status();
    history.resize(part->num_turns);
    if (part->position > 0 && part->position < history.back().position) {
      CutState(history.back(), part->position, model, &found.state);
      TurnOfHistory& last = history.back();
      last.is_cut = true;
      last.position = part->position;
      last.prompt_end = std::min(last.prompt_end, part->position);
      last.tail = found.state.tail;
      last.conversation = found.state.conversation;
    }
  }
  if (history.empty()) {
    found.state = SessionState{};
    found.state.recompute = state.recompute;
    found.head.id.reset();
    found.head.position = 0;
    return found;
  }
  const TurnOfHistory& last = history.back();
  if (found.state.tokens.size() > last.position) {
    CutState(last, last.position, model, &found.state);
  }
  found.head.id = last.id;
  found.head.position = last.position;
  return found;
}

}  // namespace longstream
