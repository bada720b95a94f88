#include "gateway/openai/chat_writer.h"

#include <utility>

#include "gateway/openai/log_probs.h"
#include "gateway/requests/common_fields.h"

namespace longstream::gateway {
namespace {

constexpr char kChunk[] = "chat.completion.chunk";

Json CallJson(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments.dump()}}}};
}

std::string ReasonOf(const EndedTurn& turn) {
  std::string reason = FinishReason(turn.generation.finish.reason());
  return reason == "stop" && !turn.reply.calls.empty() ? "tool_calls" : reason;
}

}  // namespace

std::string ChatChoice::Chunk(Json delta, Json log_probs, Json finish_reason) const {
  Json chunk = HeadJson(head_, kChunk);
  chunk["choices"] = Json::array({{{"index", index_},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(log_probs)},
                                   {"finish_reason", std::move(finish_reason)}}});
  if (has_usage_) chunk["usage"] = nullptr;
  return Event(chunk);
}

std::string ChatChoice::Begin(const v1::TurnStarted& /*started*/) {
  return Chunk({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
}

Json ChatChoice::DeltaOf(const Reply& piece) {
  Json delta = Json::object();
  if (!piece.thoughts.empty()) delta[kThoughtsMember] = piece.thoughts;
  if (!piece.text.empty()) delta["content"] = piece.text;
  for (const ToolCall& call : piece.calls) {
    Json json = {{"index", calls_++}};
    json.update(CallJson(call));
    delta["tool_calls"].push_back(std::move(json));
  }
  return delta;
}

std::string ChatChoice::Piece(const v1::Delta& delta, const Reply& piece) {
  const bool has_log_probs = log_probs_ && !delta.log_probs().empty();
  if (piece.empty() && !has_log_probs) return "";
  return Chunk(DeltaOf(piece), has_log_probs ? ChatLogProbs(delta.log_probs()) : Json(), nullptr);
}

std::string ChatChoice::End(const EndedTurn& turn, const Reply& last_piece) {
  std::string events;
  if (!last_piece.empty()) events += Chunk(DeltaOf(last_piece), nullptr, nullptr);
  Note(turn);
  return events + Chunk(Json::object(), nullptr, ReasonOf(turn));
}

std::string ChatChoice::Error(const HttpAnswer& error) { return ErrorEvent(error); }

Json ChatChoice::Whole(const EndedTurn& turn) {
  Json message = {{"role", "assistant"}, {"content", turn.reply.text}, {"refusal", nullptr}};
  if (!turn.reply.thoughts.empty()) message[kThoughtsMember] = turn.reply.thoughts;
  if (!turn.reply.calls.empty()) {
    if (turn.reply.text.empty()) message["content"] = nullptr;
    for (const ToolCall& call : turn.reply.calls) message["tool_calls"].push_back(CallJson(call));
  }
  const auto& tokens = turn.generation.log_probs;
  Note(turn);
  return {
      {"index", index_},
      {"message", std::move(message)},
      {"logprobs", log_probs_ ? ChatLogProbs(TokenLogProbs(tokens.begin(), tokens.end())) : Json()},
      {"finish_reason", ReasonOf(turn)}};
}

void ChatChoice::Note(const EndedTurn& turn) {
  usage_ = turn.usage;
  receipt_ = ReceiptJson(turn.receipt);
}

ChatWriter::ChatWriter(const AnswerHead& head, bool include_usage, bool log_probs, size_t choices)
    : include_usage_(include_usage) {
  for (size_t i = 0; i < choices; ++i) choices_.emplace_back(i, head, include_usage, log_probs);
}

std::string ChatWriter::End() const {
  if (!include_usage_) return kLastEvent;
  Json chunk = HeadJson(choices_.front().head(), kChunk);
  chunk["choices"] = Json::array();
  AddSums(&chunk);
  return Event(chunk) + kLastEvent;
}

Json ChatWriter::Whole(Json choices) const {
  Json answer = HeadJson(choices_.front().head(), "chat.completion");
  answer["choices"] = std::move(choices);
  AddSums(&answer);
  return answer;
}

void ChatWriter::AddSums(Json* answer) const {
  // The prompt counts once.
  Usage usage = choices_.front().usage();
  Json receipts = Json::array({choices_.front().receipt()});
  for (size_t i = 1; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i].usage().completion_tokens;
    usage.thought_tokens += choices_[i].usage().thought_tokens;
    receipts.push_back(choices_[i].receipt());
  }
  (*answer)["usage"] = UsageJson(usage);
  (*answer)["longstream"] =
      choices_.size() == 1 ? receipts.front() : Json({{"choices", std::move(receipts)}});
}

}  // namespace longstream::gateway
