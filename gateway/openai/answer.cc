// The JSON of answers.
#include "gateway/openai/answer.h"

#include <algorithm>
#include <utility>

#include "gateway/openai/log_probs.h"

namespace longstream::gateway {
namespace {

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json ReceiptJson(const Receipt& receipt) {
  const char* how = "new";
  if (receipt.how == Receipt::How::kContinued) how = "continued";
  if (receipt.how == Receipt::How::kForked) how = "forked";
  return {{"session_id", receipt.session_id}, {"turn_id", receipt.turn_id}, {"session", how}};
}

Json HeadJson(const AnswerHead& head, const char* chat_object) {
  return {{"id", head.id},
          {"object", head.kind == AnswerHead::Kind::kChat ? chat_object : "text_completion"},
          {"created", head.created},
          {"model", head.model}};
}

}  // namespace

void Usage::Add(const client::Generation& generation) {
  const v1::TurnStarted& started = generation.started;
  const v1::TurnUsage& turn = generation.finish.usage();
  const uint64_t prompt = started.position() + started.prompt_tokens();
  prompt_tokens += prompt;
  cached_tokens += std::min(prompt, turn.reused_tokens() + turn.restored_tokens());
  completion_tokens += turn.generated_tokens();
}

std::string FinishReason(v1::FinishReason reason) {
  const bool cut = reason == v1::FINISH_REASON_MAX_TOKENS || reason == v1::FINISH_REASON_CONTEXT;
  return cut ? "length" : "stop";
}

Json Choice(const AnswerHead& head, size_t index, const client::Generation& generation,
            bool log_probs) {
  Json choice = {{"index", index}};
  const TokenLogProbs tokens(generation.log_probs.begin(), generation.log_probs.end());
  if (head.kind == AnswerHead::Kind::kChat) {
    choice["message"] = {{"role", "assistant"}, {"content", generation.text}, {"refusal", nullptr}};
    choice["logprobs"] = log_probs ? ChatLogProbs(tokens) : Json();
  } else {
    size_t offset = 0;
    choice["text"] = generation.text;
    choice["logprobs"] = log_probs ? CompletionLogProbs(tokens, &offset) : Json();
  }
  choice["finish_reason"] = FinishReason(generation.finish.reason());
  return choice;
}

Json WholeAnswer(const AnswerHead& head, Json choices, const Usage& usage, const Receipt* receipt) {
  Json answer = HeadJson(head, "chat.completion");
  answer["choices"] = std::move(choices);
  answer["usage"] = UsageJson(usage);
  if (receipt != nullptr) answer["longstream"] = ReceiptJson(*receipt);
  return answer;
}

std::string Event(const Json& data) {
  return "data: " + data.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
}

std::string AnswerChunks::Chunk(Json choices) const {
  Json chunk = HeadJson(head_, "chat.completion.chunk");
  chunk["choices"] = std::move(choices);
  if (include_usage_) chunk["usage"] = nullptr;
  return Event(chunk);
}

std::string AnswerChunks::Begin(size_t index) {
  offset_ = 0;
  if (head_.kind != AnswerHead::Kind::kChat) return "";
  return Chunk(Json::array({{{"index", index},
                             {"delta", {{"role", "assistant"}, {"content", ""}}},
                             {"logprobs", nullptr},
                             {"finish_reason", nullptr}}}));
}

std::string AnswerChunks::Piece(size_t index, const v1::Delta& delta) {
  if (delta.text().empty() && delta.log_probs().empty()) return "";
  Json choice = {{"index", index}};
  if (head_.kind == AnswerHead::Kind::kChat) {
    choice["delta"] = {{"content", delta.text()}};
    choice["logprobs"] = log_probs_ ? ChatLogProbs(delta.log_probs()) : Json();
  } else {
    choice["text"] = delta.text();
    choice["logprobs"] = log_probs_ ? CompletionLogProbs(delta.log_probs(), &offset_) : Json();
  }
  choice["finish_reason"] = nullptr;
  return Chunk(Json::array({std::move(choice)}));
}

std::string AnswerChunks::End(size_t index, v1::FinishReason reason) {
  Json choice = {{"index", index}};
  if (head_.kind == AnswerHead::Kind::kChat) {
    choice["delta"] = Json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishReason(reason);
  return Chunk(Json::array({std::move(choice)}));
}

std::string AnswerChunks::UsageChunk(const Usage& usage, const Receipt* receipt) const {
  if (!include_usage_) return "";
  Json chunk = HeadJson(head_, "chat.completion.chunk");
  chunk["choices"] = Json::array();
  chunk["usage"] = UsageJson(usage);
  if (receipt != nullptr) chunk["longstream"] = ReceiptJson(*receipt);
  return Event(chunk);
}

}  // namespace longstream::gateway
