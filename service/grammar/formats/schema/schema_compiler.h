// Makes expressions from the schemas of a document.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_COMPILER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "service/grammar/formats/json_text.h"
#include "service/grammar/formats/schema/schema_document.h"
#include "service/grammar/formats/schema/schema_facets.h"
#include "service/grammar/formats/schema/schema_keywords.h"

namespace longstream {

// A schema that a value must fit, together with others.
struct SchemaElement {
  static constexpr size_t kNone = ~size_t{0};

  const SchemaValue* schema = nullptr;
  size_t parent = kNone;     // the place of the schema whose anyOf or oneOf has this one
  bool is_expanded = false;  // the schemas of $ref and allOf stand beside it
  bool any_done = false;     // a schema of anyOf stands beside it
  bool one_done = false;     // a schema of oneOf stands beside it
  // The places of these schemas. The value fits this one because it fits them; so there must be no
  // cycle.
  std::vector<size_t> needs{};
};

// The value must fit all of them. Places are those in this list.
using Conjunction = std::vector<SchemaElement>;

// Compiles each conjunction once, as a rule. A value inside an object or a list calls its rule,
// which is compiled later. So schemas may nest and refer to each other in any way, and the depth of
// the stack does not depend on them. Throws FormatError.
class SchemaCompiler {
 public:
  using Expression = GrammarBuilder::Expression;

  SchemaCompiler(GrammarBuilder& builder, const SchemaDocument& document)
      : builder_(builder), document_(document), json_(builder) {}

  // The values that fit the document's root.
  Expression Compile();

 private:
  friend class SchemaExpansion;
  friend class ObjectCompiler;
  friend class ListCompiler;

  using Key = std::vector<uint32_t>;
  using Element = SchemaElement;
  struct Pending {
    GrammarBuilder::Rule rule;
    Conjunction schemas;
  };

  // A value of its own, such as a member of an object.
  Expression Value(Conjunction schemas);
  // A value in place of another one, as a schema of anyOf. nullopt: the schema is `false`.
  std::optional<Expression> ValueInPlace(const SchemaValue& schema);
  Expression CallOf(const Conjunction& schemas, GrammarBuilder::Rule* rule);
  // Small values become part of the rules that need them. nullopt: the value is not small.
  std::optional<Expression> SmallValue(const SchemaValue& schema);
  // The schema at the end of a chain of schemas that have only $ref.
  const SchemaValue& Target(const SchemaValue& schema);

  // The strings of a conjunction, in the rule that is being compiled. Fails if there are none.
  Expression Content(const Conjunction& schemas);
  std::optional<Expression> InPlace(const Conjunction& schemas, size_t depth);
  // Whether the only keywords of all schemas are those of one list of alternatives.
  static bool IsAlone(const Conjunction& schemas, KeywordLists keywords, size_t which,
                      Keyword keyword);
  // One of the schemas of anyOf or oneOf, together with all other schemas.
  std::optional<Expression> Alternatives(Conjunction schemas, KeywordLists keywords, size_t which,
                                         Keyword keyword, size_t depth);
  std::optional<Expression> Emit(KeywordLists keywords);
  std::optional<Expression> String(const SchemaFacets& facets);
  std::optional<Expression> Number(const SchemaFacets& facets);
  Expression OneOf(absl::Span<const SchemaValue* const> values);
  Expression Constant(const SchemaValue& value);
  // The JSON strings that match a pattern, in the form of JsonString. `at`: for errors.
  Expression Matching(const SchemaValue& at, std::string_view pattern, bool is_search,
                      const Counts& lengths);

  // Records why no value fits.
  std::nullopt_t Nothing(const SchemaValue& at, std::string_view reason);
  const SchemaValue& Follow(const SchemaValue& reference);
  const SchemaKeywords& KeywordsOf(const SchemaValue& schema);
  // Counts work that may grow faster than the document.
  void Work(const SchemaValue& at, size_t units);
  void CheckCycles() const;

  GrammarBuilder& builder_;
  const SchemaDocument& document_;
  JsonText json_;
  absl::flat_hash_map<Key, GrammarBuilder::Rule> rules_;
  std::deque<Pending> pending_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<SchemaKeywords>> keywords_;
  absl::flat_hash_map<uint32_t, const SchemaValue*> targets_;  // of references
  absl::flat_hash_map<uint32_t, std::optional<Expression>> small_values_;
  // Rule -> the rules that it calls in place, and a schema for errors.
  std::map<uint32_t, std::vector<uint32_t>> in_place_;
  absl::flat_hash_map<uint32_t, const SchemaValue*> schemas_of_rules_;
  uint32_t current_rule_ = 0;
  std::optional<NothingFits> nothing_;
  size_t work_ = 0;
  std::map<std::string, Expression> patterns_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_COMPILER_H_
