// The request of POST /v1/messages, Anthropic's API.
#ifndef LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_REQUEST_H_
#define LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_REQUEST_H_

#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

struct MessagesRequest {
  std::string model;
  v1::GenerateRequest request;  // request.input has the messages
  bool with_calls = false;      // the model may call functions
  bool stream = false;
};

// Throws BadRequest. `only_counts`: the request only asks how many tokens the prompt has, so
// max_tokens may be missing.
MessagesRequest ReadMessagesRequest(const Json& body, bool only_counts = false);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_REQUEST_H_
