// The texts that the turns of a session have read and written, for programs that show them.
#ifndef LONGSTREAM_SERVICE_SERVING_LOG_SESSION_HISTORY_H_
#define LONGSTREAM_SERVICE_SERVING_LOG_SESSION_HISTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/serving/log/place.h"
#include "service/serving/log/turn_codec.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// A turn of a session's history.
struct TurnText {
  SessionId id;
  // As they were sent. Absent: the turn had none, they are not kept, or the session has returned to
  // a position within them.
  std::optional<LoggedMessages> messages;
  std::vector<int32_t> prompt;  // the tokens that the turn has read
  std::vector<int32_t> answer;  // the tokens that it has generated
  uint64_t prompt_end = 0;      // the session's position behind each of them
  uint64_t answer_end = 0;
};

struct SessionHistory {
  std::vector<TurnText> turns;               // from the first to the last
  uint64_t version = 0;                      // of the session
  std::shared_ptr<const ServedModel> model;  // its tokenizer reads the tokens
};

// The turns of a session in memory. A later turn may have replaced the end of an earlier one.
// REQUIRES: `history` is that of a session with these tokens
std::vector<TurnText> TurnsInMemory(std::span<const TurnOfHistory> history,
                                    std::span<const int32_t> tokens);

// Reads the turns of the session `row`, which may be in memory too. `tokenizer`: the fingerprint
// of the tokenizer that will read the tokens. FAILED_PRECONDITION: another one has made them.
// DATA_LOSS: a turn is damaged. Also returns the errors of the store.
absl::StatusOr<std::vector<TurnText>> TurnsInStore(store::SessionStore* store,
                                                   const store::SessionRow& row,
                                                   uint64_t tokenizer);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_LOG_SESSION_HISTORY_H_
