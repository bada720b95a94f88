// Random patterns, grammars and schemas: they are refused as INVALID_ARGUMENT, or their grammars
// can be walked. No input takes long.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/formats/ebnf.h"
#include "service/grammar/formats/regex.h"
#include "service/grammar/formats/schema/json_schema.h"
#include "service/tokenizer/text/utf8.h"
#include "tests/fuzz_trials.h"
#include "tests/service/grammar/formats/grammar_texts.h"
#include "tests/service/grammar/formats/random_schema.h"
#include "tests/service/grammar/formats/schema_texts.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

// Draws an input from pieces of the syntax, and spoils it.
std::string RandomInput(Random& random, const std::vector<std::string_view>& pieces) {
  std::string text;
  for (size_t n = Draw(random, 12) + (Draw(random, 20) == 0 ? 200 : 0); n > 0; --n) {
    text += pieces[Draw(random, pieces.size())];
  }
  if (Draw(random, 3) == 0) text = Mutated(random, std::move(text));
  if (Draw(random, 10) == 0 && !text.empty()) {
    text[Draw(random, text.size())] = static_cast<char>(random());
  }
  return text;
}

// Builds the grammar, and walks through it. Returns whether it could be built.
bool Try(const std::function<absl::StatusOr<Expression>(GrammarBuilder&)>& add, Random& random) {
  // Sanitizers and other processes take most of this time.
  constexpr std::chrono::seconds kMostTime(20);
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<Grammar> grammar = BuildFormat(add);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kMostTime);
  if (!grammar.ok()) {
    EXPECT_EQ(grammar.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string message(grammar.status().message());
    EXPECT_FALSE(message.empty());
    EXPECT_LT(message.size(), 1000u);
    EXPECT_EQ(ValidUtf8Prefix(message), message.size());
    return false;
  }
  constexpr size_t kMostNodes = 20'000;  // the walker takes a while
  if (grammar->num_nodes() > kMostNodes) return true;
  const GrammarWalker walker(*grammar);
  for (int i = 0; i < 3; ++i) {
    const std::string text = walker.Walk(random, Draw(random, 50));
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
    EXPECT_TRUE(FitsOrOverflows(*grammar, text)) << text;
  }
  return true;
}

TEST(FormatsFuzzTest, Regexes) {
  const std::vector<std::string_view> pieces = {
      "a",       "b",     "é",   "😀", ".",  "[",   "]",   "[a-z]",   "[^",      "(",
      ")",       "(?",    "(?:", "|", "*",  "+",   "?",   "{2}",     "{1,3}",   "{",
      "}",       "{300}", "^",   "$", "\\", "\\d", "\\W", "\\p{Lu}", "\\u{e9}", "\\x41",
      "\\uD83D", "\\s",   "-",   ",", "1",  "\\b", "\\1", "(?<n>"};
  Random random(1);
  FuzzTrials trials(3000);
  int built = 0;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const std::string pattern = RandomInput(random, pieces);
    SCOPED_TRACE(pattern);
    RegexUse use;
    use.is_search = Draw(random, 2) == 0;
    if (Draw(random, 4) == 0) use.least_length = Draw(random, 5);
    if (Draw(random, 4) == 0) use.most_length = use.least_length + Draw(random, 300);
    built += Try([&](GrammarBuilder& b) { return AddRegex(b, pattern, use); }, random) ? 1 : 0;
  }
  EXPECT_GT(built, trials.count() / 20);
  EXPECT_LT(built, trials.count() * 9 / 10);
}

