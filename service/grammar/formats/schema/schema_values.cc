// Single values, strings and numbers of a schema.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/regex.h"
#include "service/grammar/formats/schema/schema_compiler.h"
#include "service/grammar/formats/schema/string_formats.h"

namespace longstream {

using Expression = GrammarBuilder::Expression;

Expression SchemaCompiler::OneOf(absl::Span<const SchemaValue* const> values) {
  std::vector<Expression> options;
  for (const SchemaValue* const value : values) options.push_back(Constant(*value));
  return options.size() == 1 ? options[0] : builder_.Choice(options);
}

Expression SchemaCompiler::Constant(const SchemaValue& value) {
  if (!value.IsList() && !value.IsObject()) return builder_.Literal(value.Text());
  std::vector<Expression> parts = {json_.Token(value.IsList() ? "[" : "{")};
  for (const SchemaValue::Member& member : value.members) {
    if (parts.size() > 1) parts.push_back(json_.Comma());
    const Expression constant = Constant(*member.value);
    parts.push_back(value.IsList()
                        ? constant
                        : json_.Member(builder_.Literal(JsonString(member.name)), constant));
  }
  if (!value.members.empty()) parts.push_back(json_.Space());
  parts.push_back(builder_.Literal(value.IsList() ? "]" : "}"));
  return builder_.Sequence(parts);
}

std::optional<Expression> SchemaCompiler::String(const SchemaFacets& facets) {
  if (facets.lengths.IsEmpty()) {
    return Nothing(*facets.lengths.at, "minLength exceeds maxLength");
  }
  if (facets.pattern != nullptr && facets.format != nullptr) {
    FailSchema(*facets.format, "not supported: a format and a pattern for one string");
  }
  if (facets.pattern != nullptr) {
    return Matching(*facets.pattern, facets.pattern->text, /*is_search=*/true, facets.lengths);
  }
  if (facets.format != nullptr) {
    return Matching(*facets.format, *PatternOfFormat(facets.format->text), /*is_search=*/false,
                    facets.lengths);
  }
  return json_.String(facets.lengths.least, facets.lengths.most);
}

Expression SchemaCompiler::Matching(const SchemaValue& at, std::string_view pattern, bool is_search,
                                    const Counts& lengths) {
  const uint64_t most = lengths.most.has_value() ? uint64_t{*lengths.most} : ~uint64_t{0};
  std::string key =
      absl::StrCat(is_search, " ", lengths.least, " ", most, " ", std::string(pattern));
  const auto [known, is_new] = patterns_.try_emplace(std::move(key));
  if (is_new) {
    RegexUse use;
    use.is_search = is_search;
    use.character = [this](absl::Span<const CodePoints> set) { return json_.Character(set); };
    use.least_length = lengths.least;
    use.most_length = lengths.most;
    Work(at, pattern.size());
    const absl::StatusOr<Expression> strings = AddRegex(builder_, pattern, use);
    if (!strings.ok()) FailSchema(at, std::string(strings.status().message()));
    const Expression quote = builder_.Literal("\"");
    known->second = builder_.Named(builder_.Sequence({quote, *strings, quote}));
  }
  return known->second;
}

std::optional<Expression> SchemaCompiler::Number(const SchemaFacets& facets) {
  const bool is_integer = (facets.types & kFractionType) == 0;
  if (!is_integer && !facets.range.low.has_value() && !facets.range.high.has_value()) {
    return json_.Number();
  }
  const std::optional<Expression> numbers =
      is_integer ? AddIntegers(builder_, facets.range) : AddNumbers(builder_, facets.range);
  if (!numbers.has_value()) {
    return Nothing(*facets.range_at, is_integer ? "no whole number is between the bounds"
                                                : "no number is between the bounds");
  }
  return numbers;
}

}  // namespace longstream
