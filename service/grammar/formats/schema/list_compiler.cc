// Lists.
#include <algorithm>

#include "service/grammar/formats/counted.h"
#include "service/grammar/formats/schema/object_compiler.h"

namespace longstream {

using Expression = GrammarBuilder::Expression;

ListCompiler::ListCompiler(SchemaCompiler& compiler, KeywordLists schemas)
    : compiler_(compiler), builder_(compiler.builder_), json_(compiler.json_) {
  for (const SchemaKeywords* const schema : schemas) {
    if (!schema->HasListKeywords()) continue;
    schemas_.push_back(schema);
    counts_.Reduce((*schema)[Keyword::kMinItems], (*schema)[Keyword::kMaxItems]);
    const SchemaValue* const unique = (*schema)[Keyword::kUniqueItems];
    if (unique != nullptr && unique->boolean) FailSchema(*unique, "not supported");
  }
}

void ListCompiler::Join() {
  for (const SchemaKeywords* const schema : schemas_) {
    if (const SchemaValue* const prefix = (*schema)[Keyword::kPrefixItems]) prefix_ = prefix;
  }
  const SchemaValue* items = nullptr;
  for (const SchemaKeywords* const schema : schemas_) {
    const SchemaValue* const prefix = (*schema)[Keyword::kPrefixItems];
    const SchemaValue* const one = (*schema)[Keyword::kItems];
    if (prefix_ != nullptr && prefix != prefix_ && (prefix != nullptr || one != nullptr)) {
      FailSchema(*prefix_, "not supported: together with the items of another schema");
    }
    if (one == nullptr) continue;
    items = one;
    is_closed_ = is_closed_ || one->IsBool(false);
    if (!one->IsBool(true)) items_.push_back({one});
  }
  if (prefix_ == nullptr) return;
  const auto size = static_cast<uint32_t>(prefix_->members.size());
  // Without `items`, there are only as many others as minItems needs.
  if (items == nullptr) {
    counts_.most = std::min(counts_.most.value_or(~uint32_t{0}), std::max(size, counts_.least));
  }
}

std::optional<Expression> ListCompiler::Compile() {
  Join();
  // An item that cannot be there ends the list.
  std::optional<uint32_t> end;
  const SchemaValue* at = counts_.at;
  if (prefix_ != nullptr) {
    const auto& members = prefix_->members;
    const auto never = std::ranges::find_if(
        members, [](const SchemaValue::Member& member) { return member.value->IsBool(false); });
    if (never != members.end()) end = static_cast<uint32_t>(never - members.begin());
  }
  if (!end.has_value() && is_closed_) {
    end = prefix_ == nullptr ? 0 : static_cast<uint32_t>(prefix_->members.size());
  }
  if (end.has_value()) counts_.most = std::min(counts_.most.value_or(*end), *end);
  if (counts_.IsEmpty()) return compiler_.Nothing(*at, "the least number of items is too large");
  if (prefix_ != nullptr && counts_.most != 0) return WithPrefix();
  const Expression item = counts_.most == 0 ? builder_.Nothing() : compiler_.Value(items_);
  return json_.List("[", item, counts_.least, counts_.most, "]");
}

Expression ListCompiler::WithPrefix() {
  // Expressions may not nest too deeply, so some levels are rules.
  constexpr size_t kLevelsOfRule = 32;
  const size_t all = prefix_->members.size();
  const size_t size = counts_.most.has_value() ? std::min<size_t>(all, *counts_.most) : all;
  std::vector<Expression> parts;  // in reverse
  const auto rest = [&] {
    return builder_.Sequence(std::vector<Expression>(parts.rbegin(), parts.rend()));
  };
  if (!counts_.most.has_value() || *counts_.most > all) {
    const auto before = static_cast<uint32_t>(all);
    const Expression more = builder_.Sequence({json_.Comma(), compiler_.Value(items_)});
    const uint32_t least = std::max(counts_.least, before) - before;
    const auto most =
        counts_.most.has_value() ? std::optional(*counts_.most - before) : std::nullopt;
    parts.push_back(Counted(builder_, more, least, most));
  }
  for (size_t i = size; i-- > 0;) {
    const Expression item = compiler_.Value({{prefix_->members[i].value}});
    parts.push_back(i == 0 ? item : builder_.Sequence({json_.Comma(), item}));
    if (i >= counts_.least && i > 0) {
      Expression optional = builder_.Optional(rest());
      if (i % kLevelsOfRule == 0) optional = builder_.Named(optional);
      parts = {optional};
    }
  }
  parts.insert(parts.begin(), json_.Space());
  const Expression items = counts_.least == 0 ? builder_.Optional(rest()) : rest();
  return builder_.Sequence({json_.Token("["), items, builder_.Literal("]")});
}

}  // namespace longstream
