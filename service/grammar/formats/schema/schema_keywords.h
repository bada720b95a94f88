// The keywords of one schema, with their forms checked.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_KEYWORDS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_KEYWORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "service/grammar/formats/schema/schema_document.h"

namespace longstream {

enum class Keyword {
  kRef,
  kAllOf,
  kAnyOf,
  kOneOf,
  kType,
  kNullable,
  kEnum,
  kConst,
  kProperties,
  kRequired,
  kAdditionalProperties,
  kPatternProperties,
  kPropertyNames,
  kMinProperties,
  kMaxProperties,
  kItems,
  kPrefixItems,
  kMinItems,
  kMaxItems,
  kUniqueItems,
  kMinLength,
  kMaxLength,
  kPattern,
  kFormat,
  kMinimum,
  kMaximum,
  kExclusiveMinimum,
  kExclusiveMaximum,
  kMultipleOf,
  kDefinitions,  // $defs and definitions
  kCount,        // of the keywords above
};

// A set of types of values.
using Types = uint8_t;
inline constexpr Types kNullType = 1;
inline constexpr Types kBoolType = 2;
inline constexpr Types kObjectType = 4;
inline constexpr Types kListType = 8;
inline constexpr Types kStringType = 16;
inline constexpr Types kIntegerType = 32;
inline constexpr Types kFractionType = 64;  // numbers that are no whole numbers
inline constexpr Types kNumberType = kIntegerType | kFractionType;
inline constexpr Types kAllTypes = 127;

// The type of a value; of a number, kIntegerType or kFractionType.
Types TypeOf(const SchemaValue& value);

class SchemaKeywords {
 public:
  // Throws FormatError: the schema is no object and no boolean, or it has a keyword that is not
  // supported or has a wrong value. The schema must outlive this object.
  explicit SchemaKeywords(const SchemaValue& schema);

  const SchemaValue& schema() const { return *schema_; }
  // The value of a keyword, or nullptr.
  const SchemaValue* operator[](Keyword keyword) const {
    return values_[static_cast<size_t>(keyword)];
  }
  // Whether any of the keywords first ... last is there.
  bool HasAny(Keyword first, Keyword last) const;
  bool HasObjectKeywords() const { return HasAny(Keyword::kProperties, Keyword::kMaxProperties); }
  bool HasListKeywords() const { return HasAny(Keyword::kItems, Keyword::kUniqueItems); }
  // The schema `false`.
  bool IsNothing() const { return schema_->IsBool(false); }

  // Whether it has no keyword that the compiler reads, but perhaps $ref, allOf, anyOf and oneOf.
  bool IsFree() const { return !HasAny(Keyword::kType, Keyword::kMultipleOf); }
  // The work that it takes to join this schema with others.
  size_t weight() const;

  // The types that `type` and `nullable` allow.
  Types types() const { return types_; }
  // The types to which the other keywords apply.
  Types implied_types() const;

 private:
  void Read(const SchemaValue::Member& member);
  void ReadTypes();

  const SchemaValue* schema_;
  std::array<const SchemaValue*, static_cast<size_t>(Keyword::kCount)> values_{};
  Types types_ = kAllTypes;
};

// The keywords of several schemas.
using KeywordLists = absl::Span<const SchemaKeywords* const>;

// The value of a keyword such as minLength. A value that exceeds 32 bits is an error for a least
// count; for a largest count it means no limit (nullopt), because no text is so long.
uint32_t LeastCount(const SchemaValue& value);
std::optional<uint32_t> MostCount(const SchemaValue& value);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_SCHEMA_SCHEMA_KEYWORDS_H_
