// Files of prompts: what they may hold, and what is said of other files.
#include "client/compare/command/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace longstream::client {
namespace {

using testing::ElementsAre;

TEST(ParsePromptsTest, ReadsAllFields) {
  const std::vector<Prompt> prompts = ParsePrompts(
      "{\"text\": \"a\\u00e9\\n\"}\r\n"
      "\n"
      "{\"id\": \"x\", \"tokens\": [0, 2147483647], \"continuation\": \"end\"}\n"
      "{\"id\": 7, \"messages\": [{\"role\": \"system\", \"content\": \"\"}, {\"role\": "
      "\"assistant\", \"content\": null, \"tool_calls\": [1]}]}");
  ASSERT_EQ(prompts.size(), 3u);
  EXPECT_EQ(prompts[0].id, "1");
  EXPECT_EQ(prompts[0].input.text(), "a\xc3\xa9\n");
  EXPECT_FALSE(prompts[0].continuation.has_value());
  EXPECT_EQ(prompts[1].id, "x");
  EXPECT_EQ(prompts[1].line, 3u);
  EXPECT_THAT(prompts[1].input.tokens().ids(), ElementsAre(0, 2147483647));
  EXPECT_EQ(prompts[1].continuation, "end");
  EXPECT_EQ(prompts[2].id, "7");
  const v1::Messages& messages = prompts[2].input.messages();
  ASSERT_EQ(messages.messages_size(), 2);
  EXPECT_EQ(messages.messages(0).role(), "system");
  EXPECT_TRUE(messages.messages(0).has_content());
  EXPECT_EQ(messages.messages(0).json(), "");
  EXPECT_EQ(messages.messages(1).role(), "assistant");
  EXPECT_FALSE(messages.messages(1).has_content());
  EXPECT_EQ(messages.messages(1).json(), R"({"content":null,"tool_calls":[1]})");
}

TEST(ParsePromptsTest, ErrorsNameLineAndField) {
  struct {
    const char* file;
    const char* error;
  } const kCases[] = {
      {"", "has no prompt"},
      {" \n\n", "has no prompt"},
      {"{\"text\": \"a\"}\n{", "line 2: is not valid JSON"},
      {"\xff", "line 1: is not valid JSON"},
      {"[]", "line 1: expected a JSON object, found array"},
      {"{}", "line 1: a prompt needs one of text, tokens and messages"},
      {"{\"id\": \"a\"}", "line 1: a prompt needs one of text, tokens and messages"},
      {"{\"text\": 1}", "line 1: text: expected a string, found number"},
      {"{\"text\": \"\"}", "line 1: text: is empty"},
      {"{\"text\": \"a\", \"tokens\": [1]}",
       "line 1: tokens: a prompt has only one of text, tokens and messages"},
      {"{\"prompt\": \"a\"}",
       "line 1: prompt: is not a field of a prompt: id, text, tokens, messages, continuation"},
      {"{\"tokens\": 1}", "line 1: tokens: expected an array, found number"},
      {"{\"tokens\": []}", "line 1: tokens: is empty"},
      {"{\"tokens\": [1, -1]}",
       "line 1: tokens[1]: expected a token id from 0 to 2147483647, found -1"},
      {"{\"tokens\": [2147483648]}",
       "line 1: tokens[0]: expected a token id from 0 to 2147483647, found 2147483648"},
      {"{\"tokens\": [18446744073709551615]}",
       "line 1: tokens[0]: expected a token id from 0 to 2147483647, found 18446744073709551615"},
      {"{\"tokens\": [1.5]}",
       "line 1: tokens[0]: expected a token id from 0 to 2147483647, found 1.5"},
      {"{\"messages\": {}}", "line 1: messages: expected an array, found object"},
      {"{\"messages\": [1]}", "line 1: messages[0]: expected an object, found number"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "line 1: messages[0].role: is missing"},
      {"{\"messages\": [{\"role\": 1}]}",
       "line 1: messages[0].role: expected a string, found number"},
      {"{\"text\": \"a\", \"continuation\": \"\"}", "line 1: continuation: is empty"},
      {"{\"text\": \"a\", \"id\": []}", "line 1: id: expected a string, found array"},
      {"{\"text\": \"a\", \"id\": 2}\n{\"text\": \"a\"}", "line 2: id: \"2\" is the id of line 1"},
  };
  for (const auto& [file, expected] : kCases) {
    std::string error = "none";
    try {
      ParsePrompts(file);
    } catch (const std::invalid_argument& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error, expected) << file;
  }
}

}  // namespace
}  // namespace longstream::client
