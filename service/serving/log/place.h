// A place in a session's history, to which the session can return.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_PLACE_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_PLACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/chat/history.h"
#include "service/models/served_model.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_state.h"
#include "service/sessions/store/log_records.h"

namespace longstream {

// The place that a request names: the end of a turn, or a position. Both absent: the present end of
// the session.
struct Place {
  std::optional<SessionId> turn;
  std::optional<uint64_t> position;

  bool given() const { return turn.has_value() || position.has_value(); }
};

// A committed turn of a session's history, and what the session was at its end.
struct TurnOfHistory {
  SessionId id;
  store::TurnNumber number = store::kNoTurn;
  uint64_t start = 0;       // its tokens begin here
  uint64_t prompt_end = 0;  // its answer begins here
  uint64_t position = 0;    // after it
  bool has_messages = false;
  TextTail before;
  TextTail tail;
  std::shared_ptr<const chat::History> conversation;  // nullptr: none, or it was forgotten
  bool is_cut = false;  // the session has returned to a position within the turn, which ends there
};

// Brings `state`, which is that at the end of `turn` or of a later turn that kept these tokens,
// back to a position of the turn: turn.start < position <= turn.position.
void CutState(const TurnOfHistory& turn, uint64_t position, const ServedModel& model,
              SessionState* state);

// The part of a history up to a position: its first turns, the last of them cut at `position`.
struct PartOfHistory {
  size_t num_turns = 0;
  uint64_t position = 0;
};
// A turn's place in a history. `start`: how many tokens of the turn before it the turn has kept.
// `end`: the session's position after the turn.
struct TurnRange {
  uint64_t start = 0;
  uint64_t end = 0;
};
// Returns the turns up to the first one that has the token before `position` as the session has it
// at the end of `history`; none if the position is 0. INVALID_ARGUMENT: the session has fewer
// tokens.
absl::StatusOr<PartOfHistory> FindPosition(const std::vector<TurnRange>& history,
                                           uint64_t position);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_PLACE_H_
