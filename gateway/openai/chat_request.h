// The request of POST /v1/chat/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_
#define LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_

#include "gateway/json/json_object.h"
#include "gateway/openai/turn_fields.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

struct ChatRequest {
  TurnFields fields;              // fields.request.input has the messages
  bool with_calls = false;        // the model may call functions
  bool separate_thoughts = true;  // from the text of the answer
};

// Reads the messages, the tools, the arguments of the template and the form of the answer. Returns
// whether the model may call functions. Throws BadRequest.
bool ReadConversation(JsonObject& body, v1::GenerateRequest* request);

// Throws BadRequest.
ChatRequest ReadChatRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_
