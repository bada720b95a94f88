#include "gateway/responses/responses_writer.h"

#include "absl/strings/str_cat.h"

namespace longstream::gateway {
namespace {

Json TextPart(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json TextItem(const std::string& id, const char* status, Json content) {
  return {{"id", id},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

Json ThoughtsPart(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

Json ThoughtsItem(const std::string& id, const char* status, Json content) {
  return {{"id", id},
          {"type", "reasoning"},
          {"status", status},
          {"summary", Json::array()},
          {"content", std::move(content)}};
}

Json FunctionItem(const std::string& id, const char* status, const ToolCall& call,
                  const std::string& arguments) {
  return {{"id", id},           {"type", "function_call"}, {"status", status},
          {"call_id", call.id}, {"name", call.name},       {"arguments", arguments}};
}

Json ResponseUsage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.thought_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// The members "code", "message" and "param" of an error.
Json ErrorOf(const HttpAnswer& error) {
  Json members = {{"code", nullptr}, {"message", ""}, {"param", nullptr}};
  const Json problem = Json::parse(error.body, nullptr, /*allow_exceptions=*/false);
  if (!problem.is_object() || !problem.contains("error")) return members;
  for (const auto& [name, value] : members.items()) {
    if (problem["error"].contains(name)) value = problem["error"][name];
  }
  return members;
}

}  // namespace

// Each event has its type twice, and its number.
void ResponsesWriter::Write(Json data) {
  data["sequence_number"] = num_events_++;
  absl::StrAppend(&events_, "event: ", data.at("type").get<std::string>(),
                  "\ndata: ", JsonToText(data), "\n\n");
}

std::string ResponsesWriter::TakeEvents() { return std::exchange(events_, ""); }

Json ResponsesWriter::Response(const char* status, Json output) const {
  Json response = {{"id", id_},
                   {"object", "response"},
                   {"created_at", created_},
                   {"status", status},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model_},
                   {"output", std::move(output)},
                   {"usage", nullptr}};
  response.update(repeated_);
  return response;
}

void ResponsesWriter::EndResponse(const EndedTurn& turn) {
  const v1::FinishReason reason = turn.generation.finish.reason();
  const bool cut = reason == v1::FINISH_REASON_MAX_TOKENS || reason == v1::FINISH_REASON_CONTEXT;
  response_ = Response(cut ? "incomplete" : "completed", output_);
  if (cut) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response_["usage"] = ResponseUsage(turn.usage);
  response_["longstream"] = ReceiptJson(turn.receipt);
}

std::string ResponsesWriter::Begin(const v1::TurnStarted& /*started*/) {
  const Json response = InProgress();
  if (!is_queued_) Write({{"type", "response.created"}, {"response", response}});
  Write({{"type", "response.in_progress"}, {"response", response}});
  return TakeEvents();
}

std::string ResponsesWriter::NewItemId(const char* prefix) {
  return absl::StrCat(prefix, id_.substr(id_.find('_') + 1), "_", num_items_++);
}

void ResponsesWriter::BeginItem(Open kind) {
  EndItem();
  open_ = kind;
  item_id_ = NewItemId(kind == Open::kText ? "msg_" : "rs_");
  text_.clear();
  const bool is_text = kind == Open::kText;
  Write({{"type", "response.output_item.added"},
         {"output_index", output_.size()},
         {"item", is_text ? TextItem(item_id_, "in_progress", Json::array())
                          : ThoughtsItem(item_id_, "in_progress", Json::array())}});
  Write({{"type", "response.content_part.added"},
         {"item_id", item_id_},
         {"output_index", output_.size()},
         {"content_index", 0},
         {"part", is_text ? TextPart("") : ThoughtsPart("")}});
}

void ResponsesWriter::EndItem() {
  if (open_ == Open::kNone) return;
  const bool is_text = std::exchange(open_, Open::kNone) == Open::kText;
  const size_t index = output_.size();
  const Json part = is_text ? TextPart(text_) : ThoughtsPart(text_);
  Json item = is_text ? TextItem(item_id_, "completed", Json::array({part}))
                      : ThoughtsItem(item_id_, "completed", Json::array({part}));
  Json done = {{"type", is_text ? "response.output_text.done" : "response.reasoning_text.done"},
               {"item_id", item_id_},
               {"output_index", index},
               {"content_index", 0},
               {"text", text_}};
  if (is_text) done["logprobs"] = Json::array();
  Write(std::move(done));
  Write({{"type", "response.content_part.done"},
         {"item_id", item_id_},
         {"output_index", index},
         {"content_index", 0},
         {"part", part}});
  Write({{"type", "response.output_item.done"}, {"output_index", index}, {"item", item}});
  output_.push_back(std::move(item));
}

void ResponsesWriter::WriteCall(const ToolCall& call) {
  const size_t index = output_.size();
  const std::string id = NewItemId("fc_");
  const std::string arguments = JsonToText(call.arguments);
  Json item = FunctionItem(id, "completed", call, arguments);
  Write({{"type", "response.output_item.added"},
         {"output_index", index},
         {"item", FunctionItem(id, "in_progress", call, "")}});
  Write({{"type", "response.function_call_arguments.delta"},
         {"item_id", id},
         {"output_index", index},
         {"delta", arguments}});
  Write({{"type", "response.function_call_arguments.done"},
         {"item_id", id},
         {"output_index", index},
         {"name", call.name},
         {"arguments", arguments}});
  Write({{"type", "response.output_item.done"}, {"output_index", index}, {"item", item}});
  output_.push_back(std::move(item));
}

void ResponsesWriter::Continue(Open kind, const std::string& text) {
  if (text.empty()) return;
  if (open_ != kind) BeginItem(kind);
  text_ += text;
  const bool is_text = kind == Open::kText;
  Json delta = {{"type", is_text ? "response.output_text.delta" : "response.reasoning_text.delta"},
                {"item_id", item_id_},
                {"output_index", output_.size()},
                {"content_index", 0},
                {"delta", text}};
  if (is_text) delta["logprobs"] = Json::array();
  Write(std::move(delta));
}

void ResponsesWriter::WriteItems(const Reply& piece) {
  Continue(Open::kThoughts, piece.thoughts);
  Continue(Open::kText, piece.text);
  for (const ToolCall& call : piece.calls) {
    EndItem();
    WriteCall(call);
  }
}

std::string ResponsesWriter::Piece(const v1::Delta& /*delta*/, const Reply& piece) {
  WriteItems(piece);
  return TakeEvents();
}

std::string ResponsesWriter::End(const EndedTurn& turn, const Reply& last_piece) {
  WriteItems(last_piece);
  EndItem();
  EndResponse(turn);
  Write({{"type", absl::StrCat("response.", response_["status"].get<std::string>())},
         {"response", response_}});
  return TakeEvents();
}

std::string ResponsesWriter::Error(const HttpAnswer& error) {
  Json event = {{"type", "error"}};
  event.update(ErrorOf(error));
  Write(std::move(event));
  return TakeEvents();
}

std::string ResponsesWriter::Queue() {
  is_queued_ = true;
  response_ = Response("queued", Json::array());
  Write({{"type", "response.created"}, {"response", response_}});
  Write({{"type", "response.queued"}, {"response", response_}});
  return TakeEvents();
}

std::string ResponsesWriter::Fail(const HttpAnswer& error) {
  EndItem();
  response_ = Response("failed", output_);
  response_["error"] = ErrorOf(error);
  Write({{"type", "response.failed"}, {"response", response_}});
  return TakeEvents();
}

std::string ResponsesWriter::Cancel() {
  EndItem();
  response_ = Response("cancelled", output_);
  // OpenAI's API has no event of this name for a cancelled response.
  Write({{"type", "response.incomplete"}, {"response", response_}});
  return TakeEvents();
}

Json ResponsesWriter::Whole(const EndedTurn& turn) {
  if (turn.reply.empty()) BeginItem(Open::kText);
  WriteItems(turn.reply);
  EndItem();
  EndResponse(turn);
  return response_;
}

}  // namespace longstream::gateway
