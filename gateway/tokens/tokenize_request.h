// The requests of POST /tokenize and POST /detokenize, in the forms of vLLM and llama.cpp.
#ifndef LONGSTREAM_GATEWAY_TOKENS_TOKENIZE_REQUEST_H_
#define LONGSTREAM_GATEWAY_TOKENS_TOKENIZE_REQUEST_H_

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Throws BadRequest. A `prompt` is a text, `messages` are a conversation, and `content` is a text
// in llama.cpp's form, without the tokens that begin a session unless the request asks for them.
v1::TokenizeRequest ReadTokenizeRequest(const Json& body);
// Throws BadRequest.
v1::DetokenizeRequest ReadDetokenizeRequest(const Json& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TOKENS_TOKENIZE_REQUEST_H_
