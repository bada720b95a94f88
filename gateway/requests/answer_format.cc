// Each API has its own names for the same formats.
#include "gateway/requests/answer_format.h"

#include <array>
#include <utility>

namespace longstream::gateway {
namespace {

v1::ResponseFormat AnyObject() {
  v1::ResponseFormat format;
  format.mutable_json_object();
  return format;
}

// A schema is JSON, or a text of JSON.
v1::ResponseFormat Schema(const Json& schema) {
  v1::ResponseFormat format;
  format.set_json_schema(schema.is_string() ? schema.get<std::string>() : JsonToText(schema));
  return format;
}

v1::ResponseFormat Choices(const Json& choices, const std::string& path) {
  if (!choices.is_array() || choices.empty()) {
    throw BadRequest(path, "expected an array of strings, found " + Shown(choices));
  }
  v1::ResponseFormat format;
  for (const Json& choice : choices) {
    if (!choice.is_string()) throw BadRequest(path, "expected strings, found " + Shown(choice));
    format.mutable_any_of()->add_formats()->set_text(choice.get<std::string>());
  }
  return format;
}

std::string StringOf(const Json& value, const std::string& path) {
  if (!value.is_string()) throw BadRequest(path, "expected a string, found " + Shown(value));
  return value.get<std::string>();
}

enum class Kind { kFormat, kSchema, kObject, kRegex, kChoice, kGrammar };

std::optional<v1::ResponseFormat> FormatOf(Kind kind, const Json& value, const std::string& path) {
  v1::ResponseFormat format;
  switch (kind) {
    case Kind::kFormat:
      return ReadFormat(&value, path);
    case Kind::kSchema:
      return Schema(value);
    case Kind::kObject:
      if (value == false) return std::nullopt;
      if (value != true) throw BadRequest(path, "expected true or false, found " + Shown(value));
      return AnyObject();
    case Kind::kRegex:
      format.set_regex(StringOf(value, path));
      return format;
    case Kind::kChoice:
      return Choices(value, path);
    case Kind::kGrammar:
      if (value == Json("")) return std::nullopt;  // so llama.cpp's clients say that there is none
      format.set_grammar(StringOf(value, path));
      return format;
  }
  return std::nullopt;
}

struct Field {
  const char* name;
  Kind kind;
};

// The format of the field that is there. Throws BadRequest if there are two.
template <size_t kFields>
std::optional<v1::ResponseFormat> ReadOneOf(JsonObject& object,
                                            const std::array<Field, kFields>& fields) {
  std::optional<v1::ResponseFormat> format;
  const char* found = nullptr;
  for (const auto& [name, kind] : fields) {
    const Json* const value = object.Find(name);
    if (value == nullptr) continue;
    auto read = FormatOf(kind, *value, object.PathOf(name));
    if (!read.has_value()) continue;
    if (found != nullptr) {
      throw BadRequest(object.PathOf(name),
                       std::string("an answer has one format; there is ") + found + ", too");
    }
    found = name;
    format = std::move(read);
  }
  return format;
}

}  // namespace

std::optional<v1::ResponseFormat> ReadFormat(const Json* format, const std::string& path) {
  if (format == nullptr) return std::nullopt;
  JsonObject fields(*format, path);
  const std::string type = fields.RequiredText("type");
  if (type == "text") return std::nullopt;
  if (type == "json_object") return AnyObject();
  if (type != "json_schema") {
    throw BadRequest(
        fields.PathOf("type"),
        "expected \"text\", \"json_object\" or \"json_schema\", found " + Shown(Json(type)));
  }
  const Json* const inner = fields.Find("json_schema");
  JsonObject holder(inner != nullptr ? *inner : *format,
                    inner != nullptr ? fields.PathOf("json_schema") : path);
  const Json* const schema = holder.Find("schema");
  if (schema == nullptr) throw BadRequest(holder.PathOf("schema"), "the schema is missing");
  return Schema(*schema);
}

std::optional<v1::ResponseFormat> ReadAnswerFormat(JsonObject& body) {
  static constexpr std::array<Field, 8> kFields = {{{"response_format", Kind::kFormat},
                                                    {"guided_json", Kind::kSchema},
                                                    {"guided_regex", Kind::kRegex},
                                                    {"guided_choice", Kind::kChoice},
                                                    {"guided_grammar", Kind::kGrammar},
                                                    {"json_schema", Kind::kSchema},
                                                    {"grammar", Kind::kGrammar},
                                                    {"regex", Kind::kRegex}}};
  std::optional<v1::ResponseFormat> format = ReadOneOf(body, kFields);
  const Json* const structured = body.Find("structured_outputs");
  if (structured == nullptr) return format;
  static constexpr std::array<Field, 5> kStructured = {{{"json", Kind::kSchema},
                                                        {"json_object", Kind::kObject},
                                                        {"regex", Kind::kRegex},
                                                        {"choice", Kind::kChoice},
                                                        {"grammar", Kind::kGrammar}}};
  JsonObject fields(*structured, "structured_outputs");
  std::optional<v1::ResponseFormat> other = ReadOneOf(fields, kStructured);
  fields.Ignore({"disable_fallback", "disable_any_whitespace", "disable_additional_properties",
                 "whitespace_pattern"});
  fields.ExpectAllRead();
  if (format.has_value() && other.has_value()) {
    throw BadRequest("structured_outputs", "an answer has one format; there is another one");
  }
  return other.has_value() ? other : format;
}

}  // namespace longstream::gateway
