// A turn's input, read against the history that the turn's lease protects.
#ifndef LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_
#define LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"
#include "service/sessions/session_state.h"

namespace longstream {

// Bytes of text in an input, for TextThreads. A conversation counts as the longest text there is:
// it is rendered as a whole.
size_t TextBytes(const v1::Input& input);

// Turns inputs into the token ids that they add to a history, one after the other. Each text is
// encoded once: the token before it decides whether the tokenizer begins a sequence (BOS) or goes
// on after other text.
//
// Refusals are INVALID_ARGUMENT and name the field, the value and the limit; for messages also the
// errors of chat::AddMessages, and UNIMPLEMENTED or FAILED_PRECONDITION where the model's chat
// template cannot be used. Not thread-safe.
class TurnInput {
 public:
  // `history` is not used after the constructor. `model` outlives the input.
  TurnInput(const ServedModel& model, const SessionState& history, bool parse_special);

  // The ids that a text, token ids or messages add to the history and to the inputs before; none
  // for an absent input. Messages are read as a conversation of their own.
  absl::StatusOr<std::vector<int32_t>> Read(const v1::Input& input);

  // Reads messages that go on with the conversation of `history`, the same as the constructor's:
  // sets the prompt, the kept tokens and the conversation of `turn`.
  absl::Status ReadMessages(const v1::Messages& messages, const SessionState& history,
                            TurnRequest* turn);

  // Tokens of the history and of the inputs.
  uint64_t position() const { return position_; }

 private:
  // Counts added tokens. Refuses tokens that exceed the context.
  absl::Status Add(const std::vector<int32_t>& tokens);

  const ServedModel& model_;
  const bool parse_special_;
  uint64_t position_;
  std::optional<int32_t> last_token_;  // before `position_`
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_
