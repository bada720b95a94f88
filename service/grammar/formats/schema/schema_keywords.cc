// Each keyword is in one of three tables: supported, without an effect, or not supported. A keyword
// that is in no table is an error, because it might restrict the values.
#include "service/grammar/formats/schema/schema_keywords.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/decimal.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/schema/string_formats.h"

namespace longstream {
namespace {

using Kind = SchemaValue::Kind;

enum class Form {
  kSchema,
  kSchemas,
  kSchemaMap,
  kStrings,
  kString,
  kBool,
  kNumber,
  kCount,
  kList,
  kAny
};

struct Supported {
  std::string_view name;
  Keyword keyword;
  Form form;
};

constexpr Supported kSupported[] = {
    {"$ref", Keyword::kRef, Form::kString},
    {"allOf", Keyword::kAllOf, Form::kSchemas},
    {"anyOf", Keyword::kAnyOf, Form::kSchemas},
    {"oneOf", Keyword::kOneOf, Form::kSchemas},
    {"type", Keyword::kType, Form::kAny},  // ReadTypes checks it
    {"nullable", Keyword::kNullable, Form::kBool},
    {"enum", Keyword::kEnum, Form::kList},
    {"const", Keyword::kConst, Form::kAny},
    {"properties", Keyword::kProperties, Form::kSchemaMap},
    {"required", Keyword::kRequired, Form::kStrings},
    {"additionalProperties", Keyword::kAdditionalProperties, Form::kSchema},
    {"patternProperties", Keyword::kPatternProperties, Form::kSchemaMap},
    {"propertyNames", Keyword::kPropertyNames, Form::kSchema},
    {"minProperties", Keyword::kMinProperties, Form::kCount},
    {"maxProperties", Keyword::kMaxProperties, Form::kCount},
    {"items", Keyword::kItems, Form::kSchema},
    {"prefixItems", Keyword::kPrefixItems, Form::kSchemas},
    {"minItems", Keyword::kMinItems, Form::kCount},
    {"maxItems", Keyword::kMaxItems, Form::kCount},
    {"uniqueItems", Keyword::kUniqueItems, Form::kBool},
    {"minLength", Keyword::kMinLength, Form::kCount},
    {"maxLength", Keyword::kMaxLength, Form::kCount},
    {"pattern", Keyword::kPattern, Form::kString},
    {"format", Keyword::kFormat, Form::kString},
    {"minimum", Keyword::kMinimum, Form::kNumber},
    {"maximum", Keyword::kMaximum, Form::kNumber},
    {"exclusiveMinimum", Keyword::kExclusiveMinimum, Form::kNumber},
    {"exclusiveMaximum", Keyword::kExclusiveMaximum, Form::kNumber},
    {"multipleOf", Keyword::kMultipleOf, Form::kNumber},
    {"$defs", Keyword::kDefinitions, Form::kSchemaMap},
    {"definitions", Keyword::kDefinitions, Form::kSchemaMap},
};

// The last two are OpenAPI's.
constexpr std::string_view kAnnotations[] = {"title",     "description",   "default",    "examples",
                                             "$schema",   "$comment",      "deprecated", "readOnly",
                                             "writeOnly", "discriminator", "example"};

constexpr std::string_view kNotSupported[] = {"not",
                                              "if",
                                              "then",
                                              "else",
                                              "contains",
                                              "minContains",
                                              "maxContains",
                                              "dependencies",
                                              "dependentRequired",
                                              "dependentSchemas",
                                              "unevaluatedProperties",
                                              "unevaluatedItems",
                                              "additionalItems",
                                              "$anchor",
                                              "$dynamicRef",
                                              "$dynamicAnchor",
                                              "$recursiveRef",
                                              "$recursiveAnchor",
                                              "contentEncoding",
                                              "contentMediaType",
                                              "contentSchema"};

struct NamedType {
  std::string_view name;
  Types types;
};

constexpr NamedType kTypes[] = {
    {"null", kNullType},     {"boolean", kBoolType},  {"object", kObjectType},
    {"array", kListType},    {"string", kStringType}, {"integer", kIntegerType},
    {"number", kNumberType},
};

template <typename Table, typename Projection>
const auto* FindIn(const Table& table, std::string_view name, Projection projection) {
  const auto found = std::ranges::find(table, name, projection);
  return found == std::end(table) ? nullptr : &*found;
}

// The value for an error.
std::string Found(const SchemaValue& value) {
  if (value.IsObject()) return "an object";
  if (value.IsList()) return "a list";
  return Shown(value.Text());
}

[[noreturn]] void FailForm(const SchemaValue& value, std::string_view expected) {
  FailSchema(value, absl::StrCat("expected ", std::string(expected), ", found ", Found(value)));
}

bool IsSchema(const SchemaValue& value) { return value.IsObject() || value.kind == Kind::kBool; }

void CheckSchema(const SchemaValue& value) {
  if (!IsSchema(value)) FailForm(value, "a schema (an object, true or false)");
}

void CheckForm(const SchemaValue& value, Form form) {
  switch (form) {
    case Form::kSchema:
      CheckSchema(value);
      break;
    case Form::kSchemas:
      if (!value.IsList() || value.members.empty()) FailForm(value, "a list of schemas");
      for (const SchemaValue::Member& member : value.members) CheckSchema(*member.value);
      break;
    case Form::kSchemaMap:
      if (!value.IsObject()) FailForm(value, "an object whose members are schemas");
      for (const SchemaValue::Member& member : value.members) CheckSchema(*member.value);
      break;
    case Form::kStrings:
      if (!value.IsList()) FailForm(value, "a list of strings");
      for (const SchemaValue::Member& member : value.members) {
        if (member.value->kind != Kind::kString) FailForm(*member.value, "a string");
      }
      break;
    case Form::kString:
      if (value.kind != Kind::kString) FailForm(value, "a string");
      break;
    case Form::kBool:
      if (value.kind != Kind::kBool) FailForm(value, "true or false");
      break;
    case Form::kNumber:
      if (value.kind != Kind::kNumber) FailForm(value, "a number");
      break;
    case Form::kCount:
      if (TypeOf(value) != kIntegerType || Decimal::Parse(value.text)->is_negative) {
        FailForm(value, "a whole number from 0 on");
      }
      break;
    case Form::kList:
      if (!value.IsList()) FailForm(value, "a list of values");
      break;
    case Form::kAny:
      break;
  }
}

// nullopt: the number exceeds 32 bits.
std::optional<uint32_t> Count(const SchemaValue& value) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  const std::string digits = Decimal::Parse(value.text)->whole;
  constexpr size_t kMostDigits = 10;
  if (digits.size() > kMostDigits) return std::nullopt;
  const uint64_t count = std::stoull(digits);
  return count > kMost ? std::nullopt : std::optional(static_cast<uint32_t>(count));
}

}  // namespace

