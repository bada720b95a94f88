// Checks tables of JSON Schemas and texts.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_CASES_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_CASES_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "service/grammar/formats/schema/json_schema.h"
#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {

inline absl::StatusOr<Grammar> BuildSchema(const std::string& schema) {
  return BuildFormat([&](GrammarBuilder& builder) { return AddJsonSchema(builder, schema); });
}

inline std::string ErrorOfSchema(const std::string& schema) {
  return ErrorOf([&](GrammarBuilder& builder) { return AddJsonSchema(builder, schema); });
}

struct SchemaCase {
  std::string schema;
  std::vector<std::string> fits;
  std::vector<std::string> others;
};

inline void CheckSchemas(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    const absl::StatusOr<Grammar> grammar = BuildSchema(c.schema);
    EXPECT_TRUE(grammar.ok()) << c.schema << ": " << grammar.status();
    if (!grammar.ok()) continue;
    for (const std::string& text : c.fits) {
      EXPECT_TRUE(Fits(*grammar, text)) << c.schema << "\n" << text;
    }
    for (const std::string& text : c.others) {
      EXPECT_FALSE(Fits(*grammar, text)) << c.schema << "\n" << text;
    }
  }
}

// (schema, its error).
inline void CheckSchemaErrors(const std::vector<std::pair<std::string, std::string>>& cases) {
  for (const auto& [schema, error] : cases) EXPECT_EQ(ErrorOfSchema(schema), error) << schema;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_SCHEMA_CASES_H_
