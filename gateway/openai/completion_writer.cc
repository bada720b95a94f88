#include "gateway/openai/completion_writer.h"

#include "gateway/openai/log_probs.h"

namespace longstream::gateway {
namespace {

constexpr char kCompletionObject[] = "text_completion";

Json ChoiceJson(size_t index, std::string text, Json log_probs, Json finish_reason) {
  return {{"index", index},
          {"text", std::move(text)},
          {"logprobs", std::move(log_probs)},
          {"finish_reason", std::move(finish_reason)}};
}

}  // namespace

std::string CompletionWriter::Chunk(size_t index, std::string text, Json log_probs,
                                    Json finish_reason) const {
  Json chunk = HeadJson(head_, kCompletionObject);
  chunk["choices"] = Json::array(
      {ChoiceJson(index, std::move(text), std::move(log_probs), std::move(finish_reason))});
  if (include_usage_) chunk["usage"] = nullptr;
  return Event(chunk);
}

std::string CompletionWriter::Piece(size_t index, const v1::Delta& delta) {
  const bool has_log_probs = log_probs_ && !delta.log_probs().empty();
  if (delta.text().empty() && !has_log_probs) return "";
  Json log_probs = has_log_probs ? CompletionLogProbs(delta.log_probs(), &offsets_[index]) : Json();
  return Chunk(index, delta.text(), std::move(log_probs), nullptr);
}

std::string CompletionWriter::EndChoice(size_t index, v1::FinishReason reason) const {
  return Chunk(index, "", nullptr, FinishReason(reason));
}

std::string CompletionWriter::End(const Usage& usage) const {
  if (!include_usage_) return kLastEvent;
  Json chunk = HeadJson(head_, kCompletionObject);
  chunk["choices"] = Json::array();
  chunk["usage"] = UsageJson(usage);
  return Event(chunk) + kLastEvent;
}

void CompletionWriter::AddChoice(size_t index, const client::Generation& generation) {
  size_t offset = 0;
  const TokenLogProbs tokens(generation.log_probs.begin(), generation.log_probs.end());
  choices_[index] =
      ChoiceJson(index, generation.text, log_probs_ ? CompletionLogProbs(tokens, &offset) : Json(),
                 FinishReason(generation.finish.reason()));
}

Json CompletionWriter::Whole(const Usage& usage) const {
  Json answer = HeadJson(head_, kCompletionObject);
  answer["choices"] = choices_;
  answer["usage"] = UsageJson(usage);
  return answer;
}

}  // namespace longstream::gateway
