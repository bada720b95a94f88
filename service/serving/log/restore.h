// Computes the state of a session from its turns in the store.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_RESTORE_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_RESTORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/chat/history.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/serving/log/place.h"
#include "service/serving/log/turn_codec.h"
#include "service/sessions/session_state.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// Renders messages that were logged, as the turn did that brought them. `before`: the session
// before that turn. `host_memory` counts the conversation.
using RenderMessages = std::function<absl::StatusOr<std::shared_ptr<const chat::History>>(
    const LoggedMessages& messages, const SessionState& before, const ServedModel& model,
    HostMemory* host_memory)>;

// How a session goes on if its model's weights or cache layout have changed.
enum class OnModelChange {
  kRefuse,     // it does not
  kRecompute,  // the present model reads the whole history as one prompt
};

// How sessions are read from the store.
struct RestoreOptions {
  store::SessionStore* store = nullptr;
  RenderMessages render;
  OnModelChange on_model_change = OnModelChange::kRefuse;
  HostMemory* host_memory = nullptr;
  // Whether sessions of this version of the model may go on with a later one, which reads their
  // histories anew, whatever on_model_change says. Empty: they may not.
  std::function<bool(const std::string& model, const ModelIdentity& version)> moves = nullptr;
};

// Why the new version of a session's model reads its history anew.
inline constexpr const char* kMovedToVersion =
    "the session was moved to another version of its model";

// A committed turn as the log has it.
struct LoggedTurn {
  store::TurnRow row;  // without its request and its result
  LoggedStart start;
  LoggedResult result;
};
// DATA_LOSS: the request or the result is not as written.
absl::StatusOr<LoggedTurn> DecodeTurn(store::TurnRow row);

// The turns of a history, from the first to the last, and the position at which each of them ends,
// which is before its own end if the session has returned to a position within it.
struct TurnsOfHistory {
  std::vector<LoggedTurn> turns;
  std::vector<uint64_t> ends;
};
// Reads the present history of the session `row`. `properties`: of the row. The turns come without
// their answers. DATA_LOSS: a turn is damaged. Also returns the errors of the store.
absl::StatusOr<TurnsOfHistory> ReadTurnsOfHistory(store::SessionStore* store,
                                                  const store::SessionRow& row,
                                                  const LoggedProperties& properties);

struct RestoredSession {
  SessionState state;
  store::TurnNumber head = store::kNoTurn;  // the last turn of the state
  SessionId head_id;                        // if there is one
  LoggedProperties properties;              // of a session that has this state
  // SessionCaches::lowest_rewind of caches that have read the state.
  uint64_t lowest_rewind = 0;
  // Why the model must read the whole history anew: its feed is empty then. Empty: it need not.
  std::string read_anew;
};

// Computes the state of the session `row` from the turns of its history, from the first to the
// last. Errors as for RestoreSession.
absl::StatusOr<RestoredSession> RestoreTurns(const RestoreOptions& options,
                                             const store::SessionRow& row,
                                             const LoggedProperties& properties,
                                             const std::vector<LoggedTurn>& turns,
                                             const ServedModel& model);

// Reads the history of `row` up to `place`. The caches can be computed from the state.
// `properties`: of the row.
// NOT_FOUND: the session has no turn with this id, or it has been collected. FAILED_PRECONDITION:
// the turn is not committed; or another model than `model` ran the last turn.
// INVALID_ARGUMENT: the position is behind the end of the session. DATA_LOSS: a turn is damaged.
// Also returns the errors of the store and of RestoreOptions.render.
absl::StatusOr<RestoredSession> RestoreSession(const RestoreOptions& options,
                                               const store::SessionRow& row,
                                               const LoggedProperties& properties,
                                               const ServedModel& model, const Place& place = {});

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_RESTORE_H_
