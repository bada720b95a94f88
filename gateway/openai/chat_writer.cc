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

std::string ChatWriter::Chunk(Json delta, Json log_probs, Json finish_reason) const {
  Json chunk = HeadJson(head_, kChunk);
  chunk["choices"] = Json::array({{{"index", 0},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(log_probs)},
                                   {"finish_reason", std::move(finish_reason)}}});
  if (include_usage_) chunk["usage"] = nullptr;
  return Event(chunk);
}

std::string ChatWriter::Begin(const v1::TurnStarted& /*started*/) {
  return Chunk({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
}

Json ChatWriter::DeltaOf(const Reply& piece) {
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

std::string ChatWriter::Piece(const v1::Delta& delta, const Reply& piece) {
  const bool has_log_probs = log_probs_ && !delta.log_probs().empty();
  if (piece.empty() && !has_log_probs) return "";
  return Chunk(DeltaOf(piece), has_log_probs ? ChatLogProbs(delta.log_probs()) : Json(), nullptr);
}

std::string ChatWriter::End(const EndedTurn& turn, const Reply& last_piece) {
  std::string events;
  if (!last_piece.empty()) events += Chunk(DeltaOf(last_piece), nullptr, nullptr);
  events += Chunk(Json::object(), nullptr, ReasonOf(turn));
  if (include_usage_) {
    Json chunk = HeadJson(head_, kChunk);
    chunk["choices"] = Json::array();
    chunk["usage"] = UsageJson(turn.usage);
    chunk["longstream"] = ReceiptJson(turn.receipt);
    events += Event(chunk);
  }
  return events + kLastEvent;
}

std::string ChatWriter::Error(const HttpAnswer& error) { return ErrorEvent(error); }

Json ChatWriter::Whole(const EndedTurn& turn) {
  Json message = {{"role", "assistant"}, {"content", turn.reply.text}, {"refusal", nullptr}};
  if (!turn.reply.thoughts.empty()) message[kThoughtsMember] = turn.reply.thoughts;
  if (!turn.reply.calls.empty()) {
    if (turn.reply.text.empty()) message["content"] = nullptr;
    for (const ToolCall& call : turn.reply.calls) message["tool_calls"].push_back(CallJson(call));
  }
  const auto& tokens = turn.generation.log_probs;
  Json answer = HeadJson(head_, "chat.completion");
  answer["choices"] = Json::array(
      {{{"index", 0},
        {"message", std::move(message)},
        {"logprobs",
         log_probs_ ? ChatLogProbs(TokenLogProbs(tokens.begin(), tokens.end())) : Json()},
        {"finish_reason", ReasonOf(turn)}}});
  answer["usage"] = UsageJson(turn.usage);
  answer["longstream"] = ReceiptJson(turn.receipt);
  return answer;
}

}  // namespace longstream::gateway
