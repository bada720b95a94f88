#include "gateway/requests/common_fields.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace longstream::gateway {
namespace {

constexpr size_t kMostStops = 16;

}  // namespace

std::string At(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

std::string TextOfContent(const Json& content, const std::string& path,
                          std::initializer_list<std::string_view> types) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw BadRequest(path, "expected a string or an array of parts, found " + Shown(content));
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    JsonObject part(content[i], At(path, i));
    const std::string type = part.RequiredText("type");
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      throw BadRequest(part.PathOf("type"),
                       "the models here read text only; found " + Shown(Json(type)));
    }
    if (i > 0) text += '\n';
    text += part.RequiredText(type == "refusal" ? "refusal" : "text");
  }
  return text;
}

Json ArgumentsOf(const std::string& text, const std::string& path) {
  if (text.empty()) return Json::object();
  try {
    return ParseJson(text);
  } catch (const BadRequest& error) {
    throw BadRequest(path, error.what());
  }
}

void SetMembers(const std::string& thoughts, Json calls, v1::Message* message) {
  Json members = Json::object();
  if (!thoughts.empty()) members[kThoughtsMember] = thoughts;
  if (!calls.empty()) members["tool_calls"] = std::move(calls);
  if (!members.empty()) message->set_json(members.dump());
}

void ReadStopStrings(const Json* strings, const std::string& path, v1::StopRule* stop) {
  // The client has the text before the stop string, and its next request repeats this text.
  stop->set_stop_text(v1::STOP_TEXT_DROP);
  if (strings == nullptr) return;
  if (!strings->is_array() || strings->size() > kMostStops) {
    throw BadRequest(path, "expected at most " + std::to_string(kMostStops) + " strings, found " +
                               Shown(*strings));
  }
  for (const Json& text : *strings) {
    if (!text.is_string()) throw BadRequest(path, "expected strings, found " + Shown(text));
    stop->add_strings(text.get<std::string>());
  }
}

const Json& MessageList(JsonObject& body) {
  const Json* const list = body.Find("messages");
  if (list == nullptr) throw BadRequest("messages", "the messages are missing");
  if (!list->is_array() || list->empty()) {
    throw BadRequest("messages", "expected an array of one or more messages");
  }
  return *list;
}

const Json* ToolList(JsonObject& body) {
  const Json* const tools = body.Find("tools");
  if (tools == nullptr || tools->is_array()) return tools;
  throw BadRequest("tools", "expected an array, found " + Shown(*tools));
}

Json FunctionTool(JsonObject& tool, const Json* parameters) {
  Json function = {{"name", tool.RequiredText("name")}};
  if (const auto text = tool.Text("description")) function["description"] = *text;
  if (parameters != nullptr) function["parameters"] = *parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace longstream::gateway
