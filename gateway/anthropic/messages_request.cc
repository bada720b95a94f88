// Translates messages with blocks into those that Hugging Face's templates expect.
#include "gateway/anthropic/messages_request.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "gateway/requests/answer_format.h"
#include "gateway/requests/common_fields.h"
#include "gateway/requests/tool_choice.h"

namespace longstream::gateway {
namespace {

[[noreturn]] void RefuseBlock(const JsonObject& block, const std::string& type) {
  throw BadRequest(block.PathOf("type"),
                   "blocks of this type are not offered here: " + Shown(Json(type)));
}

// Reads the blocks of one message. The results of functions are messages of their own, which come
// before the text of the same message.
class BlockReader {
 public:
  BlockReader(std::string role, v1::Messages* messages)
      : role_(std::move(role)), messages_(messages) {}

  void Add(const Json& value, const std::string& path) {
    JsonObject block(value, path);
    const std::string type = block.RequiredText("type");
    if (type == "text") {
      // The model's own texts, which calls divide, were one text.
      if (has_text_ && role_ != "assistant") text_ += '\n';
      text_ += block.RequiredText("text");
      has_text_ = true;
    } else if (type == "tool_use" && role_ == "assistant") {
      AddCall(block);
    } else if (type == "tool_result" && role_ == "user") {
      AddResult(block);
    } else if (type == "thinking") {
      thoughts_ += block.Text("thinking").value_or("");
    } else if (type != "redacted_thinking") {
      RefuseBlock(block, type);
    }
  }

  void End() {
    if (!has_text_ && calls_.empty() && has_results_) return;
    v1::Message* const message = messages_->add_messages();
    message->set_role(role_);
    if (has_text_ || calls_.empty()) message->set_content(text_);
    SetMembers(role_ == "assistant" ? thoughts_ : "", std::move(calls_), message);
  }

 private:
  void AddCall(JsonObject& block) {
    const Json* const input = block.Find("input");
    if (input != nullptr && !input->is_object()) {
      throw BadRequest(block.PathOf("input"), "expected an object, found " + Shown(*input));
    }
    calls_.push_back({{"id", block.RequiredText("id")},
                      {"type", "function"},
                      {"function",
                       {{"name", block.RequiredText("name")},
                        {"arguments", input == nullptr ? Json::object() : *input}}}});
  }

  void AddResult(JsonObject& block) {
    v1::Message* const message = messages_->add_messages();
    message->set_role("tool");
    const Json* const content = block.Find("content");
    message->set_content(
        content == nullptr ? "" : TextOfContent(*content, block.PathOf("content"), {"text"}));
    Json more = {{"tool_call_id", block.RequiredText("tool_use_id")}};
    if (block.Bool("is_error").value_or(false)) more["is_error"] = true;
    message->set_json(more.dump());
    has_results_ = true;
  }

