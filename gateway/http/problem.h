// Errors in the form that clients of OpenAI's API expect.
#ifndef LONGSTREAM_GATEWAY_HTTP_PROBLEM_H_
#define LONGSTREAM_GATEWAY_HTTP_PROBLEM_H_

#include <string>
#include <string_view>

#include "gateway/http/http_message.h"

namespace longstream::gateway {

// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}. `param`: the field that is
// wrong; empty: null. `code`: for programs; empty: null.
std::string ProblemJson(int status, std::string_view text, std::string_view param = "",
                        std::string_view code = "");

// The type of an error with this status, such as "not_found_error".
const char* ProblemType(int status);

HttpAnswer ProblemAnswer(int status, std::string_view text, std::string_view param = "",
                         std::string_view code = "");

// 503, for a request that may be sent again in a second.
HttpAnswer BusyAnswer(std::string_view text);

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_HTTP_PROBLEM_H_
