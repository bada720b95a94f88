// Random schemas: the texts of their grammars are valid, and valid texts are in the grammars.
#include "tests/service/grammar/formats/random_schema.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/service/grammar/formats/schema_cases.h"
#include "tests/service/grammar/formats/schema_validator.h"

namespace longstream {
namespace {

// Whether the text has two members of one name in one object. ordered_json keeps the last one.
bool HasTwins(const std::string& text) {
  return OrderedJson::parse(text).dump().size() != [&text] {
    // The same text without the white space between tokens, and with the shortest escapes.
    std::string compact;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') in_string = !in_string;
      if (!in_string && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t')) continue;
      compact += text[i];
      if (in_string && text[i] == '\\') compact += text[++i];
    }
    return compact.size();
  }();
}

struct Counts {
  int built = 0;
  int walks = 0;
  int mutants = 0;
  int values = 0;
  int valid_values = 0;
};

void CheckSchema(const OrderedJson& schema, const Grammar& grammar, Random& random,
                 Counts* counts) {
  const std::string source = schema.dump();
  const GrammarWalker walker(grammar);
  for (int i = 0; i < 12; ++i) {
    const std::string text = walker.Walk(random, Draw(random, 80));
    ASSERT_TRUE(OrderedJson::accept(text)) << source << "\n" << text;
    ASSERT_TRUE(Fits(grammar, text)) << source << "\n" << text;
    ++counts->walks;
    // Members that are not named may have equal names. Then there may be fewer than minProperties.
    const OrderedJson value = OrderedJson::parse(text);
    if (!IsValid(schema, schema, value)) {
      ASSERT_TRUE(HasTwins(text)) << source << "\n" << text;
    }
    const std::string other = Mutated(random, text);
    if (!Fits(grammar, other)) continue;
    ++counts->mutants;
    ASSERT_TRUE(OrderedJson::accept(other)) << source << "\n" << other;
    if (!IsValid(schema, schema, OrderedJson::parse(other))) {
      ASSERT_TRUE(HasTwins(other)) << source << "\n" << other;
    }
  }
}

TEST(RandomSchemaTest, TextsOfGrammarsAreValid) {
  Random random(1);
  Counts counts;
  for (int trial = 0; trial < 4000; ++trial) {
    const OrderedJson schema = SchemaMaker(random).MakeDocument();
    const absl::StatusOr<Grammar> grammar = BuildSchema(schema.dump());
    if (!grammar.ok()) {
      const std::string error(grammar.status().message());
      const bool is_expected = error.find("not supported") != std::string::npos ||
                               error.find("no value fits") != std::string::npos ||
                               error.find("no text fits") != std::string::npos ||
                               error.find("refers to itself") != std::string::npos ||
                               error.find("has an allowed length") != std::string::npos ||
                               error.find("too large") != std::string::npos;
      ASSERT_TRUE(is_expected) << error << "\n" << schema.dump();
      continue;
    }
    ++counts.built;
    CheckSchema(schema, *grammar, random, &counts);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(counts.built, 1500);
  EXPECT_GT(counts.mutants, 1000);
  std::printf("%d schemas, %d walks, %d mutants\n", counts.built, counts.walks, counts.mutants);
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
  Counts counts;
  for (int trial = 0; trial < 20'000; ++trial) {
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
  EXPECT_GT(counts.built, 1000);
  EXPECT_GT(counts.valid_values, counts.values / 10);
  EXPECT_LT(counts.valid_values, counts.values * 9 / 10);
  std::printf("%d schemas, %d values, %d valid\n", counts.built, counts.values,
              counts.valid_values);
}

}  // namespace
}  // namespace longstream
