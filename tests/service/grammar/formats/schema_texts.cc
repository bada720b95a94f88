#include "tests/service/grammar/formats/schema_texts.h"

#include <gtest/gtest.h>

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

}  // namespace

bool IsExpectedError(const std::string& error) {
  for (const char* text : {"not supported", "no value fits", "no text fits", "refers to itself",
                           "has an allowed length", "too large"}) {
    if (error.find(text) != std::string::npos) return true;
  }
  return false;
}

void CheckTextsOf(const OrderedJson& schema, const Grammar& grammar, Random& random,
                  TextCounts* counts) {
  ++counts->built;
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

}  // namespace longstream
