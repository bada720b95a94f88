// Random schemas: the texts of their grammars are valid, and valid texts are in the grammars.
#include "tests/service/grammar/formats/random_schema.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/service/grammar/formats/schema_cases.h"
#include "tests/service/grammar/formats/schema_texts.h"
#include "tests/service/grammar/formats/schema_validator.h"

namespace longstream {
namespace {

// Sanitizers are ten times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSchemas = 800;
#else
constexpr int kSchemas = 4000;
#endif

TEST(RandomSchemaTest, TextsOfGrammarsAreValid) {
  Random random(1);
  TextCounts counts;
  for (int trial = 0; trial < kSchemas; ++trial) {
    const OrderedJson schema = SchemaMaker(random).MakeDocument();
    const absl::StatusOr<Grammar> grammar = BuildSchema(schema.dump());
    if (!grammar.ok()) {
      const std::string error(grammar.status().message());
      ASSERT_TRUE(IsExpectedError(error)) << error << "\n" << schema.dump();
      continue;
    }
    CheckTextsOf(schema, *grammar, random, &counts);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(counts.built, kSchemas / 3);
  EXPECT_GT(counts.mutants, kSchemas / 4);
}

// Whether ValueMaker knows the keywords of the schema and of all schemas in it.
bool IsSimple(const OrderedJson& schema) {
  if (schema.is_array()) return std::ranges::all_of(schema, IsSimple);
  if (!schema.is_object()) return true;
  const bool has_ref = schema.contains("$ref") || schema.contains("anyOf") ||
                       schema.contains("oneOf") || schema.contains("const") ||
                       schema.contains("enum");
  const size_t others = schema.contains("$defs") ? 1 : 0;
  if (has_ref && schema.size() > 1 + others) return false;
  if (!has_ref && !schema.empty() && !schema.contains("type") && schema.size() > others) {
    return false;
  }
  if (schema.contains("allOf")) return false;
  for (const char* keyword : {"properties", "patternProperties", "$defs"}) {
    if (!schema.contains(keyword)) continue;
    for (const auto& [name, value] : schema[keyword].items()) {
      if (!IsSimple(value)) return false;
    }
  }
  for (const char* keyword : {"items", "prefixItems", "anyOf", "oneOf", "additionalProperties"}) {
    if (schema.contains(keyword) && !IsSimple(schema[keyword])) return false;
  }
  return true;
}

TEST(RandomSchemaTest, ValidTextsAreInTheGrammar) {
  Random random(2);
  struct {
    int built = 0;
    int values = 0;
    int valid_values = 0;
  } counts;
  for (int trial = 0; trial < 5 * kSchemas; ++trial) {
    const OrderedJson schema = SchemaMaker(random).MakeDocument();
    if (!IsSimple(schema)) continue;
    const absl::StatusOr<Grammar> grammar = BuildSchema(schema.dump());
    if (!grammar.ok()) continue;
    ++counts.built;
    for (int i = 0; i < 10; ++i) {
      const std::optional<std::string> text = ValueMaker(random, schema).Make(schema, 6);
      if (!text.has_value()) continue;
      ++counts.values;
      const bool is_valid = IsValid(schema, schema, OrderedJson::parse(*text));
      counts.valid_values += is_valid ? 1 : 0;
      ASSERT_EQ(Fits(*grammar, *text), is_valid) << schema.dump() << "\n" << *text;
    }
  }
  EXPECT_GT(counts.built, kSchemas / 4);
  EXPECT_GT(counts.valid_values, counts.values / 10);
  EXPECT_LT(counts.valid_values, counts.values * 9 / 10);
}

}  // namespace
}  // namespace longstream
