// Checks a request's messages and renders them with the model's chat template.
#ifndef LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_

#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/chat/history.h"
#include "service/models/served_model.h"

namespace longstream {

// The change that a request's messages make to a session's tokens. `generates`: unless the messages
// say otherwise, the text ends with the beginning of an answer. INVALID_ARGUMENT names the field;
// UNIMPLEMENTED, FAILED_PRECONDITION: the model's chat template cannot be used; and the errors of
// chat::AddMessages.
absl::StatusOr<chat::Addition> AddMessages(const v1::Messages& request, bool parse_special,
                                           bool generates, const ServedModel& model,
                                           const chat::SessionText& session);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
