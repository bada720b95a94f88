#include "service/grammar/formats/schema/schema_facets.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/grammar/formats/schema/string_formats.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

using Kind = SchemaValue::Kind;

Decimal NumberOf(const SchemaValue& value) {
  std::optional<Decimal> number = Decimal::Parse(value.text);
  if (!number.has_value()) FailSchema(value, "not supported: the number has more than 400 digits");
  return *std::move(number);
}

uint64_t CodePointCount(std::string_view text) {
  return static_cast<uint64_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void Counts::Reduce(const SchemaValue* least_keyword, const SchemaValue* most_keyword) {
  if (least_keyword != nullptr && LeastCount(*least_keyword) > least) {
    least = LeastCount(*least_keyword);
    at = least_keyword;
  }
  if (most_keyword == nullptr) return;
  const std::optional<uint32_t> other = MostCount(*most_keyword);
  if (other.has_value() && (!most.has_value() || *other < *most)) {
    most = other;
    at = most_keyword;
  }
}

SchemaFacets::SchemaFacets(KeywordLists schemas) {
  for (const SchemaKeywords* const schema : schemas) {
    AddStrings(*schema);
    AddNumbers(*schema);
    has_object_keywords = has_object_keywords || schema->HasObjectKeywords();
    has_list_keywords = has_list_keywords || schema->HasListKeywords();
    if (const SchemaValue* const list = (*schema)[Keyword::kEnum]) AddValues(*list);
    if (const SchemaValue* const value = (*schema)[Keyword::kConst]) AddValues(*value);
  }
  AddTypes(schemas);
  if (values.has_value()) FilterValues();
}

void SchemaFacets::AddTypes(KeywordLists schemas) {
  Types implied = 0;
  bool has_type = values.has_value();
  for (const SchemaKeywords* const schema : schemas) {
    implied |= schema->implied_types();
    has_type = has_type || (*schema)[Keyword::kType] != nullptr;
    types &= schema->types();
    if (types == 0 && !nothing.has_value()) {
      nothing = {(*schema)[Keyword::kType], "no type is allowed by all schemas"};
    }
  }
  if (!has_type && implied != 0) types = implied;
  for (const SchemaKeywords* const schema : schemas) {
    const SchemaValue* const factor = (*schema)[Keyword::kMultipleOf];
    if (factor == nullptr || (types & kNumberType) == 0) continue;
    if (NumberOf(*factor) != *Decimal::Parse("1")) FailSchema(*factor, "not supported, except 1");
    types &= static_cast<Types>(~kFractionType);
  }
}

void SchemaFacets::AddStrings(const SchemaKeywords& schema) {
  lengths.Reduce(schema[Keyword::kMinLength], schema[Keyword::kMaxLength]);
  if (const SchemaValue* const other = schema[Keyword::kPattern]) {
    if (pattern != nullptr && pattern->text != other->text) {
      FailSchema(*other, "not supported: two patterns for one string");
    }
    pattern = other;
  }
  const SchemaValue* const other = schema[Keyword::kFormat];
  if (other != nullptr && PatternOfFormat(other->text).has_value()) {
    if (format != nullptr && format->text != other->text) {
      FailSchema(*other, "not supported: two formats for one string");
    }
    format = other;
  }
}

void SchemaFacets::AddNumbers(const SchemaKeywords& schema) {
  AddBound(schema[Keyword::kMinimum], /*is_low=*/true, /*is_exclusive=*/false);
  AddBound(schema[Keyword::kExclusiveMinimum], /*is_low=*/true, /*is_exclusive=*/true);
  AddBound(schema[Keyword::kMaximum], /*is_low=*/false, /*is_exclusive=*/false);
  AddBound(schema[Keyword::kExclusiveMaximum], /*is_low=*/false, /*is_exclusive=*/true);
}

void SchemaFacets::AddBound(const SchemaValue* keyword, bool is_low, bool is_exclusive) {
  if (keyword == nullptr) return;
  const Bound bound = {NumberOf(*keyword), is_exclusive};
  std::optional<Bound>& old = is_low ? range.low : range.high;
  if (old.has_value()) {
    const std::strong_ordering order = bound.value <=> old->value;
    const bool is_tighter = order == 0 ? is_exclusive : (order > 0) == is_low;
    if (!is_tighter) return;
  }
  old = bound;
  range_at = keyword;
}

void SchemaFacets::AddValues(const SchemaValue& keyword) {
  constexpr size_t kMostValues = 10'000;
  const bool is_enum = keyword.parent->Find("enum") == &keyword;
  std::vector<const SchemaValue*> added;
  if (is_enum) {
    for (const SchemaValue::Member& member : keyword.members) added.push_back(member.value);
  } else {
    added.push_back(&keyword);
  }
  if (added.size() > kMostValues) {
    FailSchema(keyword, absl::StrCat("the list has more than ", kMostValues, " values"));
  }
  values_at = &keyword;
  if (!values.has_value()) {
    values = std::move(added);
    return;
  }
  absl::flat_hash_set<std::string> known;
  for (const SchemaValue* const value : added) known.insert(value->Text());
  std::erase_if(*values, [&known](const SchemaValue* v) { return !known.contains(v->Text()); });
}

bool SchemaFacets::Allows(const SchemaValue& value) const {
  const Types type = TypeOf(value);
  if ((type & types) == 0) return false;
  if (type == kStringType) {
    const uint64_t length = CodePointCount(value.text);
    return length >= lengths.least && (!lengths.most.has_value() || length <= *lengths.most);
  }
  const bool has_range = range.low.has_value() || range.high.has_value();
  return (type & kNumberType) == 0 || !has_range || range.Contains(NumberOf(value));
}

void SchemaFacets::FilterValues() {
  std::erase_if(*values, [this](const SchemaValue* value) { return !Allows(*value); });
  if (values->empty() && !nothing.has_value()) {
    nothing = {values_at, "no value is allowed by all keywords"};
  }
  Types rest = 0;
  for (const SchemaValue* const value : *values) rest |= TypeOf(*value);
  const bool has_pattern = pattern != nullptr || format != nullptr;
  const bool is_refused = ((rest & kStringType) != 0 && has_pattern) ||
                          ((rest & kObjectType) != 0 && has_object_keywords) ||
                          ((rest & kListType) != 0 && has_list_keywords);
  if (is_refused) {
    FailSchema(*values_at, "not supported: single values with other restrictions of their content");
  }
  types &= rest;
}

}  // namespace longstream
