// Regular expressions: tables, errors, and random patterns compared with PCRE2.
#include "service/grammar/formats/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/grammar/formats/json_text.h"
#include "service/tokenizer/text/utf8.h"
#include "tests/service/grammar/formats/grammar_texts.h"
#include "tests/service/grammar/formats/pcre.h"

namespace longstream {
namespace {

absl::StatusOr<Grammar> BuildRegex(const std::string& pattern, const RegexUse& use = {}) {
  return BuildFormat([&](GrammarBuilder& builder) { return AddRegex(builder, pattern, use); });
}

std::string ErrorOfRegex(const std::string& pattern, const RegexUse& use = {}) {
  return ErrorOf([&](GrammarBuilder& builder) { return AddRegex(builder, pattern, use); });
}

struct RegexCase {
  std::string pattern;
  std::vector<std::string> fits;
  std::vector<std::string> others;
};

void CheckCases(const std::vector<RegexCase>& cases, const RegexUse& use = {}) {
  for (const RegexCase& c : cases) {
    const absl::StatusOr<Grammar> grammar = BuildRegex(c.pattern, use);
    ASSERT_TRUE(grammar.ok()) << c.pattern << ": " << grammar.status();
    for (const std::string& text : c.fits) EXPECT_TRUE(Fits(*grammar, text)) << c.pattern << text;
    for (const std::string& text : c.others) {
      EXPECT_FALSE(Fits(*grammar, text)) << c.pattern << " " << text;
    }
  }
}

TEST(RegexTest, WholeStrings) {
  const std::string nul(1, '\0');
  CheckCases({
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"ab", "abcd", ""}},
      {"a|bc|", {"a", "bc", ""}, {"ab"}},
      {"(a|b)c", {"ac", "bc"}, {"abc", "a"}},
      {"(?:a)(?<x>b)(?P<Y_1>c)", {"abc"}, {"a"}},
      {"a*b+c?", {"b", "aabb", "abc"}, {"a", "bcc"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaa"}, {"a"}},
      {"a{0,2}b", {"b", "ab", "aab"}, {"aaab"}},
      {"(ab){2,3}?", {"abab", "ababab"}, {"ab"}},
      {"a*?b+?c??", {"b", "aabbc"}, {"a"}},
      {"a{", {"a{"}, {"a"}},
      {"{x}]", {"{x}]"}, {"x"}},
      {"a{,}", {"a{,}"}, {}},
      {".", {"a", "é", "😀", "\t"}, {"\n", "\r", "\u2028", "\u2029", "", "ab"}},
      {"[a-cx]", {"a", "b", "c", "x"}, {"d", "-"}},
      {"[^a-c]", {"d", "é", "\n"}, {"a", ""}},
      {"[a-]", {"a", "-"}, {"b"}},
      {"[-a]", {"a", "-"}, {"b"}},
      {"[\\d-x]", {"1", "-", "x"}, {"a"}},
      {"[a-\\d]", {"1", "-", "a"}, {"b"}},
      {"[\\]\\\\^]", {"]", "\\", "^"}, {"a"}},
      {"[é-ü😀]", {"é", "ü", "ö", "😀"}, {"e", "ý"}},
      {"[\\b]", {"\b"}, {"b"}},
      {"\\d\\D", {"1a", "1é"}, {"11", "a1"}},
      {"\\w\\W", {"a-", "_é", "9 "}, {"aa", "--"}},
      {"\\s\\S", {" a", "\u00a0a", "\u3000-", "\n1", "\ufeffx"}, {"  ", "aa"}},
      {"[\\D\\d]", {"1", "a", "é"}, {""}},
      {"\\n\\r\\t\\f\\v\\0", {"\n\r\t\f\v" + nul}, {}},
      {"\\cA\\cz", {"\x01\x1a"}, {}},
      {"\\x41\\x{e9}\\u00E9\\u{1F600}\\uD83D\\uDE00", {"Aéé😀😀"}, {}},
      {"\\.\\/\\-\\{\\}\\[\\]\\(\\)\\*\\+\\?\\^\\$\\|\\\\\\ ", {"./-{}[]()*+?^$|\\ "}, {}},
      {"\\p{Lu}\\p{L}\\pN\\P{L}", {"Äß1-", "ΩΩ²1"}, {"aa1-", "Äß1a"}},
      {"[\\p{Nd}_]+", {"1_٣"}, {"a"}},
      {"^a$", {"a"}, {"^a$"}},
      {"^a|b$|^$", {"a", "b", ""}, {"ab"}},
      {"^^a$$", {"a"}, {}},
      {"(^a|^b)(c$|d)", {"ac", "bd"}, {"a"}},
      {"((^))a", {"a"}, {"b"}},
      {"(a|)(|b)", {"", "a", "b", "ab"}, {"ba"}},
      {"(a*)*b", {"b", "aab"}, {"a"}},
      {"(a?){3}", {"", "a", "aaa"}, {"aaaa"}},
      {"(?:a|é|😀){2,3}", {"aé", "😀😀😀"}, {"a"}},
  });
}

TEST(RegexTest, SearchedStrings) {
  RegexUse use;
  use.is_search = true;
  CheckCases({{"", {"", "a", "é\n"}, {}},
              {"a", {"a", "bab", "\na😀"}, {"", "b"}},
              {"^a", {"a", "ab"}, {"ba", ""}},
              {"a$", {"a", "ba"}, {"ab", ""}},
              {"^a$", {"a"}, {"ab", "ba"}},
              {"^a|b$", {"ax", "xb"}, {"xa", "bx"}},
              {"^(a|b$)", {"ax", "b"}, {"xa", "bx"}},
              {"(^a|b)(c|d$)", {"acx", "xbcx", "ad", "xbd"}, {"xacx", "adx", "xbdx"}},
              {"^", {"", "a"}, {}},
              {"$", {"", "a"}, {}},
              {"^$", {""}, {"a"}},
              {"(^)", {"", "a"}, {}},
              {"^(?:)$", {""}, {"a"}},
              {"a*", {"", "b"}, {}},
              {"[\\w-]{2}", {"ab", ".a-."}, {"a.b", "a"}}},
             use);
}

TEST(RegexTest, StringsOfJson) {
  RegexUse use;
  GrammarBuilder builder;
  JsonText json(builder);
  use.character = [&json](absl::Span<const CodePoints> set) { return json.Character(set); };
  const auto fits = [&](const std::string& pattern, bool is_search, const std::string& text) {
    use.is_search = is_search;
    const auto strings = AddRegex(builder, pattern, use);
    EXPECT_TRUE(strings.ok()) << strings.status();
    const GrammarBuilder::Rule start = builder.Declare();
    builder.Define(start, *strings);
    return Fits(*builder.Build(start), text);
  };
  EXPECT_TRUE(fits(R"(["\\\n/])", false, R"(\")"));
  EXPECT_TRUE(fits(R"(["\\\n/])", false, R"(\\)"));
  EXPECT_TRUE(fits(R"(["\\\n/])", false, R"(\n)"));
  EXPECT_TRUE(fits(R"(["\\\n/])", false, "/"));
  EXPECT_FALSE(fits(R"(["\\\n/])", false, "\n"));
  EXPECT_FALSE(fits(R"(["\\\n/])", false, "\""));
  EXPECT_FALSE(fits(R"(["\\\n/])", false, R"(\/)"));
  EXPECT_TRUE(fits("[^a]", false, R"(\u0000)"));
  EXPECT_TRUE(fits("[^a]", false, R"(\u001f)"));
  EXPECT_TRUE(fits("[^a]", false, "\x7f"));
  EXPECT_FALSE(fits("[^a]", false, R"(\u000a)")) << "it is written as \\n";
  EXPECT_FALSE(fits("[^a]", false, R"(\u0061)"));
  EXPECT_FALSE(fits("[^a]", false, R"(\a)"));
  EXPECT_TRUE(fits("[^\\n]", false, R"(\t)"));
  EXPECT_FALSE(fits("[^\\n]", false, R"(\n)"));
  EXPECT_TRUE(fits("b{20}", true, R"(\"bbbbbbbbbbbbbbbbbbbb\\)"));
  EXPECT_TRUE(fits("\\s{20}", true, R"(\t\t\t\t\t\t\t\t\t\t          x)"));
}

