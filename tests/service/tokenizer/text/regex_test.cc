// Patterns: what is rewritten for PCRE2, what is refused, and which limits become errors.
#include "service/tokenizer/text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {
namespace {

using testing::HasSubstr;

// All matches of a pattern, separated by "|". An error is returned as its text.
std::string Matches(const absl::StatusOr<Regex>& regex, std::string_view text) {
  if (!regex.ok()) return std::string(regex.status().message());
  std::string matches;
  Regex::Match match;
  for (size_t at = 0; at < text.size(); at = match.end) {
    const absl::StatusOr<bool> found = regex->Find(text, at, &match);
    if (!found.ok()) return std::string(found.status().message());
    if (!*found) break;
    matches += std::string(text.substr(match.begin, match.end - match.begin)) + "|";
  }
  return matches;
}

TEST(Regex, RewritesWhatPcre2ReadsInAnotherWay) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(\s+(?!\S))", R"(\p{White_Space}+(?!\P{White_Space}))"},
      {R"([^\s\p{L}]\d)", R"([^\p{White_Space}\p{L}]\p{Nd})"},
      {R"(\p{^Lu}\P{L})", R"(\P{Lu}\P{L})"},
      {R"(\p{Han}\P{^Greek})", R"(\p{sc:Han}\p{sc:Greek})"},
      {R"(\u00e9\x{1F600})", R"(\x{00e9}\x{1F600})"},
      {R"([\[\]\-\\/]\.\n)", R"([\[\]\-\\/]\.\n)"},
      {R"((?i:'s|'t)|(a)(?=b)(?<!c)(?>d){1,3}e{2,})",
       R"((?i:'s|'t)|(a)(?=b)(?<!c)(?>d){1,3}e{2,})"},
      {R"(a$|\Ab|\Gc\z)", R"(a(?m:$)|\Ab|\Gc\z)"},
      {R"([^(\s|[.,\d])]x)", R"([^(\p{White_Space}|.,\p{Nd})]x)"},
      {R"([[a-c][de]f])", "[a-cdef]"},
      {"a{3}+", "(?:a{3})+"},
      {R"(x\p{Nd}{3}+\z)", R"(x(?:\p{Nd}{3})+\z)"},
      {"x[ab]{2}+(?:cé{1,2}+){4}+", "x(?:[ab]{2})+(?:(?:c(?:é{1,2})+){4})+"},
  };
  for (const auto& [pattern, expected] : cases) {
    const auto translated = OnigurumaToPcre2(pattern);
    ASSERT_TRUE(translated.ok()) << translated.status();
    EXPECT_EQ(*translated, expected);
    EXPECT_TRUE(Regex::Compile(pattern).ok()) << Regex::Compile(pattern).status();
  }
}

TEST(Regex, RefusesByNameWhatItCannotRewrite) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"^a", "the anchor ^ at byte 0"},
      {R"(a\w)", R"(the escape \w at byte 1)"},
      {R"(\bx)", R"(the escape \b at byte 0)"},
      {R"((a)\1)", R"(the escape \1 at byte 3)"},
      {R"(\x41)", R"(\x without braces)"},
      {R"(\x{})", R"(a malformed \u or \x)"},
      {R"(\u12)", R"(a malformed \u or \x)"},
      {R"(\pL)", R"(\p without braces)"},
      {R"(\p{L)", R"(\p without braces)"},
      {R"(\p{L-u})", "a malformed property name"},
      {"[a[^b]]", "[^ within a class at byte 2"},
      {"[[:alpha:]]", "[: within a class"},
      {"[a-[bc]]", "- before a class within a class"},
      {"[[ab]-c]", "- at the end of a class within a class"},
      {"[[a-]b]", "- at the end of a class within a class"},
      {"[a[-b]]", "[- within a class"},
      {"a)", "a ) without ("},
      {"[a&&b]", "an intersection of classes"},
      {"[]a]", "] as the first member of a class"},
      {"[a", "a class without ]"},
      {"(?i)a", "the group (?i)"},
      {"(?<name>a)", "the group (?<n"},
      {"(*FAIL)", "the group (*FA"},
      {"a{,3}", "{ that is not {n}, {n,} or {n,m}"},
      {"a{", "{ that is not {n}, {n,} or {n,m}"},
      {"a{2}?", "? after {n}"},
      {"a\\", "a \\ at its end"},
  };
  for (const auto& [pattern, construct] : cases) {
    const auto regex = Regex::Compile(pattern);
    EXPECT_EQ(regex.status().code(), absl::StatusCode::kUnimplemented) << pattern;
    EXPECT_THAT(regex.status().message(),
                HasSubstr("the pattern \"" + pattern + "\" uses " + construct));
  }
}

