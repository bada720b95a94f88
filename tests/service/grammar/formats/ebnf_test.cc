// Grammars in llama.cpp's notation.
#include "service/grammar/formats/ebnf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {
namespace {

absl::StatusOr<Grammar> BuildEbnf(const std::string& source) {
  return BuildFormat([&](GrammarBuilder& builder) { return AddEbnf(builder, source); });
}

std::string ErrorOfEbnf(const std::string& source) {
  return ErrorOf([&](GrammarBuilder& builder) { return AddEbnf(builder, source); });
}

struct EbnfCase {
  std::string source;
  std::vector<std::string> fits;
  std::vector<std::string> others;
};

TEST(EbnfTest, Fits) {
  const std::vector<EbnfCase> cases = {
      {R"(root ::= "a")", {"a"}, {"", "b", "aa"}},
      {"root::=\"a\"\r\n", {"a"}, {}},
      {"# a comment\n\nroot ::= \"a\" # another one\n\n# the end", {"a"}, {}},
      {R"(root ::= "a" | "b" "c" |)", {"a", "bc", ""}, {"ab"}},
      {"root ::=\n  \"a\" |\n  \"b\"\n  | \"c\"\nx ::= \"d\"", {"a", "b", "c"}, {"d"}},
      {"root ::=\nx ::= \"d\"", {""}, {"d"}},
      {"root ::= \"a\" |\nx ::= \"d\"", {"a", ""}, {"d"}},
      {"root ::= ((\n\"a\"\n|\n\"b\"\n)\n+)", {"a", "ab"}, {""}},
      {"root ::= ( \"a\"\n | \"b\" # c\n )+ x\nx ::= \"-\"", {"ab-", "b-"}, {"-"}},
      {R"(root ::= "ab"* "c"+ "d"? "e"{2} "f"{1,} "g"{0,2})", {"ceef", "ababccdeefffgg"}, {"ceeg"}},
      {R"(root ::= "a" * "b" { 1 , 2 })", {"b", "aabb"}, {"bbb"}},
      {R"(root ::= [a-c] [^a-c] [x\-\]\^])", {"ad-", "bé]", "cxx", "cx^"}, {"aax", "xxx"}},
      {R"(root ::= [a-] [-a])", {"a-", "-a"}, {"bb"}},
      {R"(root ::= "\"\\\n\r\t\x41\u00e9\U0001F600\[\]" )", {"\"\\\n\r\tAé😀[]"}, {}},
      {R"(root ::= .)", {"a", "é", "\n", "😀"}, {"", "ab", "\xff"}},
      {R"(root ::= "é")", {"é"}, {"e"}},
      {R"(root ::= "")", {""}, {"a"}},
      {"root ::= a-b_2 a-b_2\na-b_2 ::= \"x\" | \"y\"", {"xy"}, {"x"}},
      {"root ::= root \"+\" root | [0-9]", {"1", "1+2+3"}, {"1+", ""}},
      {"root ::= \"(\" root \")\" root |", {"", "()", "(())()"}, {"(", ")("}},
      {"a ::= b\nb ::= \"x\" a |\nroot ::= a", {"", "xx"}, {"y"}},
      // From llama.cpp's documentation.
      {R"gbnf(root  ::= (expr "=" term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= num | "(" expr ")"
num   ::= [0-9]+
)gbnf",
       {"1=1\n", "(1+2)*3=9\n2=2\n"},
       {"1=1", "=\n"}},
  };
  for (const EbnfCase& c : cases) {
    const absl::StatusOr<Grammar> grammar = BuildEbnf(c.source);
    ASSERT_TRUE(grammar.ok()) << c.source << ": " << grammar.status();
    for (const std::string& text : c.fits) {
      EXPECT_TRUE(Fits(*grammar, text)) << c.source << "\n" << text;
    }
    for (const std::string& text : c.others) {
      EXPECT_FALSE(Fits(*grammar, text)) << c.source << "\n" << text;
    }
  }
}