  const std::string role_;
  v1::Messages* const messages_;
  std::string text_;
  std::string thoughts_;
  bool has_text_ = false;
  bool has_results_ = false;
  Json calls_ = Json::array();
};

void ReadMessage(const Json& value, const std::string& path, v1::Messages* messages) {
  JsonObject object(value, path);
  const std::string role = object.RequiredText("role");
  if (role != "user" && role != "assistant") {
    throw BadRequest(object.PathOf("role"),
                     "expected \"user\" or \"assistant\", found " + Shown(Json(role)));
  }
  const Json* const content = object.Find("content");
  if (content == nullptr) throw BadRequest(object.PathOf("content"), "the content is missing");
  object.ExpectAllRead();
  if (!content->is_array()) {
    v1::Message* const message = messages->add_messages();
    message->set_role(role);
    message->set_content(TextOfContent(*content, object.PathOf("content"), {"text"}));
    return;
  }
  BlockReader blocks(role, messages);
  for (size_t i = 0; i < content->size(); ++i) {
    blocks.Add((*content)[i], At(object.PathOf("content"), i));
  }
  blocks.End();
}

ToolChoice ReadChoice(JsonObject& body) {
  ToolChoice choice;
  const Json* const given = body.Find("tool_choice");
  if (given == nullptr) return choice;
  JsonObject fields(*given, "tool_choice");
  const std::string type = fields.RequiredText("type");
  choice.calls_once = fields.Bool("disable_parallel_tool_use").value_or(false);
  choice.may_call = type != "none";
  choice.must_call = type == "any" || type == "tool";
  if (type == "tool") choice.function = fields.RequiredText("name");
  if (type == "tool") choice.calls_once = true;
  if (choice.must_call || type == "auto" || type == "none") return choice;
  throw BadRequest("tool_choice.type",
                   "expected \"auto\", \"any\", \"tool\" or \"none\", found " + Shown(Json(type)));
}

// The form of the answer: `output_config.format`, or `output_format`, its earlier name.
std::optional<v1::ResponseFormat> ReadOutputFormat(JsonObject& body) {
  auto format = ReadFormat(body.Find("output_format"), "output_format");
  const Json* const config = body.Find("output_config");
  if (config == nullptr) return format;
  JsonObject fields(*config, "output_config");
  auto other = ReadFormat(fields.Find("format"), "output_config.format");
  fields.Ignore({"effort"});
  fields.ExpectAllRead();
  if (format.has_value() && other.has_value()) {
    throw BadRequest("output_config.format", "there is output_format, too; give one of them");
  }
  return other.has_value() ? other : format;
}

// Returns whether the model may call functions.
bool ReadToolsOfMessages(JsonObject& body, v1::GenerateRequest* request) {
  const Json* const tools = ToolList(body);
  Json functions = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    JsonObject tool((*tools)[i], At("tools", i));
    const std::string type = tool.Text("type").value_or("custom");
    if (type != "custom") RefuseBlock(tool, type);
    functions.push_back(FunctionTool(tool, tool.Find("input_schema")));
  }
  return OfferTools(functions, ReadChoice(body), ReadOutputFormat(body), request);
}

void ReadSamplingOfMessages(JsonObject& body, v1::Sampling* sampling) {
  if (const auto v = body.Number("temperature", 0, 1)) {
    sampling->set_temperature(static_cast<float>(*v));
  }
  if (const auto v = body.Number("top_p", 0, 1)) sampling->set_top_p(static_cast<float>(*v));
  if (const auto v = body.Integer("top_k", 0, std::numeric_limits<int32_t>::max())) {
    sampling->set_top_k(static_cast<int32_t>(*v));
  }
}

// Whether the model thinks: templates that know the variable ask for thoughts, or suppress them.
// The number of their tokens cannot be limited.
void ReadThinking(JsonObject& body, v1::Messages* messages) {
  const Json* const thinking = body.Find("thinking");
  if (thinking == nullptr) return;
  JsonObject fields(*thinking, "thinking");
  const std::string type = fields.RequiredText("type");
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    throw BadRequest("thinking.type", "expected \"enabled\", \"adaptive\" or \"disabled\", found " +
                                          Shown(Json(type)));
  }
  messages->set_template_arguments(Json({{"enable_thinking", type != "disabled"}}).dump());
}

}  // namespace

MessagesRequest ReadMessagesRequest(const Json& body, bool only_counts) {
  JsonObject object(body, "");
  MessagesRequest read;
  read.model = object.Text("model").value_or("");
  read.stream = object.Bool("stream").value_or(false);
  const auto most = object.Integer("max_tokens", 1, std::numeric_limits<uint32_t>::max());
  if (!most.has_value() && !only_counts) throw BadRequest("max_tokens", "the number is missing");
  read.request.set_max_tokens(static_cast<uint32_t>(most.value_or(0)));
  v1::Messages* const messages = read.request.mutable_input()->mutable_messages();
  if (const Json* const system = object.Find("system"); system != nullptr) {
    v1::Message* const message = messages->add_messages();
    message->set_role("system");
    message->set_content(TextOfContent(*system, "system", {"text"}));
  }
  const Json& list = MessageList(object);
  for (size_t i = 0; i < list.size(); ++i) {
    ReadMessage(list[i], At("messages", i), messages);
  }
  // The model goes on with a last message of its own.
  const v1::Message& last = messages->messages(messages->messages_size() - 1);
  messages->set_continue_final_message(last.role() == "assistant");
  ReadThinking(object, messages);
  read.with_calls = ReadToolsOfMessages(object, &read.request);
  ReadSamplingOfMessages(object, read.request.mutable_sampling());
  ReadStopStrings(object.Find("stop_sequences"), "stop_sequences", read.request.mutable_stop());
  object.Ignore(
      {"cache_control", "diagnostics", "inference_geo", "metadata", "service_tier", "speed"});
  object.ExpectAllRead();
  return read;
}

}  // namespace longstream::gateway