TEST(FormatsFuzzTest, Grammars) {
  const std::vector<std::string_view> pieces = {
      "root ::= ", "\nroot ::= ", "\na ::= ", "\nb ::=",  "a ",     "b ",     "root ", "\"x\"",
      "\"",        "[a-z]",       "[^",       "]",        "(",      ")",      " | ",   "*",
      "+",         "?",           "{2,3}",    "{",        "}",      "\n",     "# c\n", ".",
      "\\",        "\"\\u00e9\"", "\"\\n\"",  "\"\\xg\"", "{1000}", "\"é😀\"", "|",     "::="};
  Random random(2);
  FuzzTrials trials(3000);
  int built = 0;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string source = RandomInput(random, pieces);
    if (Draw(random, 2) == 0) source = "root ::= a b | \"y\"\na ::= \"\" b\nb ::= \"z\" " + source;
    SCOPED_TRACE(source);
    built += Try([&](GrammarBuilder& b) { return AddEbnf(b, source); }, random) ? 1 : 0;
  }
  EXPECT_GT(built, trials.count() / 20);
  EXPECT_LT(built, trials.count() * 9 / 10);
}

TEST(FormatsFuzzTest, SchemasThatAreNoSchemas) {
  const std::vector<std::string_view> pieces = {"{",
                                                "}",
                                                "[",
                                                "]",
                                                ":",
                                                ",",
                                                "\"type\":",
                                                "\"string\"",
                                                "\"properties\":{",
                                                "\"$ref\":\"#\"",
                                                "\"anyOf\":[",
                                                "\"allOf\":[",
                                                "true",
                                                "false",
                                                "null",
                                                "1",
                                                "-1e3",
                                                "1e999",
                                                "\"a\"",
                                                "\"\\u00e9\"",
                                                "\"enum\":[",
                                                "\"minLength\":",
                                                "\"maximum\":",
                                                "\"pattern\":\"^a\"",
                                                "\"items\":",
                                                "\"\\ud800\""};
  Random random(3);
  FuzzTrials trials(3000);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const std::string source = RandomInput(random, pieces);
    SCOPED_TRACE(source);
    Try([&](GrammarBuilder& b) { return AddJsonSchema(b, source); }, random);
  }
}

// Replaces a random value of a document by another one, or changes a name.
void Spoil(Random& random, nlohmann::ordered_json* value) {
  if (value->is_structured() && !value->empty() && Draw(random, 5) != 0) {
    auto member = value->begin();
    std::advance(member, static_cast<std::ptrdiff_t>(Draw(random, value->size())));
    if (!value->is_object() || Draw(random, 8) != 0) return Spoil(random, &*member);
    constexpr const char* kNames[] = {"type",  "items", "$ref",     "anyOf",   "enum",      "const",
                                      "x-any", "title", "required", "pattern", "maxLength", "not"};
    const nlohmann::ordered_json moved = *member;
    value->erase(member);
    (*value)[kNames[Draw(random, std::size(kNames))]] = moved;
    return;
  }
  const std::vector<nlohmann::ordered_json> others = {nullptr,
                                                      true,
                                                      false,
                                                      -1,
                                                      3,
                                                      1e30,
                                                      "a",
                                                      "#",
                                                      "#/$defs/a",
                                                      "string",
                                                      "object",
                                                      nlohmann::ordered_json::array(),
                                                      nlohmann::ordered_json::object()};
  *value = others[Draw(random, others.size())];
}

TEST(FormatsFuzzTest, SpoiltSchemas) {
  Random random(4);
  FuzzTrials trials(2000);
  TextCounts counts;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    nlohmann::ordered_json schema = SchemaMaker(random).MakeDocument();
    for (size_t n = Draw(random, 4); n > 0; --n) Spoil(random, &schema);
    const std::string source = schema.dump();
    SCOPED_TRACE(source);
    if (!Try([&](GrammarBuilder& b) { return AddJsonSchema(b, source); }, random)) continue;
    const absl::StatusOr<Grammar> grammar =
        BuildFormat([&](GrammarBuilder& b) { return AddJsonSchema(b, source); });
    CheckTextsOf(schema, *grammar, random, &counts);
  }
  EXPECT_GT(counts.built, trials.count() / 10);
}

}  // namespace
}  // namespace longstream
