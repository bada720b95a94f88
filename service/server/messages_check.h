// Checks a request's messages and renders them with the model's chat template.
#ifndef LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_

#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/chat/history.h"
#include "service/models/served_model.h"
#include "service/wire/request_memory.h"

namespace longstream {

// Returns the change that the messages of a request make to the tokens of a session. `generates`:
// unless the request says otherwise, the text ends with the template's beginning of an answer.
// INVALID_ARGUMENT: a field is wrong; the message names it. UNIMPLEMENTED or FAILED_PRECONDITION:
// the chat template of the model cannot be used. Also returns the errors of chat::AddMessages and
// RequestCharge::Add. Moves the texts out of the request. Counts in `charge` the memory of the
// values that the template gets.
absl::StatusOr<chat::Addition> AddMessages(v1::Messages* request, bool parse_special,
                                           bool generates, const ServedModel& model,
                                           const chat::SessionText& session, RequestCharge* charge);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_MESSAGES_CHECK_H_
