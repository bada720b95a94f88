#include "gateway/tokens/tokenize_request.h"

#include <string>

#include "gateway/openai/chat_request.h"
#include "gateway/requests/sampling_fields.h"

namespace longstream::gateway {

v1::TokenizeRequest ReadTokenizeRequest(const Json& body) {
  JsonObject object(body, "");
  v1::TokenizeRequest request;
  request.set_model(object.Text("model").value_or(""));
  if (object.Find("messages") != nullptr) {
    v1::GenerateRequest turn;
    ReadConversation(object, &turn);
    request.mutable_input()->Swap(turn.mutable_input());
    object.Refuse("add_special_tokens", "the chat template writes the special tokens (false)",
                  false);
  } else if (object.Find("content") != nullptr) {
    request.mutable_input()->set_text(object.RequiredText("content"));
    request.set_add_special(object.Bool("add_special").value_or(false));
    object.Refuse("with_pieces", "pieces are in token_strs (return_token_strs: true)", false);
  } else if (object.Find("prompt") != nullptr) {
    request.mutable_input()->set_text(object.RequiredText("prompt"));
    request.set_add_special(object.Bool("add_special_tokens").value_or(true));
  } else {
    throw BadRequest("prompt", "expected a prompt, messages or a content");
  }
  request.set_parse_special(object.Bool("parse_special").value_or(false));
  request.set_pieces(object.Bool("return_token_strs").value_or(false));
  object.ExpectAllRead();
  return request;
}

v1::DetokenizeRequest ReadDetokenizeRequest(const Json& body) {
  JsonObject object(body, "");
  v1::DetokenizeRequest request;
  request.set_model(object.Text("model").value_or(""));
  const Json* const tokens = object.Find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    throw BadRequest("tokens", "expected an array of token ids");
  }
  for (const Json& id : *tokens) request.add_token_ids(TokenId(id, "tokens"));
  object.ExpectAllRead();
  return request;
}

}  // namespace longstream::gateway