TEST(RegexTest, LimitedLengths) {
  RegexUse use;
  use.is_search = true;
  use.least_length = 2;
  use.most_length = 4;
  CheckCases({{"^[a-z]+$", {"ab", "abcd"}, {"a", "abcde", ""}},
              {"^[a-z]*$", {"ab", "abcd"}, {"", "a", "abcde"}},
              {"^[a-z][a-z0-9]*$", {"a1", "a123"}, {"a", "a1234", "11"}},
              {"^a", {"ab", "aééé"}, {"a", "abcde", "ba"}},
              {"^(abc|a|[xy]*)$", {"abc", "xy", "yyyy"}, {"a", "x", "xyxyx"}},
              {"^(?:a(?:b)c{0,1})$", {"ab", "abc"}, {}},
              {"^\\d{3}$", {"123"}, {"12"}},
              {"", {"ab", "é😀", "abcd"}, {"a", "abcde"}}},
             use);
  EXPECT_EQ(ErrorOfRegex("^a{5,}$", use),
            "no string that matches the pattern has an allowed length");
  EXPECT_EQ(ErrorOfRegex("^(a|b)$", use),
            "no string that matches the pattern has an allowed length");
  const char* const limited =
      "the lengths of the strings are limited, which is not supported with this pattern";
  EXPECT_EQ(ErrorOfRegex("a", use), limited) << "two lengths vary";
  EXPECT_EQ(ErrorOfRegex("^(ab)*$", use), limited);
  EXPECT_EQ(ErrorOfRegex("^a*b*$", use), limited);
}

