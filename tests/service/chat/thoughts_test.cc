// Whether an answer begins within the model's thoughts.
#include "service/chat/thoughts.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace longstream::chat {
namespace {

constexpr char kOpens[] =
    "{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>')[-1] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}";

ChatTemplates With(const std::string& source) {
  ChatTemplates templates;
  templates.by_name.insert_or_assign("default", ChatTemplate::Parse("t", source).value());
  return templates;
}

// A conversation of one message from a caller. `rendered`: by a template that adds `own` behind it.
History Rendered(const std::string& content, const std::string& own, bool continues = false) {
  History history;
  Dict message;
  message.Set(Text("role"), Value::MakeText("user"));
  message.Set(Text("content"), Value::MakeText(Text(content, /*is_foreign=*/true)));
  history.conversation.messages.push_back(Value::MakeDict(std::move(message)));
  history.conversation.continue_final_message = continues;
  history.text.Append("[user]");
  history.text.Append(Text(content, /*is_foreign=*/true));
  history.text.Append(own);
  return history;
}

TEST(ThoughtsTest, ATemplateNamesTheEndOfThoughts) {
  EXPECT_TRUE(MarksThoughts(With(kOpens)));
  EXPECT_FALSE(MarksThoughts(With("{{ messages[0].content }}")));
  EXPECT_FALSE(MarksThoughts({}));
  ChatTemplates two = With("{{ messages[0].content }}");
  two.by_name.insert_or_assign("tool_use", ChatTemplate::Parse("t", kOpens).value());
  EXPECT_TRUE(MarksThoughts(two));
}

TEST(ThoughtsTest, OnlyTheTemplateBeginsThem) {
  EXPECT_TRUE(EndsInThoughts(Rendered("hi", "[assistant]<think>\n")));
  EXPECT_TRUE(EndsInThoughts(Rendered("hi", "[assistant]<think>")));
  EXPECT_FALSE(EndsInThoughts(Rendered("hi", "[assistant]")));
  EXPECT_FALSE(EndsInThoughts(Rendered("hi", "[assistant]<think>\n\n</think>\n\n")));
  EXPECT_FALSE(EndsInThoughts(Rendered("what is <think>", "[assistant]")));
  EXPECT_FALSE(EndsInThoughts(Rendered("what is <think>", "")));
  EXPECT_FALSE(EndsInThoughts(Rendered("", "")));
}

TEST(ThoughtsTest, AMessageThatGoesOnMayHaveBegunThem) {
  EXPECT_TRUE(EndsInThoughts(Rendered("<think>Well", "", /*continues=*/true)));
  EXPECT_FALSE(EndsInThoughts(Rendered("<think>Well</think>Hello", "", /*continues=*/true)));
  EXPECT_FALSE(EndsInThoughts(Rendered("Hello", "", /*continues=*/true)));
}

}  // namespace
}  // namespace longstream::chat
