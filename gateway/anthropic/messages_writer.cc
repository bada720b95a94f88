#include "gateway/anthropic/messages_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gateway/http/problem.h"

namespace longstream::gateway {
namespace {

// Each event has its type twice.
std::string TypedEvent(const Json& data) {
  return absl::StrCat("event: ", data.at("type").get<std::string>(), "\ndata: ", JsonToText(data),
                      "\n\n");
}

Json StopReason(const EndedTurn& turn) {
  switch (turn.generation.finish.reason()) {
    case v1::FINISH_REASON_MAX_TOKENS:
      return "max_tokens";
    case v1::FINISH_REASON_CONTEXT:
      return "model_context_window_exceeded";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_sequence";
    default:
      return turn.reply.calls.empty() ? "end_turn" : "tool_use";
  }
}

Json StopSequence(const EndedTurn& turn) {
  const v1::Finish& finish = turn.generation.finish;
  if (finish.reason() != v1::FINISH_REASON_STOP_STRING) return nullptr;
  return finish.stop_string();
}

// Here the tokens of the prompt are those that were not cached.
Json MessageUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

Json TextBlock(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

// Anthropic signs the thoughts of its models; clients expect the member.
Json ThoughtsBlock(const std::string& thoughts) {
  return {{"type", "thinking"}, {"thinking", thoughts}, {"signature", ""}};
}

Json CallBlock(const ToolCall& call, const Json& input) {
  return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input}};
}

const char* TypeOf(int status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? ProblemType(status) : "api_error";
  }
}

}  // namespace

std::string MessagesWriter::Begin(const v1::TurnStarted& started) {
  Usage usage;
  usage.prompt_tokens = started.position() + started.prompt_tokens();
  usage.cached_tokens = started.position();
  return TypedEvent({{"type", "message_start"},
                     {"message",
                      {{"id", id_},
                       {"type", "message"},
                       {"role", "assistant"},
                       {"model", model_},
                       {"content", Json::array()},
                       {"stop_reason", nullptr},
                       {"stop_sequence", nullptr},
                       {"usage", MessageUsage(usage)}}}});
}

std::string MessagesWriter::EndBlock() {
  if (std::exchange(open_, Open::kNone) == Open::kNone) return "";
  return TypedEvent({{"type", "content_block_stop"}, {"index", blocks_ - 1}});
}

std::string MessagesWriter::Continue(Open kind, const std::string& text) {
  if (text.empty()) return "";
  const bool is_text = kind == Open::kText;
  std::string events;
  if (open_ != kind) {
    events += EndBlock();
    open_ = kind;
    events += TypedEvent({{"type", "content_block_start"},
                          {"index", blocks_++},
                          {"content_block", is_text ? TextBlock("") : ThoughtsBlock("")}});
  }
  const Json delta = is_text ? Json({{"type", "text_delta"}, {"text", text}})
                             : Json({{"type", "thinking_delta"}, {"thinking", text}});
  return events +
         TypedEvent({{"type", "content_block_delta"}, {"index", blocks_ - 1}, {"delta", delta}});
}

std::string MessagesWriter::Blocks(const Reply& piece) {
  std::string events = Continue(Open::kThoughts, piece.thoughts);
  events += Continue(Open::kText, piece.text);
  for (const ToolCall& call : piece.calls) {
    events += EndBlock();
    const size_t index = blocks_++;
    events += TypedEvent({{"type", "content_block_start"},
                          {"index", index},
                          {"content_block", CallBlock(call, Json::object())}});
    events += TypedEvent(
        {{"type", "content_block_delta"},
         {"index", index},
         {"delta", {{"type", "input_json_delta"}, {"partial_json", JsonToText(call.arguments)}}}});
    events += TypedEvent({{"type", "content_block_stop"}, {"index", index}});
  }
  return events;
}

std::string MessagesWriter::Piece(const v1::Delta& /*delta*/, const Reply& piece) {
  return Blocks(piece);
}

std::string MessagesWriter::End(const EndedTurn& turn, const Reply& last_piece) {
  std::string events = Blocks(last_piece);
  events += EndBlock();
  events += TypedEvent(
      {{"type", "message_delta"},
       {"delta", {{"stop_reason", StopReason(turn)}, {"stop_sequence", StopSequence(turn)}}},
       {"usage", MessageUsage(turn.usage)},
       {"longstream", ReceiptJson(turn.receipt)}});
  return events + TypedEvent({{"type", "message_stop"}});
}

std::string MessagesWriter::Error(const HttpAnswer& error) {
  return absl::StrCat("event: error\ndata: ", absl::StripSuffix(error.body, "\n"), "\n\n");
}

Json MessagesWriter::Whole(const EndedTurn& turn) {
  Json content = Json::array();
  const Reply& reply = turn.reply;
  if (!reply.thoughts.empty()) content.push_back(ThoughtsBlock(reply.thoughts));
  if (!reply.text.empty() || content.size() + reply.calls.size() == 0) {
    content.push_back(TextBlock(reply.text));
  }
  for (const ToolCall& call : turn.reply.calls) content.push_back(CallBlock(call, call.arguments));
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", std::move(content)},
          {"stop_reason", StopReason(turn)},
          {"stop_sequence", StopSequence(turn)},
          {"usage", MessageUsage(turn.usage)},
          {"longstream", ReceiptJson(turn.receipt)}};
}

void MessagesError(HttpAnswer* answer) {
  std::string message;
  const Json problem = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (problem.is_object() && problem.contains("error")) {
    message = problem["error"].value("message", "");
  }
  const Json error = {{"type", "error"},
                      {"error", {{"type", TypeOf(answer->status)}, {"message", message}}}};
  answer->body = JsonToText(error) + "\n";
}

}  // namespace longstream::gateway