TEST(RegexTest, Errors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(b", "at byte 1: '(' without ')'"},
      {"ab)", "at byte 2: ')' without '('"},
      {"a[bc", "at byte 1: '[' without ']'"},
      {"[]", "at byte 0: a class may not be empty, and ']' in a class needs a backslash"},
      {"[^]", "at byte 0: a class may not be empty, and ']' in a class needs a backslash"},
      {"[[:alpha:]]", "at byte 1: classes such as [:alpha:] are not supported"},
      {"[z-a]", "at byte 1: the range is in the wrong order"},
      {"*a", "at byte 0: there is nothing to repeat"},
      {"a|+", "at byte 2: there is nothing to repeat"},
      {"a**", "at byte 2: there is nothing to repeat"},
      {"a{2}{3}", "at byte 4: there is nothing to repeat"},
      {"{2}", "at byte 0: there is nothing to repeat"},
      {"a++", "at byte 2: possessive repetition is not supported"},
      {"a{3,2}", "at byte 1: the counts are in the wrong order"},
      {"a{,2}", "at byte 1: write {0,n} instead of {,n}"},
      {"a{10001}", "at byte 1: a count exceeds 10000"},
      {"a{1,99999999999999999999}", "at byte 1: a count exceeds 10000"},
      {"^*", "at byte 1: ^ and $ cannot be repeated"},
      {"a^", "at byte 1: ^ is only supported at the begin of the pattern"},
      {"$a", "at byte 0: $ is only supported at the end of the pattern"},
      {"(a^)b", "at byte 2: ^ is only supported at the begin of the pattern"},
      {"(^a)*", "at byte 1: ^ is only supported at the begin of the pattern"},
      {"(?=a)", "at byte 0: lookahead is not supported"},
      {"(?!a)", "at byte 0: lookahead is not supported"},
      {"(?<=a)", "at byte 0: lookbehind is not supported"},
      {"(?<!a)", "at byte 0: lookbehind is not supported"},
      {"(?i)a", "at byte 0: this kind of group is not supported"},
      {"(?>a)", "at byte 0: this kind of group is not supported"},
      {"(?<1>a)", "at byte 0: the group's name has characters other than A-Z a-z 0-9 _"},
      {"(?<>a)", "at byte 0: the group's name is wrong"},
      {"(?<a", "at byte 0: the group's name is wrong"},
      {"(a)\\1", "at byte 3: back-references are not supported"},
      {"\\k<a>", "at byte 0: back-references are not supported"},
      {"a\\b", "at byte 1: the boundary \\b is not supported"},
      {"\\B", "at byte 0: the boundary \\B is not supported"},
      {"[\\B]", "at byte 1: the boundary \\B is not supported"},
      {"\\A", "at byte 0: the escape \\A is not supported"},
      {"\\Q", "at byte 0: the escape \\Q is not supported"},
      {"\\", "at byte 0: a backslash at the end"},
      {"\\x4", "at byte 0: the escape needs 2 hexadecimal digits"},
      {"\\u12", "at byte 0: the escape needs 4 hexadecimal digits"},
      {"\\u{}", "at byte 0: the escape needs hexadecimal digits in braces"},
      {"\\u{110000}", "at byte 0: the code point exceeds 10FFFF"},
      {"\\uD800", "at byte 0: half of a surrogate pair is no character"},
      {"\\uD800\\u0041", "at byte 0: half of a surrogate pair is no character"},
      {"[\\uDC00]", "at byte 1: half of a surrogate pair is no character"},
      {"\\01", "at byte 0: octal escapes are not supported"},
      {"\\c1", "at byte 0: \\c needs a letter"},
      {"\\p{Greek}",
       "at byte 0: the property 'Greek' is not supported, only general categories such as L and "
       "Nd"},
      {"\\p{L", "at byte 0: '{' without '}'"},
      {"é\xff", "at byte 2: this is no UTF-8"},
      {"[^\\s\\S]", "no text fits the grammar"},
  };
  for (const auto& [pattern, error] : cases) EXPECT_EQ(ErrorOfRegex(pattern), error) << pattern;
}

