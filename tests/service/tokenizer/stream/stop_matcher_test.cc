// Stop strings across pieces of text, compared with a search of the whole text.
#include "service/tokenizer/stream/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/service/tokenizer/stream/matcher_of.h"

namespace longstream {
namespace {

// The text that each piece releases, as "text|text|". If a stop string is found, the trace ends
// with "#index".
std::string Trace(const std::vector<std::string>& stop_strings,
                  const std::vector<std::string_view>& pieces) {
  StopMatcher matcher = MatcherOf(stop_strings);
  std::string trace;
  for (const std::string_view piece : pieces) {
    const std::optional<size_t> found = matcher.Push(piece, &trace);
    if (found) return trace + "#" + std::to_string(*found);
    trace += "|";
  }
  matcher.Flush(&trace);
  return trace;
}

// Cases that AgreesWithASearchOfTheWholeText does not draw.
TEST(StopMatcher, ReleasesTextAsSoonAsItIsDecided) {
  const struct {
    const char* shows;
    std::vector<std::string> stop_strings;
    std::vector<std::string_view> pieces;
    const char* trace;
  } cases[] = {
      {"nothing is held back without stop strings", {}, {"a", "bc"}, "a|bc|"},
      {"it is the first byte", {"a"}, {"abc"}, "#0"},
      {"it lies across three pieces", {"<stop>"}, {"text <s", "to", "p> more"}, "text ||#0"},
      {"a failed candidate is released", {"<stop>"}, {"a<st", "ep>b"}, "a|<step>b|"},
      {"a candidate is released at the end", {"<stop>"}, {"a<st"}, "a|<st"},
      {"it repeats its beginning", {"\n\nUser"}, {"\n\n", "\n", "\nUs", "er"}, "|\n|\n|#0"},
      {"the first in the text counts", {"x", "y"}, {"ay", "x"}, "a#1"},
      {"the first of two equal ones counts", {"same", "same"}, {"a same"}, "a #0"},
      {"it is of other letters", {"終わり"}, {"これで終", "わ", "り。"}, "これで||#0"},
      // The first two bytes of these characters agree.
      {"no half of a character is released", {"\u3042"}, {"\u3041", "\u3042"}, "\u3041|#0"},
      {"it is of characters beyond U+FFFF", {"🛑🛑"}, {"a🛑", "b🛑", "🛑"}, "a|🛑b|#0"},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(Trace(row.stop_strings, row.pieces), row.trace) << row.shows;
  }
}

TEST(StopMatcher, StartsAnewAfterAFlush) {
  StopMatcher matcher = MatcherOf({"stop"});
  std::string text;
  EXPECT_EQ(matcher.Push("st", &text), std::nullopt);
  matcher.Flush(&text);
  EXPECT_EQ(matcher.Push("op stop", &text), 0u);
  EXPECT_EQ(text, "stop ");
}

TEST(StopMatcher, RefusesWhatCannotBeFound) {
  EXPECT_EQ(StopMatcher::Create({"a", ""}).status().message(), "stop string 1 is empty");
  EXPECT_EQ(StopMatcher::Create({"ab\xFF"}).status().message(),
            "stop string 0 is not UTF-8 at byte 2");
}

// The definition: finds the occurrence that ends first, and of several that end there the longest
// stop string.
struct Occurrence {
  size_t begin;
  size_t index;
};
std::optional<Occurrence> Search(const std::vector<std::string>& stop_strings,
                                 const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<Occurrence> found;
    for (size_t i = 0; i < stop_strings.size(); ++i) {
      const std::string& stop = stop_strings[i];
      if (stop.size() > end || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (!found || end - stop.size() < found->begin) found = {end - stop.size(), i};
    }
    if (found) return found;
  }
  return std::nullopt;
}

// The number of bytes at the end of the text that may begin a stop string.
size_t Undecided(const std::vector<std::string>& stop_strings, std::string_view text) {
  size_t longest = 0;
  for (const std::string& stop : stop_strings) {
    for (size_t length = std::min(stop.size() - 1, text.size()); length > longest; --length) {
      if (text.ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeText) {
  std::mt19937 random(7);
  const auto draw = [&](size_t low, size_t high) {
    return std::uniform_int_distribution<size_t>(low, high)(random);
  };
  const auto draw_text = [&](size_t length) {
    std::string text;
    while (text.size() < length) text += static_cast<char>('a' + draw(0, 1));
    return text;
  };
  int stopped = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::string> stop_strings(draw(1, 3));
    for (std::string& stop : stop_strings) stop = draw_text(draw(2, 9));
    const std::string text = draw_text(40);
    const std::optional<Occurrence> expected = Search(stop_strings, text);

    StopMatcher matcher = MatcherOf(stop_strings);
    std::string out;
    std::optional<size_t> found;
    for (size_t at = 0; at < text.size() && !found;) {
      const size_t length = std::min(draw(0, 5), text.size() - at);
      found = matcher.Push(std::string_view(text).substr(at, length), &out);
      at += length;
      if (found) continue;
      const std::string_view seen = std::string_view(text).substr(0, at);
      ASSERT_EQ(out, seen.substr(0, at - Undecided(stop_strings, seen)))
          << "should release everything but the undecided bytes";
    }
    ASSERT_EQ(found.has_value(), expected.has_value()) << text;
    if (found) {
      ++stopped;
      ASSERT_EQ(*found, expected->index) << text;
      ASSERT_EQ(out, text.substr(0, expected->begin));
    } else {
      matcher.Flush(&out);
      ASSERT_EQ(out, text);
    }
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 2900);
}

}  // namespace
}  // namespace longstream
