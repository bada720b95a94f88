// Encodes the input of a turn as the continuation of the session's history, which the turn's lease
// protects.
#ifndef LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_
#define LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/host_memory/host_memory.h"
#include "service/models/served_model.h"
#include "service/sessions/session_state.h"
#include "service/wire/request_memory.h"

namespace longstream {

// The size of an input's text for TextThreads. Messages count as a text of the greatest size,
// because the whole conversation is rendered.
size_t TextBytes(const v1::Input& input);

// INVALID_ARGUMENT: the model's context cannot hold a text of so many bytes.
absl::Status CheckTextBytes(const std::string& text, const ServedModel& model);

// Renders the messages of a turn that was logged. For SessionManager::Options.
absl::StatusOr<std::shared_ptr<const chat::History>> RenderLoggedMessages(
    const LoggedMessages& messages, const SessionState& before, const ServedModel& model,
    HostMemory* host_memory);

// Converts the inputs of a turn, one after the other, to the token ids that they add to a history.
// Each text is encoded once. The token before a text decides whether the tokenizer begins a
// sequence (BOS) or continues after other text.
//
// INVALID_ARGUMENT: an input is wrong; the message names the field, the value and the limit.
// Messages have more errors: the errors of chat::AddMessages, and UNIMPLEMENTED or
// FAILED_PRECONDITION if the model's chat template cannot be used. Also returns the errors of
// RequestCharge::Add. Not thread-safe.
class TurnInput {
 public:
  // `history` is not used after the constructor. `model` outlives the input.
  TurnInput(const ServedModel& model, const SessionState& history, bool parse_special);

  // Returns the ids that an input adds after the history and all earlier inputs. Returns no ids for
  // an absent input. Messages are read as a new conversation. May move texts out of the input.
  // Counts in `charge` the memory that the input takes while it is read, except for the tokens of a
  // text.
  absl::StatusOr<std::vector<int32_t>> Read(v1::Input* input, RequestCharge* charge);

  // Reads messages that continue the conversation of `history`. Sets the prompt, the kept tokens,
  // the conversation and in_thoughts of `turn`. `history` must be the same object as in the
  // constructor. `host_memory` counts the new conversation as long as it exists; may be nullptr.
  // Otherwise as Read. `logs`: sets the logged messages of `turn`, too. `now`: the time that the
  // template sees in the first turn of a session; absent: the present.
  absl::Status ReadMessages(v1::Messages* messages, const SessionState& history,
                            HostMemory* host_memory, RequestCharge* charge, TurnRequest* turn,
                            bool logs = false, std::optional<std::tm> now = std::nullopt);

  // The number of tokens of the history and of all inputs so far.
  uint64_t position() const { return position_; }

 private:
  // Counts the added tokens. Returns an error if they exceed the context.
  absl::Status Add(const std::vector<int32_t>& tokens);

  const ServedModel& model_;
  const bool parse_special_;
  uint64_t position_;
  std::optional<int32_t> last_token_;  // the token before `position_`
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TURN_INPUT_H_
