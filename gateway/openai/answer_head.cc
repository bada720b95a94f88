#include "gateway/openai/answer_head.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace longstream::gateway {

Json HeadJson(const AnswerHead& head, const char* object) {
  return {{"id", head.id}, {"object", object}, {"created", head.created}, {"model", head.model}};
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.thought_tokens}}}};
}

std::string FinishReason(v1::FinishReason reason) {
  const bool cut = reason == v1::FINISH_REASON_MAX_TOKENS || reason == v1::FINISH_REASON_CONTEXT;
  return cut ? "length" : "stop";
}

std::string Event(const Json& data) { return "data: " + JsonToText(data) + "\n\n"; }

std::string ErrorEvent(const HttpAnswer& error) {
  return absl::StrCat("data: ", absl::StripSuffix(error.body, "\n"), "\n\n");
}

}  // namespace longstream::gateway
