// A prompt is a text or an array of token ids.
#include "gateway/openai/completion_request.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "gateway/requests/answer_format.h"
#include "gateway/requests/common_fields.h"
#include "gateway/requests/sampling_fields.h"

namespace longstream::gateway {
namespace {

constexpr size_t kMostAnswers = 64;
constexpr int64_t kDefaultTokens = 16;  // as OpenAI's API

v1::Input ReadTokens(const Json& ids, const std::string& path) {
  v1::Input input;
  v1::Tokens* const tokens = input.mutable_tokens();
  for (const Json& id : ids) tokens->add_ids(TokenId(id, path));
  return input;
}

v1::Input ReadPrompt(const Json& prompt, const std::string& path) {
  v1::Input input;
  if (prompt.is_string()) {
    input.set_text(prompt.get<std::string>());
    return input;
  }
  if (prompt.is_array()) return ReadTokens(prompt, path);
  throw BadRequest(path, "expected a string or an array of token ids, found " + Shown(prompt));
}

std::vector<v1::Input> ReadPrompts(const Json& prompt) {
  const bool is_list = prompt.is_array() && !prompt.empty() &&
                       (prompt.front().is_string() || prompt.front().is_array());
  if (!is_list) return {ReadPrompt(prompt, "prompt")};
  if (prompt.size() > kMostAnswers) {
    throw BadRequest("prompt", "at most " + std::to_string(kMostAnswers) +
                                   " prompts a request, found " + std::to_string(prompt.size()));
  }
  std::vector<v1::Input> inputs;
  for (const Json& one : prompt) {
    inputs.push_back(ReadPrompt(one, At("prompt", inputs.size())));
  }
  return inputs;
}

}  // namespace

CompletionRequest ReadCompletionRequest(const Json& body) {
  JsonObject object(body, "");
  CompletionRequest completion;
  completion.fields = ReadTurnFields(object);
  v1::GenerateRequest& request = completion.fields.request;
  const Json* const prompt = object.Find("prompt");
  if (prompt == nullptr) throw BadRequest("prompt", "the prompt is missing");
  completion.prompts = ReadPrompts(*prompt);
  if (completion.prompts.size() * completion.fields.choices > kMostAnswers) {
    throw BadRequest("n", "at most " + std::to_string(kMostAnswers) + " answers a request, found " +
                              std::to_string(completion.prompts.size()) + " prompts with " +
                              std::to_string(completion.fields.choices));
  }
  request.set_max_tokens(
      static_cast<uint32_t>(object.Integer("max_tokens", 1, kMostTokens).value_or(kDefaultTokens)));
  const std::optional<int64_t> top = object.Integer("logprobs", 0, kMostTopLogProbs);
  request.set_log_probs(top.has_value());
  request.set_top_log_probs(static_cast<uint32_t>(top.value_or(0)));
  request.set_parse_special(object.Bool("parse_special").value_or(false));
  if (auto format = ReadAnswerFormat(object); format.has_value()) {
    *request.mutable_response_format() = *std::move(format);
  }
  object.Refuse("echo", "the prompt is not repeated (echo: false)", false);
  object.Refuse("suffix", "insertion is not offered", "");
  ReadOtherFields(object);
  object.ExpectAllRead();
  return completion;
}

}  // namespace longstream::gateway
