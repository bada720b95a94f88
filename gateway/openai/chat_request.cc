// Translates messages as Hugging Face's templates expect them.
#include "gateway/openai/chat_request.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace longstream::gateway {
namespace {

constexpr int64_t kMostTopLogProbs = 20;
constexpr int64_t kMostTokens = std::numeric_limits<uint32_t>::max();

// The text of a content that is a list of parts. Templates of models for text take one text.
std::string JoinParts(const Json& parts, const std::string& path) {
  std::string text;
  size_t index = 0;
  for (const Json& part : parts) {
    const std::string place = path + "[" + std::to_string(index) + "]";
    JsonObject object(part, place);
    const std::string type = object.Text("type").value_or("");
    if (type != "text" && type != "refusal") {
      throw BadRequest(object.PathOf("type"),
                       "the models here read text only; found " + Shown(Json(type)));
    }
    const std::optional<std::string> piece = object.Text(type);
    if (!piece.has_value()) throw BadRequest(object.PathOf(type), "the text is missing");
    if (index++ > 0) text += "\n";
    text += *piece;
  }
  return text;
}

// A call of a function that the model has made. OpenAI's API has its arguments as a text of JSON,
// and templates expect an object.
Json ToolCall(const Json& call, const std::string& path) {
  Json made = call;
  JsonObject object(call, path);
  const Json* const function = object.Find("function");
  if (function == nullptr) throw BadRequest(object.PathOf("function"), "the function is missing");
  JsonObject fields(*function, object.PathOf("function"));
  const Json* const arguments = fields.Find("arguments");
  if (arguments == nullptr || !arguments->is_string()) return made;
  try {
    made["function"]["arguments"] = ParseJson(arguments->get<std::string>());
  } catch (const BadRequest& error) {
    throw BadRequest(fields.PathOf("arguments"), error.what());
  }
  return made;
}

void ReadContent(const Json* content, const std::string& path, v1::Message* message) {
  if (content == nullptr) return;
  if (content->is_string()) return message->set_content(content->get<std::string>());
  if (content->is_array()) return message->set_content(JoinParts(*content, path));
  throw BadRequest(path, "expected a string or an array of parts, found " + Shown(*content));
}

void ReadMessage(const Json& value, const std::string& path, v1::Message* message) {
  JsonObject object(value, path);
  const std::optional<std::string> role = object.Text("role");
  if (!role.has_value()) throw BadRequest(object.PathOf("role"), "the role is missing");
  // Templates know the role that OpenAI has renamed by its earlier name.
  message->set_role(*role == "developer" ? "system" : *role);
  ReadContent(object.Find("content"), object.PathOf("content"), message);
  // These are members of answers, which clients repeat.
  object.Ignore({"refusal", "annotations", "audio"});
  Json more = Json::object();
  for (const auto& [name, member] : value.items()) {
    if (member.is_null() || name == "role" || name == "content" || name == "refusal" ||
        name == "annotations" || name == "audio") {
      continue;
    }
    if (name != "tool_calls") {
      more[name] = member;
      continue;
    }
    if (!member.is_array()) throw BadRequest(object.PathOf(name), "expected an array");
    if (member.empty()) continue;
    Json calls = Json::array();
    for (const Json& call : member) {
      calls.push_back(
          ToolCall(call, object.PathOf(name) + "[" + std::to_string(calls.size()) + "]"));
    }
    more[name] = calls;
  }
  if (!more.empty()) message->set_json(more.dump());
}

void ReadMessages(JsonObject& body, v1::Messages* messages) {
  const Json* const list = body.Find("messages");
  if (list == nullptr || !list->is_array() || list->empty()) {
    throw BadRequest("messages", list == nullptr ? "the messages are missing"
                                                 : "expected an array of one or more messages");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    ReadMessage((*list)[i], "messages[" + std::to_string(i) + "]", messages->add_messages());
  }
  if (const auto prompt = body.Bool("add_generation_prompt")) {
    messages->set_add_generation_prompt(*prompt);
  }
  messages->set_continue_final_message(body.Bool("continue_final_message").value_or(false));
}

// Variables of the template.
void ReadTemplateArguments(JsonObject& body, v1::Messages* messages) {
  Json arguments = Json::object();
  if (const Json* const given = body.Find("chat_template_kwargs"); given != nullptr) {
    const JsonObject checked(*given, "chat_template_kwargs");
    arguments = *given;
  }
  if (const auto effort = body.Text("reasoning_effort")) arguments["reasoning_effort"] = *effort;
  if (!arguments.empty()) messages->set_template_arguments(arguments.dump());
}

void ReadLimits(JsonObject& body, v1::GenerateRequest* request) {
  const std::optional<int64_t> old_name = body.Integer("max_tokens", 1, kMostTokens);
  const std::optional<int64_t> new_name = body.Integer("max_completion_tokens", 1, kMostTokens);
  if (old_name.has_value() && new_name.has_value() && *old_name != *new_name) {
    throw BadRequest("max_tokens", "differs from max_completion_tokens; give one of them");
  }
  request->set_max_tokens(static_cast<uint32_t>(new_name.value_or(old_name.value_or(0))));
  request->set_log_probs(body.Bool("logprobs").value_or(false));
  const std::optional<int64_t> top = body.Integer("top_logprobs", 0, kMostTopLogProbs);
  if (top.value_or(0) > 0 && !request->log_probs()) {
    throw BadRequest("top_logprobs", "only with \"logprobs\": true");
  }
  request->set_top_log_probs(static_cast<uint32_t>(top.value_or(0)));
}

// Returns whether the model may call functions.
bool ReadTools(JsonObject& body, v1::Messages* messages) {
  const Json* const tools = body.Find("tools");
  const Json* const choice = body.Find("tool_choice");
  const bool none = choice != nullptr && *choice == "none";
  if (choice != nullptr && !none && *choice != "auto") {
    throw BadRequest("tool_choice",
                     "only \"auto\" and \"none\" are offered, found " + Shown(*choice));
  }
  if (tools == nullptr) return false;
  if (!tools->is_array()) throw BadRequest("tools", "expected an array, found " + Shown(*tools));
  for (size_t i = 0; i < tools->size(); ++i) {
    JsonObject tool((*tools)[i], "tools[" + std::to_string(i) + "]");
    if (tool.Text("type").value_or("") != "function") {
      throw BadRequest(tool.PathOf("type"), "only \"function\" is offered");
    }
    const Json* const function = tool.Find("function");
    if (function == nullptr) throw BadRequest(tool.PathOf("function"), "the function is missing");
    JsonObject named(*function, tool.PathOf("function"));
    if (!named.Text("name").has_value()) {
      throw BadRequest(named.PathOf("name"), "the name is missing");
    }
  }
  if (none || tools->empty()) return false;
  messages->set_tools(tools->dump());
  return true;
}

void RefuseMissingFeatures(JsonObject& body) {
  body.Refuse("functions", "OpenAI has renamed this field to tools");
  body.Refuse("function_call", "OpenAI has renamed this field to tool_choice");
  body.Refuse("response_format", "only text is offered ({\"type\": \"text\"})", {{"type", "text"}});
  body.Refuse("modalities", "only text is offered ([\"text\"])", Json::array({"text"}));
  body.Refuse("audio", "only text is offered");
  body.Refuse("web_search_options", "searches are not offered");
  body.Ignore({"parallel_tool_calls", "prediction", "verbosity"});
}

}  // namespace

ChatRequest ReadChatRequest(const Json& body) {
  JsonObject object(body, "");
  ChatRequest chat;
  chat.fields = ReadTurnFields(object);
  v1::Messages* const messages = chat.fields.request.mutable_input()->mutable_messages();
  ReadMessages(object, messages);
  chat.with_calls = ReadTools(object, messages);
  ReadTemplateArguments(object, messages);
  ReadLimits(object, &chat.fields.request);
  RefuseMissingFeatures(object);
  ReadOtherFields(object);
  object.ExpectAllRead();
  return chat;
}

}  // namespace longstream::gateway
