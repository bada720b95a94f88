// Parts of the answers that chat completions and completions share.
#ifndef LONGSTREAM_GATEWAY_OPENAI_ANSWER_HEAD_H_
#define LONGSTREAM_GATEWAY_OPENAI_ANSWER_HEAD_H_

#include <cstdint>
#include <string>

#include "gateway/answers/answer_writer.h"
#include "gateway/json/json_object.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// The fields that all answers and chunks of one request have.
struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;
};

// `object`: such as "chat.completion".
Json HeadJson(const AnswerHead& head, const char* object);
Json UsageJson(const Usage& usage);
// "stop" or "length".
std::string FinishReason(v1::FinishReason reason);

// An event of a stream.
std::string Event(const Json& data);
std::string ErrorEvent(const HttpAnswer& error);
inline constexpr char kLastEvent[] = "data: [DONE]\n\n";

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_OPENAI_ANSWER_HEAD_H_
