// Joins the schemas that a value must fit, and divides alternatives.
#include "service/grammar/formats/schema/schema_compiler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/grammar/formats/format_error.h"
#include "service/grammar/formats/schema/object_compiler.h"

namespace longstream {

using Expression = GrammarBuilder::Expression;

namespace {

constexpr size_t kMostChain = 100;
constexpr size_t kMostWork = 250'000;

}  // namespace

// Adds the schemas that $ref and allOf name to those of a conjunction.
class SchemaExpansion {
 public:
  explicit SchemaExpansion(SchemaCompiler& compiler) : compiler_(compiler) {}

  // REQUIRES: elements that are expanded come before the others.
  Conjunction Expand(const Conjunction& schemas) {
    for (const SchemaElement& element : schemas) {
      if (element.is_expanded) {
        places_.emplace(element.schema->number, expanded_.size());
        expanded_.push_back(element);
      } else {
        Add(*element.schema, element.parent, *element.schema, 0);
      }
    }
    return std::move(expanded_);
  }

 private:
  // `parent`: the place of the schema that needs this one. `at`: for errors.
  void Add(const SchemaValue& schema, size_t parent, const SchemaValue& at, size_t depth) {
    const auto [known, is_new] = places_.try_emplace(schema.number, expanded_.size());
    const size_t place = known->second;
    if (parent != SchemaElement::kNone) {
      if (!is_new && Needs(place, parent)) {
        FailSchema(at, "the schema refers to itself, without a value between");
      }
      expanded_[parent].needs.push_back(place);
    }
    if (!is_new) return;
    if (depth == kMostChain) {
      FailSchema(at, absl::StrCat("more than ", kMostChain, " schemas refer to each other"));
    }
    expanded_.push_back({.schema = &schema, .is_expanded = true});
    const SchemaKeywords& keywords = compiler_.KeywordsOf(schema);
    if (const SchemaValue* const reference = keywords[Keyword::kRef]) {
      Add(compiler_.Follow(*reference), place, *reference, depth + 1);
    }
    if (const SchemaValue* const all = keywords[Keyword::kAllOf]) {
      for (const SchemaValue::Member& member : all->members) {
        Add(*member.value, place, *member.value, depth + 1);
      }
    }
  }

  // Whether the schema at a place needs the other one, directly or through others.
  bool Needs(size_t place, size_t other) const {
    std::vector<bool> seen(expanded_.size(), false);
    std::vector<size_t> work = {place};
    while (!work.empty()) {
      const size_t next = work.back();
      work.pop_back();
      if (next == other) return true;
      compiler_.Work(*expanded_[next].schema, 1);
      for (const size_t needed : expanded_[next].needs) {
        if (!seen[needed]) work.push_back(needed);
        seen[needed] = true;
      }
    }
    return false;
  }

  SchemaCompiler& compiler_;
  Conjunction expanded_;
  absl::flat_hash_map<uint32_t, size_t> places_;  // of the schemas in expanded_
};

Expression SchemaCompiler::Compile() {
  const Expression root = Value({{&document_.root()}});
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    current_rule_ = next.rule.index;
    builder_.Define(next.rule, Content(next.schemas));
  }
  CheckCycles();
  return root;
}

Expression SchemaCompiler::Value(Conjunction schemas) {
  if (schemas.empty()) return json_.Value();
  if (schemas.size() == 1) {
    const SchemaValue& schema = Target(*schemas[0].schema);
    const std::optional<Expression> small = SmallValue(schema);
    if (small.has_value()) return *small;
    schemas = {{&schema}};
  }
  GrammarBuilder::Rule rule;
  return CallOf(schemas, &rule);
}

std::optional<Expression> SchemaCompiler::ValueInPlace(const SchemaValue& schema) {
  const SchemaValue& target = Target(schema);
  if (target.IsBool(false)) return Nothing(target, "the schema is false");
  const std::optional<Expression> small = SmallValue(target);
  if (small.has_value()) return small;
  GrammarBuilder::Rule rule;
  const Expression call = CallOf({{&target}}, &rule);
  in_place_[current_rule_].push_back(rule.index);
  return call;
}

