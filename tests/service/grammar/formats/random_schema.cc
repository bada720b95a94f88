#include "tests/service/grammar/formats/random_schema.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/grammar/formats/schema_validator.h"

namespace longstream {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPropertyNames[] = {"a", "b", "ab", "é", "x\"y", "", "abc", "n\n"};
constexpr const char* kTypes[] = {"null",   "boolean", "object", "array",
                                  "string", "integer", "number"};

}  // namespace

std::string SchemaMaker::Name() { return kPropertyNames[Draw(random_, std::size(kPropertyNames))]; }

Json SchemaMaker::MakeDocument() {
  Json schema = Make(3);
  if (!schema.is_object()) schema = Json::object();
  schema["$defs"] = {{"a", Make(2)}, {"b/c", Make(1)}};
  return schema;
}

Json SchemaMaker::Make(int depth) {
  Json schema;
  switch (Draw(random_, depth > 0 ? 11 : 6)) {
    case 0:
      if (OneIn(2)) return !OneIn(4);
      schema = Json::object();
      break;
    case 1:
      schema = {{"type", kTypes[Draw(random_, std::size(kTypes))]}};
      break;
    case 2:
      schema = String();
      break;
    case 3:
      schema = Number();
      break;
    case 4:
      schema = OneIn(2) ? Json{{"const", Constant(2)}}
                        : Json{{"enum", Json::array({Constant(1), Constant(1)})}};
      break;
    case 5:
      schema = {{"$ref", OneIn(2) ? "#/$defs/a" : "#/$defs/b~1c"}};
      break;
    case 6:
      schema = List(depth);
      break;
    case 7:
      schema = Alternatives(depth);
      break;
    case 8:
      schema = {{"type", {kTypes[Draw(random_, 7)], kTypes[Draw(random_, 7)]}}};
      break;
    default:
      schema = Object(depth);
  }
  while (OneIn(4)) AddKeyword(depth, &schema);
  return schema;
}

Json SchemaMaker::Object(int depth) {
  Json schema = {{"type", "object"}};
  if (OneIn(5)) {
    if (OneIn(2)) schema["minProperties"] = Draw(random_, 2);
    if (OneIn(2)) schema["maxProperties"] = 1 + Draw(random_, 2);
    if (OneIn(2)) schema["patternProperties"] = {{OneIn(2) ? "^[ab]+$" : "b", Make(depth - 1)}};
    return schema;
  }
  Json properties = Json::object();
  Json required = Json::array();
  for (size_t n = Draw(random_, 5); n > 0; --n) {
    const std::string name = Name();
    properties[name] = OneIn(8) ? Json(false) : Make(depth - 1);
    if (OneIn(2)) required.push_back(name);
  }
  if (OneIn(6)) required.push_back(Name());
  schema["properties"] = properties;
  schema["required"] = required;
  if (OneIn(2)) schema["additionalProperties"] = OneIn(2) ? Json(OneIn(2)) : Make(depth - 1);
  return schema;
}

Json SchemaMaker::List(int depth) {
  Json schema = {{"type", "array"}};
  if (OneIn(3)) schema["prefixItems"] = Json::array({Make(depth - 1), Make(depth - 1)});
  if (!OneIn(3)) schema["items"] = Make(depth - 1);
  if (OneIn(3)) schema["minItems"] = Draw(random_, 4);
  if (OneIn(3)) schema["maxItems"] = 1 + Draw(random_, 4);
  return schema;
}

Json SchemaMaker::String() {
  constexpr const char* kPatterns[] = {"^a", "b$", "^[a-c]{1,3}$", "a|é", "^\\w*$", "[^x]"};
  Json schema = {{"type", "string"}};
  if (OneIn(3)) {
    schema["pattern"] = kPatterns[Draw(random_, std::size(kPatterns))];
    return schema;
  }
  if (OneIn(2)) schema["minLength"] = Draw(random_, 4);
  if (OneIn(2)) schema["maxLength"] = 2 + Draw(random_, 10);
  return schema;
}

Json SchemaMaker::Number() {
  Json schema = {{"type", OneIn(2) ? "integer" : "number"}};
  const auto bound = [this] {
    const double value = static_cast<double>(Draw(random_, 400)) / 4.0 - 50.0;
    return OneIn(2) ? Json(static_cast<int>(value)) : Json(value);
  };
  if (OneIn(2)) schema[OneIn(2) ? "minimum" : "exclusiveMinimum"] = bound();
  if (OneIn(2)) schema[OneIn(2) ? "maximum" : "exclusiveMaximum"] = bound();
  return schema;
}

