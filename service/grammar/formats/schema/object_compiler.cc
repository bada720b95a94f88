// Objects. A model writes the named members in the order of the schema, so the grammar has no need
// to know which ones are there already.
#include "service/grammar/formats/schema/object_compiler.h"

#include <algorithm>
#include <ranges>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/format_error.h"

namespace longstream {

using Expression = GrammarBuilder::Expression;

namespace {

// The string type as a schema, which keys must fit.
const SchemaValue& StringSchema() {
  constexpr uint32_t kNumber = 1 << 31;  // no schema has so many values
  static const auto* const document = new SchemaDocument(R"({"type":"string"})", kNumber);
  return document->root();
}

bool HasFalse(const Conjunction& schemas) {
  return std::ranges::any_of(
      schemas, [](const SchemaElement& element) { return element.schema->IsBool(false); });
}

// The number of optional members in one rule. Behind each member, the automaton of a rule has all
// keys that may come next, up to the rule's end; so its size grows with the square of this number.
// The keys of later rules are found by calls, one for each rule.
size_t OptionalsPerRule(size_t properties) { return properties <= 16 ? 8 : 4; }

}  // namespace

ObjectCompiler::ObjectCompiler(SchemaCompiler& compiler, KeywordLists schemas)
    : compiler_(compiler), builder_(compiler.builder_), json_(compiler.json_) {
  for (const SchemaKeywords* const schema : schemas) {
    if (!schema->HasObjectKeywords()) continue;
    schemas_.push_back(schema);
    counts_.Reduce((*schema)[Keyword::kMinProperties], (*schema)[Keyword::kMaxProperties]);
  }
}

std::optional<Expression> ObjectCompiler::Compile() {
  if (counts_.IsEmpty()) {
    return compiler_.Nothing(*counts_.at, "minProperties exceeds maxProperties");
  }
  AddProperties();
  AddRequired();
  JoinAdditional();
  if (!RemoveImpossible()) return std::nullopt;
  CheckNames();
  const std::optional<Others> others = OtherMembers();
  if (properties_.empty()) {
    if (others.has_value()) return Unnamed(*others);
    if (counts_.least > 0) {
      return compiler_.Nothing(*counts_.at, "no property is allowed, and minProperties is not 0");
    }
    return json_.List("{", builder_.Nothing(), 0, 0, "}");
  }
  if (!CheckCounts(others.has_value())) return std::nullopt;
  for (Property& property : properties_) {
    compiler_.Work(*property.at, 1 + property.name.size() / 16);
    property.member = json_.Member(builder_.Literal(JsonString(property.name)),
                                   compiler_.Value(std::move(property.schemas)));
  }
  if (!others.has_value()) return Members(std::nullopt);
  return Members(builder_.Named(json_.Member(others->key, compiler_.Value(others->schemas))));
}

void ObjectCompiler::AddProperties() {
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const properties = (*schema)[Keyword::kProperties];
    if (properties == nullptr) continue;
    for (const SchemaValue::Member& member : properties->members) {
      const auto [place, is_new] = places_.try_emplace(member.name, properties_.size());
      if (is_new) properties_.push_back({.name = member.name, .at = member.value});
      if (!member.value->IsBool(true)) {
        properties_[place->second].schemas.push_back({member.value});
      }
    }
  }
}

void ObjectCompiler::AddRequired() {
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const required = (*schema)[Keyword::kRequired];
    if (required == nullptr) continue;
    for (const SchemaValue::Member& member : required->members) {
      const std::string_view name = member.value->text;
      const auto [place, is_new] = places_.try_emplace(name, properties_.size());
      if (is_new) properties_.push_back({.name = name, .at = member.value});
      properties_[place->second].is_required = true;
    }
  }
}

void ObjectCompiler::JoinAdditional() {
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const additional = (*schema)[Keyword::kAdditionalProperties];
    if (additional == nullptr || additional->IsBool(true)) continue;
    const SchemaValue* const named = (*schema)[Keyword::kProperties];
    compiler_.Work(*additional, properties_.size());
    for (Property& property : properties_) {
      const bool is_named = named != nullptr && named->Find(property.name) != nullptr;
      if (!is_named) property.schemas.push_back({additional});
    }
  }
}

bool ObjectCompiler::RemoveImpossible() {
  for (const Property& property : properties_) {
    if (!property.is_required || !HasFalse(property.schemas)) continue;
    compiler_.Nothing(*property.at, absl::StrCat("the property '", Shown(property.name),
                                                 "' is required, and not allowed"));
    return false;
  }
  std::erase_if(properties_, [](const Property& one) { return HasFalse(one.schemas); });
  return true;
}

std::optional<ObjectCompiler::Others> ObjectCompiler::OtherMembers() {
  bool has_names = false;
  bool has_additional = false;
  Others others;
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const patterns = (*schema)[Keyword::kPatternProperties];
    if (patterns != nullptr && !patterns->members.empty()) return PatternMembers();
    has_names = has_names || (*schema)[Keyword::kProperties] != nullptr;
    const SchemaValue* const additional = (*schema)[Keyword::kAdditionalProperties];
    if (additional == nullptr) continue;
    has_additional = true;
    if (!additional->IsBool(true)) others.schemas.push_back({additional});
  }
  if (HasFalse(others.schemas) || (has_names && !has_additional)) return std::nullopt;
  others.key = OtherKey();
  return others;
}

