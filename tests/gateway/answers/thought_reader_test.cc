// The text of a model, split into thoughts and the answer, however it arrives.
#include "gateway/answers/thought_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gateway/answers/reply_reader.h"

namespace longstream::gateway {
namespace {

v1::Thoughts Marks(bool begun) {
  v1::Thoughts marks;
  marks.set_begin("<think>");
  marks.set_end("</think>");
  marks.set_begun(begun);
  return marks;
}

struct ThoughtCase {
  std::string written;
  std::string thoughts;
  std::string text;
  bool begun = false;  // the prompt has begun the thoughts
};

const std::vector<ThoughtCase>& ThoughtCases() {
  static const auto* const cases = new std::vector<ThoughtCase>{
      {"", "", ""},
      {"Hello.", "", "Hello."},
      {"  Hello. \n", "", "  Hello. \n"},
      {"<think>\nWell,  so.\n</think>\n\nHello. ", "Well,  so.", "Hello. "},
      {" \n<think>a</think>b", "a", "b"},
      {"<think>\n\n</think>\n\nHello.", "", "Hello."},
      {"<think></think>", "", ""},
      {"<think>a <think> b </thin> c</think>d", "a <think> b </thin> c", "d"},
      // Only the first thoughts are some.
      {"<think>a</think>b<think>c</think>d", "a", "b<think>c</think>d"},
      {"b<think>c</think>", "", "b<think>c</think>"},
      {"a </think> b", "", "a </think> b"},
      // The text ends in the middle.
      {"<thin", "", "<thin"},
      {" \n", "", " \n"},
      {"<think>\nWell, ", "Well,", ""},
      {"<think>Well</thin", "Well</thin", ""},
      {"<think>", "", ""},
      {"Well\n</think>\n\nHello.", "Well", "Hello.", true},
      {"</think>Hello.", "", "Hello.", true},
      {" Well, ", "Well,", "", true},
      {"", "", "", true},
      {"\n\xc3\xbc\xc3\xa4 </think>\xc3\xb6", "\xc3\xbc\xc3\xa4", "\xc3\xb6", true},
  };
  return *cases;
}

// Adds the text in pieces of these sizes, the last one again and again.
void Check(const ThoughtCase& one, const std::vector<size_t>& sizes) {
  ThoughtReader reader;
  reader.Begin(Marks(one.begun));
  ThoughtReader::Piece all;
  const auto take = [&all](const ThoughtReader::Piece& piece) {
    EXPECT_TRUE(all.text.empty() || piece.thoughts.empty()) << "thoughts behind the text";
    all.thoughts += piece.thoughts;
    all.text += piece.text;
  };
  size_t at = 0;
  for (size_t i = 0; at < one.written.size(); ++i) {
    const size_t size = sizes[std::min(i, sizes.size() - 1)];
    take(reader.Add(std::string_view(one.written).substr(at, size)));
    at += size;
  }
  take(reader.End());
  EXPECT_EQ(all.thoughts, one.thoughts) << one.written;
  EXPECT_EQ(all.text, one.text) << one.written;
}

TEST(ThoughtReaderTest, InOnePieceOrManyOrTwo) {
  for (const ThoughtCase& one : ThoughtCases()) {
    Check(one, {1});
    Check(one, {3});
    for (size_t first = 0; first <= one.written.size(); ++first) {
      Check(one, {std::max<size_t>(first, 1), std::max<size_t>(one.written.size(), 1)});
    }
  }
}

TEST(ThoughtReaderTest, WithoutMarksAllIsText) {
  ThoughtReader reader;
  EXPECT_EQ(reader.Add("<think>a</think>b").text, "<think>a</think>b");
  ThoughtReader unmarked;
  unmarked.Begin({});
  EXPECT_EQ(unmarked.Add("<think>a</think>b").text, "<think>a</think>b");
  EXPECT_FALSE(unmarked.in_thoughts());
}

TEST(ThoughtReaderTest, ThoughtsComeAtOnce) {
  ThoughtReader reader;
  reader.Begin(Marks(false));
  EXPECT_EQ(reader.Add("<think>Well").thoughts, "Well");
  EXPECT_TRUE(reader.in_thoughts());
  EXPECT_EQ(reader.Add(", ").thoughts, ",");
  EXPECT_EQ(reader.Add("so <").thoughts, " so");
  EXPECT_EQ(reader.Add("/think> Hello").text, "Hello");
  EXPECT_FALSE(reader.in_thoughts());
  EXPECT_EQ(reader.Add(" you").text, " you");
}

// Calls are looked for behind the thoughts only.
TEST(ThoughtReaderTest, CallsBehindThoughts) {
  const std::string call = "{\"name\": \"f\", \"arguments\": {}}";
  const std::string block = "<tool_call>" + call + "</tool_call>";
  for (const std::string& written : {call, block}) {
    ReplyReader reader(/*with_calls=*/true);
    reader.SeparateThoughts(Marks(false));
    const std::string text = "<think>\n" + block + " I call f.</think>\n\n" + written;
    for (const char c : text) reader.Add(std::string_view(&c, 1));
    reader.End();
    EXPECT_EQ(reader.reply().thoughts, block + " I call f.");
    EXPECT_EQ(reader.reply().text, "");
    ASSERT_EQ(reader.reply().calls.size(), 1u) << written;
    EXPECT_EQ(reader.reply().calls[0].name, "f");
  }
}

}  // namespace
}  // namespace longstream::gateway
