// The two parts of a session: its state, and the model's caches for that state.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/chat/history.h"
#include "service/models/backend_model.h"

namespace longstream {

// An incomplete character at the end of the text that turns have generated. No delta has it yet.
// The next turn that generates delivers it: with its rest if the turn has no input, otherwise as
// U+FFFD.
struct TextTail {
  std::string bytes;       // its first bytes, at most 3; empty: there is no incomplete character
  bool has_ended = false;  // input follows the bytes, so no token can complete the character
};

// The whole state of a session. The caches can always be computed again from the state.
//
// Only the holder of the session's lease (TurnLease) uses the state, so the state needs no lock.
struct SessionState {
  std::vector<int32_t> tokens;
  std::vector<bool> generated;  // per token: whether the model drew it
  TextTail tail;
  // The conversation that the tokens encode. nullptr: the tokens are not a conversation.
  std::shared_ptr<const chat::History> conversation;  // shared with forks
};

// The model's caches for the tokens of a session.
//
// Only the thread of the model's engine creates, uses and frees the sequence. It frees the sequence
// before the session is destroyed.
struct SessionCaches {
  // The sequence has read a prefix of the tokens, but never the last token. So the next turn always
  // has a token to read, and logits to draw from.
  Sequence sequence;
  // The number of tokens that the sequence had read when it was last complete. If the sequence's
  // position is lower now, the tokens between the two positions will be computed again.
  uint64_t computed_tokens = 0;
  // Why the position is lower than computed_tokens. The next turn reports this reason.
  std::string recompute_reason;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_STATE_H_
