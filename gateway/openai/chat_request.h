// The request of POST /v1/chat/completions.
#ifndef LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_
#define LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_

#include "gateway/conversations/conversation_key.h"
#include "gateway/json/json_object.h"
#include "gateway/openai/turn_fields.h"

namespace longstream::gateway {

struct ChatRequest {
  TurnFields fields;  // fields.request.input has the messages
  // Names model, tools and template arguments (ConversationTurn::beginning), for a caller who is
  // named by `scope`.
  ConversationKey Beginning(const ConversationKey& scope) const;
};

// Throws BadRequest.
ChatRequest ReadChatRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_CHAT_REQUEST_H_
