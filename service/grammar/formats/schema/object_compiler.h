// Makes expressions for the objects and the lists of a conjunction of schemas.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_OBJECT_COMPILER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_OBJECT_COMPILER_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "service/grammar/formats/schema/schema_compiler.h"

namespace longstream {

// Joins the object keywords of several schemas. Named members come in the order of the schemas,
// other members behind them.
class ObjectCompiler {
 public:
  using Expression = GrammarBuilder::Expression;

  // The arguments must outlive this object.
  ObjectCompiler(SchemaCompiler& compiler, KeywordLists schemas);

  // nullopt: no object fits, and the compiler knows why.
  std::optional<Expression> Compile();

 private:
  struct Property {
    std::string_view name;
    const SchemaValue* at = nullptr;  // for errors
    Conjunction schemas{};
    bool is_required = false;
    Expression member{};  // key, colon and value
  };
  // Members that are not named.
  struct Others {
    Expression key{};
    Conjunction schemas{};
  };

  void AddProperties();
  void AddRequired();
  // Named members of one schema are additional members of another one.
  void JoinAdditional();
  // Removes the members that cannot be there. Returns false if one of them is required.
  bool RemoveImpossible();
  // The members that may be there besides the named ones; nullopt: none.
  std::optional<Others> OtherMembers();
  std::optional<Others> PatternMembers();
  Expression OtherKey();
  std::optional<Expression> Unnamed(const Others& others);
  // Refuses propertyNames, because the named properties would have to fit it too.
  void CheckNames() const;
  // Whether the named properties imply minProperties and maxProperties. Fails if not.
  bool CheckCounts(bool has_others);
  Expression Members(const std::optional<Expression>& other);

  SchemaCompiler& compiler_;
  GrammarBuilder& builder_;
  JsonText& json_;
  std::vector<const SchemaKeywords*> schemas_;  // those with object keywords
  std::vector<Property> properties_;
  absl::flat_hash_map<std::string_view, size_t> places_;
  Counts counts_;
};

// Joins the list keywords of several schemas.
class ListCompiler {
 public:
  using Expression = GrammarBuilder::Expression;

  // The arguments must outlive this object.
  ListCompiler(SchemaCompiler& compiler, KeywordLists schemas);

  // nullopt: no list fits, and the compiler knows why.
  std::optional<Expression> Compile();

 private:
  void Join();
  // A list whose first items have schemas of their own.
  Expression WithPrefix();

  SchemaCompiler& compiler_;
  GrammarBuilder& builder_;
  JsonText& json_;
  std::vector<const SchemaKeywords*> schemas_;  // those with list keywords
  const SchemaValue* prefix_ = nullptr;
  Conjunction items_;       // the schemas of the other items
  bool is_closed_ = false;  // there are no other items
  Counts counts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_OBJECT_COMPILER_H_
