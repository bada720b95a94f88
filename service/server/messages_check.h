// Messages of a request: checked, and written down by the model's chat template.
#ifndef LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/models/served_model.h"

namespace longstream {

// How large an input's text is for TextThreads: a conversation is rendered as a whole.
size_t TextBytes(const v1::Input& input);

// The tokens of messages alone. `generates`: whether the text ends with what begins an answer
// unless they say otherwise. Errors as the contract has them.
absl::StatusOr<std::vector<int32_t>> EncodeMessages(const v1::Messages& messages,
                                                    bool parse_special, bool generates,
                                                    const ServedModel& model);

// Begins the turn of turn->session and puts what the messages add to its history into *turn, which
// holds the session's turn then. Not OK: it does not. REQUIRES: turn->kind, session and
// expected_position are set.
absl::Status BeginWithMessages(const v1::Messages& messages, bool parse_special,
                               const ServedModel& model, TurnRequest* turn);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