Expression SchemaCompiler::CallOf(const Conjunction& schemas, GrammarBuilder::Rule* rule) {
  Key key;
  for (const Element& element : schemas) key.push_back(element.schema->number);
  const auto [known, is_new] = rules_.try_emplace(std::move(key));
  if (is_new) {
    known->second = builder_.Declare();
    schemas_of_rules_[known->second.index] = schemas[0].schema;
    pending_.push_back({known->second, schemas});
  }
  *rule = known->second;
  return builder_.Call(known->second);
}

std::optional<Expression> SchemaCompiler::SmallValue(const SchemaValue& schema) {
  const auto [known, is_new] = small_values_.try_emplace(schema.number);
  if (!is_new) return known->second;
  constexpr size_t kMostValues = 8;
  const SchemaKeywords& keywords = KeywordsOf(schema);
  if (keywords.IsNothing() || keywords.HasAny(Keyword::kRef, Keyword::kOneOf)) return std::nullopt;
  if (keywords.IsFree()) return known->second = json_.Value();
  Work(schema, keywords.weight());
  const SchemaFacets facets({&keywords});
  const bool has_range = facets.range.low.has_value() || facets.range.high.has_value();
  const bool has_many = facets.values.has_value() && facets.values->size() > kMostValues;
  const bool is_scalar = (facets.types & (kObjectType | kListType)) == 0;
  if (facets.nothing.has_value() || !is_scalar || has_range || has_many) return std::nullopt;
  return known->second = Emit({&keywords});
}

const SchemaValue& SchemaCompiler::Target(const SchemaValue& schema) {
  const SchemaValue* target = &schema;
  std::vector<const SchemaValue*> chain;
  while (true) {
    const SchemaKeywords& keywords = KeywordsOf(*target);
    const SchemaValue* const reference = keywords[Keyword::kRef];
    const bool is_reference =
        reference != nullptr && !keywords.HasAny(Keyword::kAllOf, Keyword::kMultipleOf);
    if (!is_reference) return *target;
    if (std::ranges::find(chain, target) != chain.end()) {
      FailSchema(*reference, "the schema refers to itself, without a value between");
    }
    if (chain.size() == kMostChain) {
      FailSchema(*reference,
                 absl::StrCat("more than ", kMostChain, " schemas refer to each other"));
    }
    Work(*target, 1);
    chain.push_back(target);
    target = &Follow(*reference);
  }
}

const SchemaValue& SchemaCompiler::Follow(const SchemaValue& reference) {
  const SchemaValue*& target = targets_[reference.number];
  if (target == nullptr) target = document_.Resolve(reference.text);
  if (target == nullptr) {
    FailSchema(reference, absl::StrCat("'", Shown(reference.text),
                                       "' names no place in this document, such as #/$defs/name"));
  }
  return *target;
}

const SchemaKeywords& SchemaCompiler::KeywordsOf(const SchemaValue& schema) {
  std::unique_ptr<SchemaKeywords>& keywords = keywords_[schema.number];
  if (keywords == nullptr) keywords = std::make_unique<SchemaKeywords>(schema);
  return *keywords;
}

Expression SchemaCompiler::Content(const Conjunction& schemas) {
  const std::optional<Expression> content = InPlace(schemas, 0);
  if (!content.has_value()) {
    FailSchema(*nothing_->at, absl::StrCat("no value fits: ", nothing_->reason));
  }
  return *content;
}

std::optional<Expression> SchemaCompiler::InPlace(const Conjunction& schemas, size_t depth) {
  if (depth > kMostChain) {
    FailSchema(*schemas[0].schema,
               absl::StrCat("alternatives are nested deeper than ", kMostChain, " levels"));
  }
  Conjunction expanded = SchemaExpansion(*this).Expand(schemas);
  std::vector<const SchemaKeywords*> keywords;
  for (const Element& element : expanded) {
    keywords.push_back(&KeywordsOf(*element.schema));
    Work(*element.schema, keywords.back()->weight());
    if (keywords.back()->IsNothing()) return Nothing(*element.schema, "the schema is false");
  }
  for (size_t i = 0; i < expanded.size(); ++i) {
    const SchemaKeywords& one = *keywords[i];
    if (one[Keyword::kAnyOf] != nullptr && !expanded[i].any_done) {
      return Alternatives(std::move(expanded), keywords, i, Keyword::kAnyOf, depth);
    }
    if (one[Keyword::kOneOf] != nullptr && !expanded[i].one_done) {
      return Alternatives(std::move(expanded), keywords, i, Keyword::kOneOf, depth);
    }
  }
  return Emit(keywords);
}