Json SchemaMaker::Constant(int depth) {
  switch (Draw(random_, depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return OneIn(2);
    case 2:
      return static_cast<int>(Draw(random_, 20)) - 10;
    case 3:
      return Name();
    case 4:
      return 1.5;
    case 5:
      return Json::array({Constant(depth - 1), Constant(depth - 1)});
    default:
      return Json{{Name(), Constant(depth - 1)}};
  }
}

Json SchemaMaker::Alternatives(int depth) {
  const std::array<const char*, 3> keywords = {"anyOf", "oneOf", "allOf"};
  Json schemas = Json::array();
  for (size_t n = 1 + Draw(random_, 3); n > 0; --n) schemas.push_back(Make(depth - 1));
  return {{keywords[Draw(random_, 3)], schemas}};
}

void SchemaMaker::AddKeyword(int depth, Json* schema) {
  Json other;
  switch (Draw(random_, 8)) {
    case 0:
      other = String();
      break;
    case 1:
      other = Number();
      break;
    case 2:
      other = {{"title", "a title"}, {"x-a", 3}};
      break;
    case 3:
      other = depth > 0 ? Alternatives(depth) : Json{{"nullable", true}};
      break;
    case 4:
      other = depth > 0 ? Object(depth) : Json{{"required", {Name()}}};
      break;
    case 5:
      other = {{"propertyNames", {{"maxLength", 2}}}};
      break;
    case 6:
      other = {{"nullable", true}};
      break;
    default:
      other = {{"multipleOf", 1}};
  }
  for (const auto& [keyword, value] : other.items()) {
    if (!schema->contains(keyword)) (*schema)[keyword] = value;
  }
}

std::optional<std::string> ValueMaker::Make(const Json& schema, int depth) {
  if (schema.is_boolean()) return schema.get<bool>() ? Any(depth) : std::nullopt;
  if (depth <= 0) return std::nullopt;
  if (schema.contains("$ref")) {
    const std::string pointer = schema["$ref"].get<std::string>().substr(1);
    return Make(root_.at(Json::json_pointer(pointer)), depth - 1);
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    const Json& schemas = schema[keyword];
    const Json& one = schemas[Draw(random_, schemas.size())];
    std::optional<std::string> text = Make(one, depth - 1);
    // It might fit another one, by a property that the grammar does not have.
    return text.has_value() && IsValid(root_, one, Json::parse(*text)) ? text : std::nullopt;
  }
  if (schema.contains("const")) return schema["const"].dump();
  if (schema.contains("enum")) {
    return schema["enum"][Draw(random_, schema["enum"].size())].dump();
  }
  if (!schema.contains("type")) return schema.empty() ? Any(depth) : std::nullopt;
  const Json& type = schema["type"];
  if (schema.contains("nullable") && OneIn(4)) return "null";
  return Typed(type.is_array() ? type[Draw(random_, type.size())] : type, schema, depth);
}

std::optional<std::string> ValueMaker::Typed(const std::string& type, const Json& schema,
                                             int depth) {
  if (type == "null") return "null";
  if (type == "boolean") return OneIn(2) ? "true" : "false";
  if (type == "string") return String();
  if (type == "integer" || type == "number") {
    return Number(type == "integer" || schema.contains("multipleOf"));
  }
  return type == "object" ? Object(schema, depth) : List(schema, depth);
}

std::optional<std::string> ValueMaker::Any(int depth) {
  return Typed(kTypes[Draw(random_, std::size(kTypes))], Json::object(), depth - 1);
}

std::optional<std::string> ValueMaker::Object(const Json& schema, int depth) {
  const Json properties = schema.value("properties", Json::object());
  const Json required = schema.value("required", Json::array());
  const Json additional =
      schema.value("additionalProperties", Json(!schema.contains("properties")));
  std::string text = "{";
  const auto add = [&](const std::string& name, const Json& value_schema) {
    const std::optional<std::string> value = Make(value_schema, depth - 1);
    if (!value.has_value()) return false;
    absl::StrAppend(&text, text.size() > 1 ? "," : "", Json(name).dump(), ":", *value);
    return true;
  };
  std::vector<std::string> names;
  for (const auto& [name, value_schema] : properties.items()) {
    const bool is_required = std::ranges::find(required, Json(name)) != required.end();
    if (!is_required && OneIn(2)) continue;
    if (!add(name, value_schema) && is_required) return std::nullopt;
  }
  for (const Json& name : required) {
    if (properties.contains(name.get<std::string>())) continue;
    if (!add(name, schema.value("additionalProperties", Json(true)))) return std::nullopt;
  }
  for (const char* const name : {"z", "ab", "b"}) {
    const bool is_named =
        properties.contains(name) || std::ranges::find(required, Json(name)) != required.end();
    if (is_named || !OneIn(3)) continue;
    if (!schema.contains("patternProperties")) {
      add(name, additional);
    } else if (name[0] != 'z') {  // the others match both patterns
      add(name, schema["patternProperties"].begin().value());
    }
  }
  return text + "}";
}

std::optional<std::string> ValueMaker::List(const Json& schema, int depth) {
  const Json prefix = schema.value("prefixItems", Json::array());
  const Json items = schema.value("items", Json(!schema.contains("prefixItems")));
  std::string text = "[";
  for (size_t i = 0, size = Draw(random_, 5); i < size; ++i) {
    const std::optional<std::string> item = Make(i < prefix.size() ? prefix[i] : items, depth - 1);
    if (!item.has_value()) break;
    absl::StrAppend(&text, i > 0 ? "," : "", *item);
  }
  return text + "]";
}

std::string ValueMaker::String() {
  constexpr const char* kParts[] = {"a", "b", "c", "é", "😀", "\"", "\\", "\n", "\x01", "x", "\x7f"};
  std::string text;
  for (size_t n = Draw(random_, 6); n > 0; --n) text += kParts[Draw(random_, std::size(kParts))];
  return Json(text).dump();
}

std::string ValueMaker::Number(bool is_integer) {
  const int whole = static_cast<int>(Draw(random_, 120)) - 60;
  if (is_integer || OneIn(2)) return absl::StrCat(whole);
  return absl::StrCat(whole == 0 ? 1 : whole, ".", Draw(random_, 100));
}

}  // namespace longstream
