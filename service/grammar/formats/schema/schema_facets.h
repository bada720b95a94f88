// The restrictions of several schemas that a value must fit at once.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_FACETS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_FACETS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/grammar/formats/number_range.h"
#include "service/grammar/formats/schema/schema_keywords.h"

namespace longstream {

// The reason why no value fits, and its place.
struct NothingFits {
  const SchemaValue* at = nullptr;
  std::string reason;
};

// The least and the largest of counts such as minLength and maxLength.
struct Counts {
  // Reduces the counts to those that both keywords allow. nullptr: the keyword is absent.
  void Reduce(const SchemaValue* least_keyword, const SchemaValue* most_keyword);
  bool IsEmpty() const { return most.has_value() && *most < least; }
  bool AreLimited() const { return least > 0 || most.has_value(); }

  uint32_t least = 0;
  std::optional<uint32_t> most;
  const SchemaValue* at = nullptr;  // the keyword that made the last change
};

// Joins the keywords about types, single values, strings and numbers. The keywords about the
// content of objects and lists stay apart.
struct SchemaFacets {
  // Throws FormatError: keywords that cannot be joined.
  explicit SchemaFacets(KeywordLists schemas);

  Types types = kAllTypes;
  // The allowed values of `enum` and `const`; those that have another type, or exceed the
  // lengths and the range, are left out. nullopt: there is no such keyword.
  std::optional<std::vector<const SchemaValue*>> values;
  const SchemaValue* values_at = nullptr;  // enum or const
  Counts lengths;
  NumberRange range;
  const SchemaValue* range_at = nullptr;  // the last bound that counts
  const SchemaValue* pattern = nullptr;
  const SchemaValue* format = nullptr;  // only a known one
  bool has_object_keywords = false;
  bool has_list_keywords = false;
  // Whether a keyword other than `type`, enum and const restricts anything.
  bool IsLimited() const {
    return lengths.AreLimited() || range.low.has_value() || range.high.has_value() ||
           pattern != nullptr || format != nullptr || has_object_keywords || has_list_keywords;
  }
  // Set if no value fits.
  std::optional<NothingFits> nothing;

 private:
  void AddTypes(KeywordLists schemas);
  void AddStrings(const SchemaKeywords& schema);
  void AddNumbers(const SchemaKeywords& schema);
  void AddBound(const SchemaValue* keyword, bool is_low, bool is_exclusive);
  void AddValues(const SchemaValue& keyword);
  // Leaves out values, and refuses restrictions of the others that only a grammar can check.
  void FilterValues();
  bool Allows(const SchemaValue& value) const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_FACETS_H_