TEST(EbnfTest, Errors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the grammar has no rule named root"},
      {"a ::= \"a\"", "the grammar has no rule named root"},
      {"root ::= a \"b\"\n", "line 1, column 10: the rule a is not defined"},
      {"root ::= \"é\" b\n", "line 1, column 14: the rule b is not defined"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule root is defined twice"},
      {"root = \"a\"", "line 1, column 6: expected ::=, found '='"},
      {"root", "line 1, column 5: expected ::=, found the end"},
      {"root\n::= \"a\"", "line 1, column 5: expected ::=, found the end of the line"},
      {"\n  | \"a\"", "line 2, column 3: expected a rule's name, found '|'"},
      {"root ::= \"a\n\"", "line 1, column 10: there is no closing '\"' in this line"},
      {"root ::= [a\n", "line 1, column 10: there is no ']' in this line"},
      {"root ::= []", "line 1, column 10: the class is empty"},
      {"root ::= [b-a]", "line 1, column 11: the range is in the wrong order"},
      {"root ::= \"\\q\"", "line 1, column 11: this escape is not supported"},
      {"root ::= \"\\x4g\"", "line 1, column 11: the escape needs 2 hexadecimal digits"},
      {"root ::= \"\\uD800\"", "line 1, column 11: this is no character"},
      {"root ::= \"\\U00110000\"", "line 1, column 11: this is no character"},
      {"root ::= \"\\", "line 1, column 11: a backslash at the end of the line"},
      {"root ::= (\"a\"", "line 1, column 14: expected an item or ')', found the end"},
      {"root ::= \"a\" )", "line 1, column 14: unexpected ')'"},
      {"root ::= *", "line 1, column 10: unexpected '*'"},
      {"root ::= \"a\"**", "line 1, column 14: an item is repeated twice; use a group"},
      {"root ::= \"a\"{,2}", "line 1, column 13: a count is {m}, {m,} or {m,n}"},
      {"root ::= \"a\"{2", "line 1, column 13: a count is {m}, {m,} or {m,n}"},
      {"root ::= \"a\"{3,2}", "line 1, column 13: the counts are in the wrong order"},
      {"root ::= \"a\"{10001}", "line 1, column 14: a count exceeds 10000"},
      {"root ::= \"a\" b ::= \"c\"", "line 1, column 14: unexpected 'b'"},
      {"root ::= <[1]>", "line 1, column 10: unexpected '<'"},
      {"root ::= root \"a\"", "no text fits the grammar"},
      {"root ::= \"a\xff\"", "at byte 11: this is no UTF-8"},
  };
  for (const auto& [source, error] : cases) EXPECT_EQ(ErrorOfEbnf(source), error) << source;
}

TEST(EbnfTest, Limits) {
  const auto nested = [](size_t levels) {
    return "root ::= " + std::string(levels, '(') + "\"a\"" + std::string(levels, ')');
  };
  EXPECT_EQ(ErrorOfEbnf(nested(100)), "");
  EXPECT_EQ(ErrorOfEbnf(nested(101)),
            "line 1, column 110: groups are nested deeper than 100 levels");
  EXPECT_EQ(ErrorOfEbnf("root ::= " + std::string(1 << 20, '(')),
            "the grammar has 1048585 bytes, more than 1048576");
  EXPECT_EQ(ErrorOfEbnf("root ::= " + std::string(1 << 19, '(')),
            "line 1, column 110: groups are nested deeper than 100 levels");
  std::string chain = "root ::= r1\n";
  for (int i = 1; i < 15'000; ++i) absl::StrAppend(&chain, "r", i, " ::= \"a\"? r", i + 1, "\n");
  EXPECT_EQ(ErrorOfEbnf(chain + "r15000 ::= \"b\""), "");
  std::string many = "root ::= \"a\"";
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&many, " r", i);
  EXPECT_EQ(ErrorOfEbnf(many), "line 1, column 128897: the grammar has more than 20000 rules");
}

}  // namespace
}  // namespace longstream
