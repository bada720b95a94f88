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

// Throws BadRequest.
MessagesRequest ReadMessagesRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANTHROPIC_MESSAGES_REQUEST_H_
