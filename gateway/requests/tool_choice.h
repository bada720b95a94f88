// Whether the model may or must call functions.
#ifndef LONGSTREAM_GATEWAY_REQUESTS_TOOL_CHOICE_H_
#define LONGSTREAM_GATEWAY_REQUESTS_TOOL_CHOICE_H_

#include <optional>
#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

struct ToolChoice {
  bool may_call = true;
  bool must_call = false;
  std::string function = {};  // the one that the model must call; empty: any one
  bool calls_once = false;    // at most one call in an answer
};

// OpenAI's `tool_choice` and `parallel_tool_calls`. Throws BadRequest.
ToolChoice ReadToolChoice(JsonObject& body);

// The form of an answer in which the model calls functions, in the ways of Hermes and Qwen, of
// Llama and of Mistral (ReplyReader). The arguments fit the function's schema. `functions`: as
// templates expect them. Throws BadRequest if none of them may be called.
v1::ResponseFormat FormatOfCalls(const Json& functions, const ToolChoice& choice);

// Gives the functions to the template, and the answer its form: that of calls if the model must
// call, otherwise `answer`, in place of which the model may also call. Thoughts may come before it,
// unless the arguments of the template, which are set already, suppress them. Returns whether the
// model may call functions. Throws BadRequest.
bool OfferTools(const Json& functions, const ToolChoice& choice,
                std::optional<v1::ResponseFormat> answer, v1::GenerateRequest* request);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_REQUESTS_TOOL_CHOICE_H_
