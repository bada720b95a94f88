// The text of a model, split into text and calls of functions, however it arrives.
#include "gateway/answers/reply_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace longstream::gateway {
namespace {

// A call as "name(arguments)".
std::vector<std::string> CallsOf(const Reply& reply) {
  std::vector<std::string> calls;
  for (const ToolCall& call : reply.calls) {
    calls.push_back(call.name + "(" + call.arguments.dump() + ")");
  }
  return calls;
}

struct ReplyCase {
  std::string written;
  std::string text;
  std::vector<std::string> calls;
};

const std::vector<ReplyCase>& ReplyCases() {
  static const auto* const cases = new std::vector<ReplyCase>{
      {"", "", {}},
      {"Hello.", "Hello.", {}},
      {"  spaces \n stay\n", "  spaces \n stay\n", {}},
      {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
       "",
       {"f({\"a\":1})"}},
      {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
       "Let me see.",
       {"f({})"}},
      {"<tool_call>{\"name\": \"f\"}</tool_call>\n<tool_call>\n{\"name\": \"g\", \"parameters\": "
       "{\"x\": [1, {\"y\": \"</tool\"}]}}</tool_call>\n",
       "",
       {"f({})", "g({\"x\":[1,{\"y\":\"</tool\"}]})"}},
      // A text in the arguments may have the end mark.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>Done.",
       "Done.",
       {"f({\"a\":\"</tool_call>\"})"}},
      // The members of the arguments keep their order.
      {"<tool_call>{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}</tool_call>",
       "",
       {"f({\"b\":1,\"a\":2})"}},
      // Bare JSON: Llama's form, and Mistral's.
      {" {\"name\": \"f\", \"parameters\": {\"a\": 1}}\n", "", {"f({\"a\":1})"}},
      {"[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"x\": 2}}]",
       "",
       {"f({})", "g({\"x\":2})"}},
      {"{\"name\": \"Ada\"}", "{\"name\": \"Ada\"}", {}},
      {"[1, 2]", "[1, 2]", {}},
      {"[]", "[]", {}},
      {"[{\"name\": \"f\", \"arguments\": {}}, 5]",
       "[{\"name\": \"f\", \"arguments\": {}}, 5]",
       {}},
      {"{\"name\": \"f\", \"arguments\": {}} and more",
       "{\"name\": \"f\", \"arguments\": {}} and more",
       {}},
      {"{x} <tool_call>{\"name\": \"f\"}</tool_call>", "{x}", {"f({})"}},
      // These are no calls.
      {"<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": 5}</tool_call>", {}},
      {"<tool_call>{\"name\": \"\"}</tool_call>", "<tool_call>{\"name\": \"\"}</tool_call>", {}},
      {"<tool_call>no JSON</tool_call> and on", "<tool_call>no JSON</tool_call> and on", {}},
      {"<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>",
       "<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>",
       {}},
      {"<tool_call>{\"name\": \"f\"}", "<tool_call>{\"name\": \"f\"}", {}},
      {"<tool_cal", "<tool_cal", {}},
      {"a < b <t", "a < b <t", {}},
      {"<tool_<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_", {"f({})"}},
      {"<tool_call>x</tool_call><tool_call>{\"name\": \"f\"}</tool_call>",
       "<tool_call>x</tool_call>",
       {"f({})"}},
      {"Grüße \xF0\x9F\x98\x80 <tool_call>{\"name\": \"ü\"}</tool_call>",
       "Grüße \xF0\x9F\x98\x80",
       {"ü({})"}},
  };
  return *cases;
}

// Feeds the text in pieces whose sizes `next` draws. Returns all pieces of the reply, joined.
Reply ReadInPieces(const std::string& text, const std::function<size_t()>& next,
                   ReplyReader* reader) {
  Reply joined;
  const auto add = [&joined](const Reply& piece) {
    joined.text += piece.text;
    joined.calls.insert(joined.calls.end(), piece.calls.begin(), piece.calls.end());
  };
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::min(next(), text.size() - at);
    add(reader->Add(text.substr(at, size)));
    at += size;
  }
  add(reader->End());
  return joined;
}

TEST(ReplyReaderTest, PiecesOfAnySizeGiveTheSame) {
  std::mt19937 random(7);
  for (const ReplyCase& one : ReplyCases()) {
    for (size_t size = 0; size <= 20; ++size) {  // 0: random sizes
      const auto next = [&]() -> size_t {
        return size > 0 ? size : std::uniform_int_distribution<size_t>(1, 9)(random);
      };
      ReplyReader reader(/*with_calls=*/true);
      const Reply joined = ReadInPieces(one.written, next, &reader);
      EXPECT_EQ(joined.text, one.text) << one.written << " in pieces of " << size;
      EXPECT_EQ(CallsOf(joined), one.calls) << one.written << " in pieces of " << size;
      EXPECT_EQ(reader.reply().text, one.text);
      EXPECT_EQ(CallsOf(reader.reply()), one.calls);
    }
  }
}

TEST(ReplyReaderTest, WithoutFunctionsEverythingIsText) {
  for (const ReplyCase& one : ReplyCases()) {
    ReplyReader reader(/*with_calls=*/false);
    EXPECT_EQ(ReadInPieces(
                  one.written, [] { return size_t{3}; }, &reader)
                  .text,
              one.written);
    EXPECT_TRUE(reader.reply().calls.empty());
  }
}

TEST(ReplyReaderTest, TextThatCannotBeACallComesAtOnce) {
  ReplyReader reader(/*with_calls=*/true);
  EXPECT_EQ(reader.Add(" ").text, "");
  EXPECT_EQ(reader.Add("Hello").text, " Hello");
  EXPECT_EQ(reader.Add(", <b").text, ", <b");
  EXPECT_EQ(reader.Add("<tool").text, "");  // may become a call
  EXPECT_EQ(reader.Add("s>").text, "<tools>");
  EXPECT_EQ(reader.Add("<tool_call>{").text, "");
  const Reply call = reader.Add("\"name\": \"f\"}</tool_call>");
  EXPECT_EQ(CallsOf(call), std::vector<std::string>{"f({})"});
}

TEST(ReplyReaderTest, ABlockThatDoesNotEndIsTextBeforeItTakesMuchMemory) {
  ReplyReader reader(/*with_calls=*/true);
  reader.Add("<tool_call>");
  size_t given = 0;
  const std::string piece(64 << 10, 'x');
  for (int i = 0; i < 32; ++i) given += reader.Add(piece).text.size();
  EXPECT_GE(given, size_t{1} << 20);
}

TEST(ReplyReaderTest, CallsHaveIdsOfTheirOwn) {
  ReplyReader reader(/*with_calls=*/true);
  const std::string call = "<tool_call>{\"name\": \"f\"}</tool_call>";
  const Reply reply = reader.Add(call + call);
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_NE(reply.calls[0].id, reply.calls[1].id);
}

}  // namespace
}  // namespace longstream::gateway