Types TypeOf(const SchemaValue& value) {
  switch (value.kind) {
    case Kind::kNull:
      return kNullType;
    case Kind::kBool:
      return kBoolType;
    case Kind::kString:
      return kStringType;
    case Kind::kList:
      return kListType;
    case Kind::kObject:
      return kObjectType;
    case Kind::kNumber:
      break;
  }
  const std::optional<Decimal> number = Decimal::Parse(value.text);
  return number.has_value() && number->IsWhole() ? kIntegerType : kFractionType;
}

uint32_t LeastCount(const SchemaValue& value) {
  const std::optional<uint32_t> count = Count(value);
  if (!count.has_value()) FailSchema(value, "the count exceeds 32 bits");
  return *count;
}

std::optional<uint32_t> MostCount(const SchemaValue& value) { return Count(value); }

SchemaKeywords::SchemaKeywords(const SchemaValue& schema) : schema_(&schema) {
  CheckSchema(schema);
  for (const SchemaValue::Member& member : schema.members) Read(member);
  ReadTypes();
}

void SchemaKeywords::Read(const SchemaValue::Member& member) {
  const std::string_view name = member.name;
  const SchemaValue& value = *member.value;
  if (const Supported* const row = FindIn(kSupported, name, &Supported::name)) {
    CheckForm(value, row->form);
    values_[static_cast<size_t>(row->keyword)] = &value;
    return;
  }
  if (FindIn(kAnnotations, name, std::identity()) != nullptr || name.starts_with("x-")) return;
  if (name == "$id") {
    CheckForm(value, Form::kString);
    // Below the root, it would change the meaning of references.
    const bool is_base = schema_->parent != nullptr && !value.text.starts_with('#');
    if (is_base) FailSchema(value, "not supported: a schema inside a schema with its own $id");
    return;
  }
  if (FindIn(kNotSupported, name, std::identity()) != nullptr) {
    FailSchema(value, "not supported");
  }
  FailSchema(value, "not supported: the keyword is not known");
}

void SchemaKeywords::ReadTypes() {
  const SchemaValue* const type = (*this)[Keyword::kType];
  if (type == nullptr) return;
  const auto add = [this](const SchemaValue& name) {
    const NamedType* const row =
        name.kind == Kind::kString ? FindIn(kTypes, name.text, &NamedType::name) : nullptr;
    if (row == nullptr) {
      FailForm(name, "null, boolean, object, array, string, integer or number");
    }
    types_ |= row->types;
  };
  types_ = 0;
  if (type->IsList()) {
    if (type->members.empty()) FailSchema(*type, "no value fits: the list is empty");
    for (const SchemaValue::Member& member : type->members) add(*member.value);
  } else {
    add(*type);
  }
  const SchemaValue* const nullable = (*this)[Keyword::kNullable];
  if (nullable != nullptr && nullable->boolean) types_ |= kNullType;
}

bool SchemaKeywords::HasAny(Keyword first, Keyword last) const {
  for (auto i = static_cast<size_t>(first); i <= static_cast<size_t>(last); ++i) {
    if (values_[i] != nullptr) return true;
  }
  return false;
}

size_t SchemaKeywords::weight() const {
  size_t weight = 1;
  for (const SchemaValue* const value : values_) {
    if (value != nullptr) weight += 1 + value->members.size();
  }
  for (const Keyword keyword : {Keyword::kEnum, Keyword::kConst}) {
    const SchemaValue* const value = (*this)[keyword];
    if (value != nullptr) weight += value->weight;
  }
  return weight;
}

Types SchemaKeywords::implied_types() const {
  Types types = 0;
  if (HasObjectKeywords()) types |= kObjectType;
  if (HasListKeywords()) types |= kListType;
  const SchemaValue* const format = (*this)[Keyword::kFormat];
  const bool has_format = format != nullptr && PatternOfFormat(format->text).has_value();
  if (HasAny(Keyword::kMinLength, Keyword::kPattern) || has_format) types |= kStringType;
  if (HasAny(Keyword::kMinimum, Keyword::kMultipleOf)) types |= kNumberType;
  return types;
}

}  // namespace longstream