TEST(Regex, RefusesWhatPcre2Refuses) {
  EXPECT_THAT(Matches(Regex::Compile("a(b"), "ab"), HasSubstr("missing closing parenthesis"));
  EXPECT_THAT(Matches(Regex::Compile(R"(\p{Klingon})"), "ab"), HasSubstr("\\p{sc:Klingon}"));
  EXPECT_THAT(Matches(Regex::Compile("(?<=a+)b"), "ab"), HasSubstr("lookbehind"));
}

TEST(Regex, RefusesEmptyMatches) {
  EXPECT_THAT(Matches(Regex::Compile("a*"), "b"), HasSubstr("may match the empty string"));
  EXPECT_THAT(Matches(Regex::Compile("a|(?=b)"), "b"), HasSubstr("may match the empty string"));
  EXPECT_THAT(Matches(Regex::CompileLiteral(""), "b"), HasSubstr("may match the empty string"));
}

TEST(Regex, TakesWhiteSpaceFromUnicode) {
  const std::string spaces = "\t\v\u0085\u00a0\u1680\u2003\u2028\u3000";
  EXPECT_EQ(Matches(Regex::Compile(R"(\s+)"), "a" + spaces + "b"), spaces + "|");
  // These characters look like white space but are none.
  EXPECT_EQ(Matches(Regex::Compile(R"(\s)"), "\u180e\u200b\ufeff\u001c"), "");
}

TEST(Regex, TakesScriptsNotScriptExtensions) {
  // U+30FC has the script Common. Its script extensions are Hiragana and Katakana.
  EXPECT_EQ(Matches(Regex::Compile(R"(\p{Katakana}+)"), "ア\u30fcア"), "ア|ア|");
}

TEST(Regex, FoldsCaseBeyondAscii) {
  EXPECT_EQ(Matches(Regex::Compile("(?i:'s|'k)"), "'S 'ſ 'K 's"), "'S|'ſ|'K|'s|");
}

TEST(Regex, SeesWhatIsBeforeTheStart) {
  const auto regex = Regex::Compile("(?<=a)b");
  ASSERT_TRUE(regex.ok());
  Regex::Match match;
  ASSERT_TRUE(*regex->Find("ab", 1, &match));
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.end, 2u);
}

TEST(Regex, MatchesLiterally) {
  EXPECT_EQ(Matches(Regex::CompileLiteral(".*"), "a.*b.*"), ".*|.*|");
  EXPECT_EQ(Matches(Regex::CompileLiteral("é"), "éaé"), "é|é|");
}

TEST(Regex, MatchesAcrossZeroBytes) {
  EXPECT_EQ(Matches(Regex::Compile(R"([^\s]+)"), std::string_view("a\0b c", 5)),
            std::string("a\0b|c|", 6));
}

TEST(Regex, TurnsTheMatchLimitIntoAnError) {
  EXPECT_THAT(Matches(Regex::Compile("(?:a+)+[bc]"), std::string(100, 'a')),
              HasSubstr("cannot split a text of 100 bytes: match limit exceeded"));
}

TEST(Regex, TurnsWantOfMemoryIntoAnError) {
  // PCRE2 remembers each repetition of the group, in case the rest of the pattern does not match.
  const auto regex = Regex::Compile("(?:ab|cd|[ef])+g");
  EXPECT_THAT(Matches(regex, std::string(20'000'000, 'e')),
              testing::AnyOf(HasSubstr("no more memory"), HasSubstr("limit exceeded"),
                             HasSubstr("stack limit")));
}

}  // namespace
}  // namespace longstream