TEST(RegexTest, Limits) {
  const std::string deep = std::string(100, '(') + "a" + std::string(100, ')');
  EXPECT_EQ(ErrorOfRegex(deep), "");
  EXPECT_EQ(ErrorOfRegex("(" + deep + ")"),
            "at byte 101: groups are nested deeper than 100 levels");
  EXPECT_EQ(ErrorOfRegex(std::string(1 << 20, '(')),
            "the regular expression has 1048576 bytes, more than 65536");
  EXPECT_EQ(ErrorOfRegex(std::string(60'000, 'a')), "");
  EXPECT_EQ(ErrorOfRegex("((a{1000}){1000}){1000}"),
            "the grammar is too large: it needs more than 400000 states (counted repetitions of "
            "long parts take the most)");
  EXPECT_EQ(ErrorOfRegex("\\p{L}{0,10000}"), "");
  EXPECT_EQ(ErrorOfRegex("[ab]*a[ab]{1000}"),
            "the grammar is too large: it needs more than 100000 nodes (counted repetitions of "
            "long parts take the most)");
}

class PatternMaker {
 public:
  explicit PatternMaker(Random& random) : random_(random) {}

  std::string Make(int depth) {
    std::string pattern = Branch(depth);
    while (Draw(random_, 3) == 0) pattern += "|" + Branch(depth);
    return pattern;
  }

 private:
  std::string Branch(int depth) {
    std::string branch = Draw(random_, 4) == 0 ? "^" : "";
    for (size_t n = Draw(random_, 4); n > 0; --n) branch += Item(depth);
    return branch + (Draw(random_, 4) == 0 ? "$" : "");
  }

  std::string Item(int depth) {
    constexpr const char* kAtoms[] = {"a",      "b",      "c",       "-",      "é",     "€",
                                      "😀",      ".",      "[ab]",    "[^a]",   "\\d",   "\\w",
                                      "\\W",    "[a-c-]", "[^é-€]",  "[\\db]", "\\x61", "\\u00e9",
                                      "[\\W_]", "\\D",    "\\u{62}", "[😀-😂]",  "\\.",   "\\n"};
    constexpr const char* kRepeats[] = {"*", "+", "?", "{2}", "{1,}", "{0,2}", "{2,3}", "*?", "+?"};
    std::string item;
    if (depth > 0 && Draw(random_, 3) == 0) {
      item = (Draw(random_, 2) == 0 ? "(" : "(?:") + Make(depth - 1) + ")";
    } else {
      item = kAtoms[Draw(random_, std::size(kAtoms))];
    }
    return Draw(random_, 3) == 0 ? item + kRepeats[Draw(random_, std::size(kRepeats))] : item;
  }

  Random& random_;
};

std::string RandomString(Random& random) {
  constexpr const char* kCharacters[] = {"a", "b", "c", "d", "-", "é", "€", "😀", "1", "\n", "."};
  std::string text;
  for (size_t n = Draw(random, 7); n > 0; --n) {
    text += kCharacters[Draw(random, std::size(kCharacters))];
  }
  return text;
}

TEST(RegexTest, RandomPatternsMatchAsWithPcre2) {
  Random random(1);
  int compiled = 0, matched = 0, compared = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const std::string pattern = PatternMaker(random).Make(2);
    RegexUse use;
    use.is_search = Draw(random, 2) == 0;
    const absl::StatusOr<Grammar> grammar = BuildRegex(pattern, use);
    const Pcre pcre(pattern);
    ASSERT_TRUE(pcre.ok()) << pattern;
    if (!grammar.ok()) {
      ASSERT_TRUE(grammar.status().message().find("only supported at the") !=
                  std::string_view::npos)
          << pattern << ": " << grammar.status();
      continue;
    }
    ++compiled;
    const auto is_match = [&](std::string_view text) {
      return use.is_search ? pcre.MatchesPart(text) : pcre.MatchesWhole(text);
    };
    const GrammarWalker walker(*grammar);
    for (int i = 0; i < 20; ++i) {
      const std::string walk = walker.Walk(random, Draw(random, 20));
      ASSERT_EQ(ValidUtf8Prefix(walk), walk.size());
      // PCRE2's white space and line ends are fewer.
      ASSERT_TRUE(is_match(walk)) << pattern << " " << use.is_search << " " << walk;
      ASSERT_TRUE(Fits(*grammar, walk));
      const std::string text = i % 2 == 0 ? RandomString(random) : Mutated(random, walk);
      if (ValidUtf8Prefix(text) < text.size()) {
        ASSERT_FALSE(Fits(*grammar, text)) << pattern;
        continue;
      }
      ++compared;
      const bool expected = is_match(text);
      matched += expected ? 1 : 0;
      ASSERT_EQ(Fits(*grammar, text), expected) << pattern << " " << use.is_search << " " << text;
    }
  }
  EXPECT_GT(compiled, 2000);
  EXPECT_GT(matched, compared / 10);
  EXPECT_LT(matched, compared * 9 / 10);
}

}  // namespace
}  // namespace longstream
