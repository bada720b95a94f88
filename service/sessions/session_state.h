// The two parts of a session: its state, and the caches that stand for it.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/chat/history.h"
#include "service/models/backend_model.h"

namespace longstream {

// The whole state of a session. The caches can always be computed again from it.
//
// It belongs to the holder of the session's turn (TurnLease) and has no lock of its own.
struct SessionState {
  std::vector<int32_t> tokens;
  std::vector<bool> generated;  // per token: drawn by the model, not given
  // The conversation that the tokens spell; nullptr: they spell none.
  std::shared_ptr<const chat::History> conversation;  // shared with forks
};

// A model's caches of the session's tokens.
//
// It belongs to the thread of the model's engine: that thread alone creates, reads and frees the
// sequence, so the sequence is gone before the session is.
struct SessionCaches {
  // The sequence has read a prefix of the tokens, and never the last one. So every next turn has a
  // token to read and logits to draw from.
  Sequence sequence;
  // Tokens that the sequence had read when it was last whole. The tokens between its position and
  // this one are computed again.
  uint64_t computed_tokens = 0;
  // Why the sequence stands further back, for the report of the next turn.
  std::string recompute_reason;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
