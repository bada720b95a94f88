// Puts the forms of calls together.
#include "gateway/requests/tool_choice.h"

#include <utility>
#include <vector>

namespace longstream::gateway {
namespace {

using Format = v1::ResponseFormat;

constexpr uint32_t kMostCalls = 64;  // in one answer

Format Text(const std::string& text) {
  Format format;
  format.set_text(text);
  return format;
}

Format Sequence(const std::vector<Format>& parts) {
  Format format;
  for (const Format& part : parts) *format.mutable_sequence()->add_formats() = part;
  return format;
}

Format AnyOf(const std::vector<Format>& options) {
  Format format;
  for (const Format& option : options) *format.mutable_any_of()->add_formats() = option;
  return format;
}

// One, and up to `more` times `separator` and another one.
Format List(const Format& one, const std::string& separator, uint32_t more) {
  if (more == 0) return one;
  Format others;
  *others.mutable_repeat()->mutable_format() = Sequence({Text(separator), one});
  others.mutable_repeat()->set_most(more);
  return Sequence({one, others});
}

// Whether the model may write thoughts: the request does not tell the template to suppress them.
bool MayThink(const v1::Messages& messages) {
  if (messages.template_arguments().empty()) return true;
  const Json arguments = Json::parse(messages.template_arguments());
  return arguments.value("enable_thinking", Json()) != false &&
         arguments.value("reasoning_effort", Json()) != "none";
}

// {"name": "f", "arguments": {...}}
Format CallFormat(const Json& function, const char* arguments) {
  Format values;
  const auto parameters = function.find("parameters");
  if (parameters == function.end() || !parameters->is_object() || parameters->empty()) {
    values.mutable_json_object();
  } else {
    Json schema = *parameters;
    if (!schema.contains("type")) schema["type"] = "object";  // arguments are an object
    values.set_json_schema(JsonToText(schema));
  }
  return Sequence(
      {Text("{\"name\": " + JsonToText(function.at("name")) + ", \"" + arguments + "\": "), values,
       Text("}")});
}

}  // namespace

ToolChoice ReadToolChoice(JsonObject& body) {
  ToolChoice choice;
  choice.calls_once = !body.Bool("parallel_tool_calls").value_or(true);
  const Json* const given = body.Find("tool_choice");
  if (given == nullptr || *given == "auto") return choice;
  if (*given == "none") {
    choice.may_call = false;
    return choice;
  }
  choice.must_call = true;
  if (*given == "required") return choice;
  if (!given->is_object()) {
    throw BadRequest(
        "tool_choice",
        "expected \"auto\", \"none\", \"required\" or a function, found " + Shown(*given));
  }
  JsonObject fields(*given, "tool_choice");
  const std::string type = fields.RequiredText("type");
  if (type != "function") {
    throw BadRequest("tool_choice.type",
                     "only \"function\" is offered, found " + Shown(Json(type)));
  }
  const Json* const function = fields.Find("function");
  choice.function = function == nullptr
                        ? fields.RequiredText("name")
                        : JsonObject(*function, "tool_choice.function").RequiredText("name");
  choice.calls_once = true;
  return choice;
}

v1::ResponseFormat FormatOfCalls(const Json& functions, const ToolChoice& choice) {
  std::vector<Format> with_arguments, with_parameters;
  for (const Json& tool : functions) {
    const Json& function = tool.at("function");
    if (!choice.function.empty() && function.at("name") != choice.function) continue;
    with_arguments.push_back(CallFormat(function, "arguments"));
    with_parameters.push_back(CallFormat(function, "parameters"));
  }
  if (with_arguments.empty()) {
    throw BadRequest("tool_choice", choice.function.empty()
                                        ? "a call is asked for, and there are no tools"
                                        : "there is no tool " + Shown(Json(choice.function)));
  }
  const uint32_t more = choice.calls_once ? 0 : kMostCalls - 1;
  const Format call = AnyOf(with_arguments);
  const Format tagged = Sequence({Text("<tool_call>\n"), call, Text("\n</tool_call>")});
  return AnyOf({List(tagged, "\n", more), AnyOf(with_parameters),
                Sequence({Text("["), List(call, ", ", more), Text("]")})});
}

bool OfferTools(const Json& functions, const ToolChoice& choice,
                std::optional<v1::ResponseFormat> answer, v1::GenerateRequest* request) {
  std::optional<Format> format = std::move(answer);
  if (choice.must_call) {
    format = FormatOfCalls(functions, choice);
  } else if (format.has_value() && choice.may_call && !functions.empty()) {
    format = AnyOf({*format, FormatOfCalls(functions, choice)});
  }
  if (format.has_value()) {
    format->set_after_thoughts(MayThink(request->input().messages()));
    *request->mutable_response_format() = *std::move(format);
  }
  if (!choice.may_call || functions.empty()) return false;
  request->mutable_input()->mutable_messages()->set_tools(functions.dump());
  return true;
}

}  // namespace longstream::gateway
