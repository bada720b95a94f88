// Translates messages as Hugging Face's templates expect them.
#include "gateway/openai/chat_request.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/requests/answer_format.h"
#include "gateway/requests/common_fields.h"
#include "gateway/requests/tool_choice.h"

namespace longstream::gateway {
namespace {

// A call of a function that the model has made.
Json ReadToolCall(const Json& call, const std::string& path) {
  JsonObject object(call, path);
  const Json* const function = object.Find("function");
  if (function == nullptr) throw BadRequest(object.PathOf("function"), "the function is missing");
  JsonObject fields(*function, object.PathOf("function"));
  const Json* const arguments = fields.Find("arguments");
  Json made = arguments == nullptr ? Json::object() : *arguments;
  if (made.is_string()) {
    made = ArgumentsOf(made.get<std::string>(), fields.PathOf("arguments"));
  }
  // Clients that put a stream together add further members.
  return {{"id", object.Text("id").value_or("")},
          {"type", "function"},
          {"function", {{"name", fields.RequiredText("name")}, {"arguments", std::move(made)}}}};
}

void ReadMessage(const Json& value, const std::string& path, v1::Message* message) {
  JsonObject object(value, path);
  const std::string role = object.RequiredText("role");
  // Templates know the role that OpenAI has renamed by its earlier name.
  message->set_role(role == "developer" ? "system" : role);
  if (const Json* const content = object.Find("content"); content != nullptr) {
    message->set_content(TextOfContent(*content, object.PathOf("content"), {"text", "refusal"}));
  }
  // Those that are read above, and members of answers, which clients repeat.
  static constexpr std::array<std::string_view, 5> kOthers = {"role", "content", "refusal",
                                                              "annotations", "audio"};
  Json more = Json::object();
  for (const auto& [name, member] : value.items()) {
    if (member.is_null() || std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end()) {
      continue;
    }
    // Some servers and clients call the thoughts so.
    if (name == "reasoning" && member.is_string() && !value.contains(kThoughtsMember)) {
      more[kThoughtsMember] = member;
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
      calls.push_back(ReadToolCall(call, At(object.PathOf(name), calls.size())));
    }
    more[name] = calls;
  }
  if (!more.empty()) message->set_json(more.dump());
}

void ReadMessages(JsonObject& body, v1::Messages* messages) {
  const Json& list = MessageList(body);
  for (size_t i = 0; i < list.size(); ++i) {
    ReadMessage(list[i], At("messages", i), messages->add_messages());
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
bool ReadToolsOfChat(JsonObject& body, v1::GenerateRequest* request) {
  const Json* const tools = ToolList(body);
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    JsonObject tool((*tools)[i], At("tools", i));
    if (tool.Text("type").value_or("") != "function") {
      throw BadRequest(tool.PathOf("type"), "only \"function\" is offered");
    }
    const Json* const function = tool.Find("function");
    if (function == nullptr) throw BadRequest(tool.PathOf("function"), "the function is missing");
    JsonObject(*function, tool.PathOf("function")).RequiredText("name");
  }
  const ToolChoice choice = ReadToolChoice(body);
  return OfferTools(tools == nullptr ? Json::array() : *tools, choice, ReadAnswerFormat(body),
                    request);
}

void RefuseMissingFeatures(JsonObject& body) {
  body.Refuse("functions", "OpenAI has renamed this field to tools");
  body.Refuse("function_call", "OpenAI has renamed this field to tool_choice");
  body.Refuse("modalities", "only text is offered ([\"text\"])", Json::array({"text"}));
  body.Refuse("audio", "only text is offered");
  body.Refuse("web_search_options", "searches are not offered");
  body.Ignore({"prediction", "verbosity"});
}

}  // namespace

bool ReadConversation(JsonObject& body, v1::GenerateRequest* request) {
  v1::Messages* const messages = request->mutable_input()->mutable_messages();
  ReadMessages(body, messages);
  ReadTemplateArguments(body, messages);
  return ReadToolsOfChat(body, request);
}

ChatRequest ReadChatRequest(const Json& body) {
  JsonObject object(body, "");
  ChatRequest chat;
  chat.fields = ReadTurnFields(object);
  chat.with_calls = ReadConversation(object, &chat.fields.request);
  chat.separate_thoughts = object.Bool("separate_reasoning").value_or(true);
  ReadLimits(object, &chat.fields.request);
  RefuseMissingFeatures(object);
  ReadOtherFields(object);
  object.ExpectAllRead();
  return chat;
}

}  // namespace longstream::gateway
