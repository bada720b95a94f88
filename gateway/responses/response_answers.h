// Answers to requests about a response.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_ANSWERS_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_ANSWERS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/answers/answer_writer.h"
#include "gateway/http/problem.h"
#include "gateway/json/json_object.h"
#include "gateway/responses/response_log.h"

namespace longstream::gateway {

inline HttpAnswer NoResponse(const std::string& id, const char* param) {
  return ProblemAnswer(404,
                       absl::StrCat("there is no response ", Shown(Json(id)),
                                    "; it was deleted or forgotten, or only another gateway knows"
                                    " it"),
                       param, "previous_response_not_found");
}

inline HttpAnswer JsonText(std::string json) {
  HttpAnswer answer;
  answer.body = std::move(json) + "\n";
  return answer;
}

inline Conversation::Ptr WithReply(const Conversation::Ptr& conversation, const Reply& reply) {
  return std::make_shared<Conversation>(conversation, std::vector<v1::Message>{MessageOf(reply)});
}

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_ANSWERS_H_
