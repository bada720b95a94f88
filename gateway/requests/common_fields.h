// Parts of requests that several APIs have.
#ifndef LONGSTREAM_GATEWAY_REQUESTS_COMMON_FIELDS_H_
#define LONGSTREAM_GATEWAY_REQUESTS_COMMON_FIELDS_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// The path of an element of an array, for errors.
std::string At(const std::string& path, size_t index);

// The text of a content: a string, or an array of objects with a `type` of these and a `text`,
// which are joined by line breaks, because templates of models for text take one text. Throws
// BadRequest.
std::string TextOfContent(const Json& content, const std::string& path,
                          std::initializer_list<std::string_view> types);

// The arguments of a call of a function, which some APIs write as a text of JSON, and templates
// expect as an object. Throws BadRequest, which names `path`.
Json ArgumentsOf(const std::string& text, const std::string& path);

// The member of a message with the thoughts before its text, as templates expect it.
inline constexpr char kThoughtsMember[] = "reasoning_content";
// Gives a message of the model its thoughts and its calls of functions. Either may be empty.
void SetMembers(const std::string& thoughts, Json calls, v1::Message* message);

// Adds the strings of an array that end the answer, and lets its text end before them. Absent:
// none. Throws BadRequest.
void ReadStopStrings(const Json* strings, const std::string& path, v1::StopRule* stop);

// The messages of a request: one or more. Throws BadRequest.
const Json& MessageList(JsonObject& body);

// The tools of a request; nullptr: absent. Throws BadRequest.
const Json* ToolList(JsonObject& body);

// A function, as templates expect it. `parameters`: a JSON schema; nullptr: absent.
Json FunctionTool(JsonObject& tool, const Json* parameters);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_REQUESTS_COMMON_FIELDS_H_