Expression ObjectCompiler::OtherKey() {
  Conjunction names = {{&StringSchema()}};
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const one = (*schema)[Keyword::kPropertyNames];
    if (one != nullptr && !one->IsBool(true)) names.push_back({one});
  }
  if (names.size() > 1) return compiler_.Value(std::move(names));
  if (places_.empty()) return json_.String();
  // Also those that may not be there.
  std::vector<std::string_view> named;
  for (const auto& [name, place] : places_) named.push_back(name);
  std::ranges::sort(named);
  const std::optional<Expression> key = json_.StringExcept(named);
  if (!key.has_value()) {
    FailSchema(schemas_[0]->schema(),
               "not supported: additional properties beside so many named ones");
  }
  return builder_.Named(*key);
}

std::optional<ObjectCompiler::Others> ObjectCompiler::PatternMembers() {
  const SchemaKeywords& schema = *schemas_[0];
  const SchemaValue* patterns = nullptr;
  for (const SchemaKeywords* const one : schemas_) {
    if ((*one)[Keyword::kPatternProperties] != nullptr)
      patterns = (*one)[Keyword::kPatternProperties];
  }
  const SchemaValue* const additional = schema[Keyword::kAdditionalProperties];
  if (schemas_.size() > 1 || !places_.empty() || patterns->members.size() > 1 ||
      schema[Keyword::kPropertyNames] != nullptr ||
      (additional != nullptr && !additional->IsBool(false))) {
    FailSchema(*patterns,
               "not supported, except one pattern without any other properties or propertyNames");
  }
  const SchemaValue& value = *patterns->members[0].value;
  if (value.IsBool(false)) return std::nullopt;
  return Others{compiler_.Matching(value, patterns->members[0].name, /*is_search=*/true, {}),
                {{&value}}};
}

std::optional<Expression> ObjectCompiler::Unnamed(const Others& others) {
  const Expression member = json_.Member(others.key, compiler_.Value(others.schemas));
  return json_.List("{", member, counts_.least, counts_.most, "}");
}

void ObjectCompiler::CheckNames() const {
  if (places_.empty()) return;
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const names = (*schema)[Keyword::kPropertyNames];
    if (names == nullptr || names->IsBool(true)) continue;
    FailSchema(*names, "not supported: together with named properties");
  }
}

bool ObjectCompiler::CheckCounts(bool has_others) {
  const auto required =
      static_cast<size_t>(std::ranges::count_if(properties_, &Property::is_required));
  const size_t all = properties_.size();
  if ((!has_others && counts_.least > all) || counts_.most.value_or(required) < required) {
    compiler_.Nothing(*counts_.at, "the named properties are too few or too many");
    return false;
  }
  const bool has_least = required >= counts_.least;
  const bool has_most = !counts_.most.has_value() || (!has_others && all <= *counts_.most);
  if (!has_least || !has_most) {
    FailSchema(*counts_.at, "not supported: together with named properties");
  }
  return true;
}

Expression ObjectCompiler::Members(const std::optional<Expression>& other) {
  const size_t size = properties_.size();
  const size_t per_rule = OptionalsPerRule(size);
  const size_t first_required = static_cast<size_t>(
      std::ranges::find(properties_, true, &Property::is_required) - properties_.begin());
  // The end of the object, and members that are not named before it. It is a part of the last rule.
  // So if the rules call each other, no rule ends before the object does.
  Expression end = builder_.Sequence({json_.Space(), builder_.Literal("}")});
  if (other.has_value()) {
    const Expression more = builder_.Sequence({json_.Comma(), *other});
    end = builder_.Sequence({builder_.Repeat(more, 0, std::nullopt), end});
  }
  // The parts behind a member, in reverse.
  std::vector<Expression> parts = {end};
  const auto rest = [&] {
    return builder_.Sequence(std::vector<Expression>(parts.rbegin(), parts.rend()));
  };
  std::vector<Expression> options;  // the first member, and all behind it
  size_t optionals = 0;
  for (size_t i = size; i-- > 0;) {
    const Property& property = properties_[i];
    if (i <= first_required) options.push_back(builder_.Sequence({property.member, rest()}));
    const Expression more = builder_.Sequence({json_.Comma(), property.member});
    parts.push_back(property.is_required ? more : builder_.Optional(more));
    optionals = property.is_required ? 0 : optionals + 1;
    const bool is_shared = i == first_required + 1 && first_required > 0;
    if (optionals == per_rule || is_shared) {
      parts = {builder_.Named(rest())};
      optionals = 0;
    }
  }
  if (first_required == size) {
    if (other.has_value()) options.push_back(builder_.Sequence({*other, end}));
    options.push_back(builder_.Literal("}"));
  }
  return builder_.Sequence({json_.Token("{"), builder_.Choice(options)});
}

}  // namespace longstream
