// The form that a request asks the answer to have.
#ifndef LONGSTREAM_GATEWAY_REQUESTS_ANSWER_FORMAT_H_
#define LONGSTREAM_GATEWAY_REQUESTS_ANSWER_FORMAT_H_

#include <optional>
#include <string>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// The functions throw BadRequest. The server checks schemas, patterns and grammars.

// A format of OpenAI's or Anthropic's: {"type": "text"}, {"type": "json_object"}, or {"type":
// "json_schema"} with a `schema`, which may be in a member `json_schema`. nullptr, or text: absent.
std::optional<v1::ResponseFormat> ReadFormat(const Json* format, const std::string& path);

// `response_format`, or a field of the same purpose of vLLM's (structured_outputs, guided_json,
// guided_regex, guided_choice, guided_grammar) or of llama.cpp's (json_schema, grammar). At most
// one of them. Absent: any text.
std::optional<v1::ResponseFormat> ReadAnswerFormat(JsonObject& body);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_REQUESTS_ANSWER_FORMAT_H_