bool SchemaCompiler::IsAlone(const Conjunction& schemas, KeywordLists keywords, size_t which,
                             Keyword keyword) {
  for (size_t i = 0; i < schemas.size(); ++i) {
    const SchemaKeywords& one = *keywords[i];
    const auto has_open = [&](Keyword other, bool is_done) {
      return one[other] != nullptr && !is_done && !(i == which && other == keyword);
    };
    if (!one.IsFree() || has_open(Keyword::kAnyOf, schemas[i].any_done) ||
        has_open(Keyword::kOneOf, schemas[i].one_done)) {
      return false;
    }
  }
  return true;
}

std::optional<Expression> SchemaCompiler::Alternatives(Conjunction schemas, KeywordLists keywords,
                                                       size_t which, Keyword keyword,
                                                       size_t depth) {
  const SchemaValue& list = *(*keywords[which])[keyword];
  const bool is_alone = IsAlone(schemas, keywords, which, keyword);
  (keyword == Keyword::kAnyOf ? schemas[which].any_done : schemas[which].one_done) = true;
  std::vector<Expression> options;
  for (const SchemaValue::Member& member : list.members) {
    std::optional<Expression> option;
    if (is_alone) {
      option = ValueInPlace(*member.value);
    } else {
      Conjunction joined = schemas;
      joined.push_back({.schema = member.value, .parent = which});
      option = InPlace(joined, depth + 1);
    }
    if (option.has_value()) options.push_back(*option);
  }
  if (options.empty()) return std::nullopt;
  return builder_.Choice(options);
}

std::optional<Expression> SchemaCompiler::Emit(KeywordLists keywords) {
  const SchemaFacets facets(keywords);
  if (facets.nothing.has_value()) return Nothing(*facets.nothing->at, facets.nothing->reason);
  if (facets.values.has_value()) return OneOf(*facets.values);
  if (facets.types == kAllTypes && !facets.IsLimited()) return json_.Value();
  std::vector<Expression> options;
  const auto add = [&options](std::optional<Expression> option) {
    if (option.has_value()) options.push_back(*option);
  };
  if ((facets.types & kNullType) != 0) add(builder_.Literal("null"));
  if ((facets.types & kBoolType) != 0) {
    add(builder_.Literal("true"));
    add(builder_.Literal("false"));
  }
  if ((facets.types & kStringType) != 0) add(String(facets));
  if ((facets.types & kNumberType) != 0) add(Number(facets));
  if ((facets.types & kListType) != 0) {
    add(facets.has_list_keywords ? ListCompiler(*this, keywords).Compile() : json_.Array());
  }
  if ((facets.types & kObjectType) != 0) {
    add(facets.has_object_keywords ? ObjectCompiler(*this, keywords).Compile() : json_.Object());
  }
  if (options.empty()) return std::nullopt;
  return options.size() == 1 ? options[0] : builder_.Choice(options);
}

std::nullopt_t SchemaCompiler::Nothing(const SchemaValue& at, std::string_view reason) {
  nothing_ = {&at, std::string(reason)};
  return std::nullopt;
}

void SchemaCompiler::Work(const SchemaValue& at, size_t units) {
  work_ += units;
  if (work_ > kMostWork) {
    FailSchema(at, "the schema is too large once its references and alternatives are joined");
  }
}

void SchemaCompiler::CheckCycles() const {
  // Removes rules that no other rule calls in place, until only cycles remain.
  absl::flat_hash_map<uint32_t, size_t> callers;
  for (const auto& [rule, called] : in_place_) {
    for (const uint32_t other : called) ++callers[other];
  }
  std::vector<uint32_t> free;
  for (const auto& [rule, called] : in_place_) {
    if (!callers.contains(rule)) free.push_back(rule);
  }
  while (!free.empty()) {
    const auto found = in_place_.find(free.back());
    free.pop_back();
    if (found == in_place_.end()) continue;
    for (const uint32_t other : found->second) {
      if (--callers[other] > 0) continue;
      callers.erase(other);
      free.push_back(other);
    }
  }
  for (const auto& [rule, called] : in_place_) {
    if (!callers.contains(rule)) continue;
    FailSchema(*schemas_of_rules_.at(rule), "the schema refers to itself, without a value between");
  }
}

}  // namespace longstream
