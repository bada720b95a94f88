// Messages in Generate, Append and Score. A session remembers its messages.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;

// With `thinks`, the template leaves out a message's text up to "|" unless the message is the last
// one. The tokenizer is one of bytes, so "<end>" is no token of its own.
constexpr char kTemplate[] = R"({%- for m in messages -%}
{%- if m.role == 'bad' %}{{ raise_exception('bad role') }}{% endif -%}
{{ '[' + m.role + ']' }}
{%- if thinks and not loop.last %}{{ m.content.split('|')[-1] }}
{%- else %}{{ m.content }}{% endif -%}
{{ '<end>' }}
{%- endfor -%}
{%- if tools %}{{ tools | tojson }}{% endif -%}
{%- if add_generation_prompt %}[assistant]{% endif -%})";

using Said = std::vector<std::pair<std::string, std::string>>;

class ServerChatTest : public ServerTest {
 protected:
  ServerChatTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   kTemplate) {}

  static void Fill(const Said& said, v1::Messages* messages) {
    for (const auto& [role, content] : said) {
      v1::Message* message = messages->add_messages();
      message->set_role(role);
      message->set_content(content);
    }
  }
  v1::GenerateRequest ChatRequest(const std::string& id, const Said& said) const {
    v1::GenerateRequest request = Request(id);
    Fill(said, request.mutable_input()->mutable_messages());
    return request;
  }
  // The model's answer to a text in a new session.
  Generated AnswerToText(const std::string& text) {
    v1::GenerateRequest request = Request(Open());
    request.mutable_input()->set_text(text);
    return Generate(request);
  }
  grpc::Status AppendAll(const std::vector<v1::AppendRequest>& messages,
                         v1::AppendResponse* response) {
    grpc::ClientContext context;
    const auto writer = stub().Append(&context, response);
    for (const v1::AppendRequest& message : messages) writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(ServerChatTest, TurnsGiveWhatTheWholeTextGives) {
  const std::string id = Open();
  const Generated first = Generate(ChatRequest(id, {{"system", "s"}, {"user", "hi"}}));
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const std::string text = "[system]s<end>[user]hi<end>[assistant]";
  EXPECT_EQ(first.started.prompt_tokens(), text.size());
  EXPECT_EQ(first.text, AnswerToText(text).text);

  v1::GenerateRequest request = ChatRequest(id, {{"user", "more"}});
  request.set_expected_position(first.finish.position());
  const Generated second = Generate(request);
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  std::string spelled;
  for (const int32_t token : first.tokens) spelled += static_cast<char>(token);
  const std::string rest = "<end>[user]more<end>[assistant]";
  // If the reply is not UTF-8, its text is repaired and differs from its tokens. Then the session
  // does not keep all tokens of the reply, because the template renders the repaired text.
  if (first.text == spelled) {
    EXPECT_EQ(second.started.position(), first.finish.position());
    EXPECT_EQ(second.started.prompt_tokens(), rest.size());
  }
  EXPECT_EQ(second.text, AnswerToText(text + first.text + rest).text);
}

// The reply in the conversation has U+FFFD for the character that max_tokens cut. The next answer
// does not begin with it.
TEST_F(ServerChatTest, AReplyThatEndsWithinACharacterIsRepaired) {
  const std::string id = Open();
  v1::GenerateRequest request = ChatRequest(id, {{"user", "hi"}});
  (*request.mutable_sampling()->mutable_logit_bias())[0xE2] = 100;
  request.mutable_sampling()->set_temperature(0);
  request.set_max_tokens(1);
  const Generated first = Generate(request);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.text, "");
  EXPECT_EQ(first.finish.incomplete_character(), "\xE2");

  const Generated second = Generate(ChatRequest(id, {{"user", "more"}}));
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  const std::string text = "[user]hi<end>[assistant]\uFFFD<end>[user]more<end>[assistant]";
  EXPECT_EQ(second.text, AnswerToText(text).text);
  EXPECT_EQ(second.finish.position(), text.size() + second.tokens.size());

  // A turn that is refused leaves the character as it was.
  const std::string other = Open();
  request.set_session_id(other);
  EXPECT_EQ(Generate(request).finish.incomplete_character(), "\xE2");
  EXPECT_FALSE(Generate(ChatRequest(other, {{"bad", ""}})).status.ok());
  v1::GenerateRequest rest = Request(other);
  rest.clear_input();
  (*rest.mutable_sampling()->mutable_logit_bias())[0x82] = 100;
  rest.set_max_tokens(1);
  EXPECT_EQ(Generate(rest).finish.incomplete_character(), "\xE2\x82");
}

TEST_F(ServerChatTest, WhatTheTemplateLeavesOutIsReplaced) {
  const std::string id = Open();
  v1::GenerateRequest begin = ChatRequest(id, {{"user", "hi"}, {"assistant", "um|ho"}});
  begin.mutable_input()->mutable_messages()->set_template_arguments(R"({"thinks": true})");
  const Generated first = Generate(begin);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();

  v1::GenerateRequest next = ChatRequest(id, {{"user", "more"}});
  next.mutable_input()->mutable_messages()->set_require_unchanged(true);
  const Generated refused = Generate(next);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("from position 24 of "));

  next.mutable_input()->mutable_messages()->set_require_unchanged(false);
  const Generated second = Generate(next);
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.started.position(), std::string("[user]hi<end>[assistant]").size());
  const std::string reply = first.text.substr(first.text.rfind('|') + 1);
  EXPECT_EQ(second.text, AnswerToText("[user]hi<end>[assistant]ho<end>[assistant]" + reply +
                                      "<end>[user]more<end>[assistant]")
                             .text);
}

TEST_F(ServerChatTest, AWholeConversationIsReusedAsFarAsItAgrees) {
  const std::string id = Open();
  const Generated first = Generate(ChatRequest(id, {{"user", "hi"}}));
  v1::GenerateRequest again = ChatRequest(id, {{"user", "hi"}});
  again.mutable_input()->mutable_messages()->set_whole_conversation(true);
  const Generated second = Generate(again);
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.started.prompt_tokens(), 0u);
  EXPECT_EQ(second.started.position(), first.started.prompt_tokens());
  EXPECT_EQ(second.finish.position(), first.finish.position());
  const auto& usage = second.finish.usage();
  EXPECT_LT(usage.recomputed_tokens(), first.started.prompt_tokens());

  v1::GenerateRequest other = ChatRequest(id, {{"user", "ho"}});
  other.mutable_input()->mutable_messages()->set_whole_conversation(true);
  EXPECT_EQ(Generate(other).text, AnswerToText("[user]ho<end>[assistant]").text);
}

// Text that a turn replaces takes no room of the context beside the new text.
TEST_F(ServerChatTest, AReplacedConversationTakesNoRoom) {
  const std::string id = Open();
  const Generated first = Generate(ChatRequest(id, {{"user", std::string(40000, 'a')}}));
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  v1::GenerateRequest other = ChatRequest(id, {{"user", std::string(40000, 'b')}});
  other.mutable_input()->mutable_messages()->set_whole_conversation(true);
  const Generated second = Generate(other);
  EXPECT_TRUE(second.status.ok()) << second.status.error_message();
}

TEST_F(ServerChatTest, ARolledBackTurnPutsBackWhatItReplaced) {
  const std::string id = Open();
  const Generated first = Generate(ChatRequest(id, {{"user", "hi"}}));
  v1::GenerateRequest other = ChatRequest(id, {{"user", "ho"}});
  other.mutable_input()->mutable_messages()->set_whole_conversation(true);
  other.set_max_tokens(100000);
  const Generated cancelled =
      Generate(other, [](const v1::GenerateResponse& response, grpc::ClientContext* context) {
        if (response.has_delta()) context->TryCancel();
      });
  EXPECT_EQ(cancelled.status.error_code(), grpc::StatusCode::CANCELLED);
  WaitUntilIdle(id);
  EXPECT_EQ(Get(id).position(), first.finish.position());
  const Generated second = Generate(ChatRequest(id, {{"user", "more"}}));
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.text, AnswerToText("[user]hi<end>[assistant]" + first.text +
                                      "<end>[user]more<end>[assistant]")
                             .text);
}

TEST_F(ServerChatTest, ForksRememberTheConversation) {
  const std::string id = Open();
  Generate(ChatRequest(id, {{"user", "hi"}}));
  grpc::ClientContext context;
  v1::ForkSessionRequest fork;
  v1::Session copy;
  fork.set_session_id(id);
  ASSERT_TRUE(stub().ForkSession(&context, fork, &copy).ok());
  const Generated theirs = Generate(ChatRequest(copy.session_id(), {{"user", "more"}}));
  ASSERT_TRUE(theirs.status.ok()) << theirs.status.error_message();
  EXPECT_EQ(theirs.text, Generate(ChatRequest(id, {{"user", "more"}})).text);
}

TEST_F(ServerChatTest, AppendTakesMessagesToo) {
  const std::string id = Open();
  v1::AppendRequest append;
  append.set_session_id(id);
  Fill({{"user", "hi"}}, append.mutable_input()->mutable_messages());
  v1::AppendResponse response;
  ASSERT_TRUE(AppendAll({append}, &response).ok());
  EXPECT_EQ(response.position(), std::string("[user]hi<end>").size());
  const Generated answer = Generate(ChatRequest(id, {{"user", "so"}}));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.text, AnswerToText("[user]hi<end>[user]so<end>[assistant]").text);

  v1::AppendRequest text;
  text.mutable_input()->set_text("x");
  for (const v1::AppendRequest& second : {text, append}) {
    const uint64_t before = Get(id).position();
    const grpc::Status status = AppendAll({append, second}, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("messages must be in the first message"));
    EXPECT_EQ(Get(id).position(), before);
  }
}

TEST_F(ServerChatTest, ScoreWritesMessagesDown) {
  const auto tokens_scored = [&](const v1::Input& input) {
    grpc::ClientContext context;
    v1::ScoreRequest request;
    request.set_model("m");
    *request.mutable_input() = input;
    const auto reader = stub().Score(&context, request);
    v1::ScoreResponse response;
    std::vector<float> scores;
    while (reader->Read(&response)) {
      for (const v1::TokenScore& token : response.tokens()) scores.push_back(token.log_prob());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return scores;
  };
  v1::Input messages;
  Fill({{"user", "hi"}}, messages.mutable_messages());
  v1::Input text;
  text.set_text("[user]hi<end>");
  EXPECT_EQ(tokens_scored(messages), tokens_scored(text));
}

TEST_F(ServerChatTest, RefusalsLeaveTheSessionFree) {
  const std::string id = Open();
  const auto refuse = [&](const std::function<void(v1::Messages*)>& edit, const char* message,
                          grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
    v1::GenerateRequest request = ChatRequest(id, {{"user", "hi"}});
    edit(request.mutable_input()->mutable_messages());
    const Generated refused = Generate(request);
    EXPECT_EQ(refused.status.error_code(), code) << message;
    EXPECT_THAT(refused.status.error_message(), HasSubstr(message));
    EXPECT_FALSE(Get(id).turn_running());
  };
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_role("bad"); },
         "input.messages: chat_template.jinja: line 2, column 44: the template refuses the "
         "conversation: bad role");
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_role("a|>b"); },
         "input.messages.messages[0].role: expected 1 ... 64 letters");
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_content("\xff"); },
         "messages[0].content: expected UTF-8, found invalid UTF-8 at byte 0");
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_json("{"); },
         "messages[0].json: not JSON at byte");
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_json(R"({"role": "x"})"); },
         "messages[0].json: role must be given in its own field");
  refuse([](v1::Messages* m) { m->set_tools("{}"); }, "tools: expected an array of objects");
  refuse([](v1::Messages* m) { m->set_template_arguments("[]"); },
         "template_arguments: expected a JSON object");
  refuse([](v1::Messages* m) { m->clear_messages(); }, "a conversation has one message at least");
  refuse([](v1::Messages* m) { m->mutable_messages(0)->set_content(std::string(3 << 20, 'x')); },
         "bytes exceed the model's context");
  ASSERT_TRUE(Generate(Request(id)).status.ok());
  refuse([](v1::Messages*) {}, "no conversation to add to", grpc::StatusCode::FAILED_PRECONDITION);
  v1::GenerateRequest late = ChatRequest(id, {{"user", "hi"}});
  late.set_expected_position(3);
  EXPECT_EQ(Generate(late).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ExpectAlive();
}

TEST_F(ServerChatTest, ModelsSayWhetherTheyChat) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  v1::Model model;
  request.set_name("m");
  ASSERT_TRUE(stub().GetModel(&context, request, &model).ok());
  EXPECT_TRUE(model.chat());
  EXPECT_EQ(model.chat_error(), "");
}

TEST_F(ServerTest, WithoutATemplateThereIsNoChat) {
  v1::GenerateRequest request = Request(Open());
  v1::Message* message = request.mutable_input()->mutable_messages()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  const auto expect_refused = [&] {
    const Generated refused = Generate(request);
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(refused.status.error_message(), HasSubstr("the model has no chat template"));
  };
  expect_refused();
  // A session with tokens does not hide the reason.
  ASSERT_TRUE(Generate(Request(request.session_id())).status.ok());
  expect_refused();
  grpc::ClientContext context;
  v1::GetModelRequest about;
  v1::Model model;
  about.set_name("m");
  ASSERT_TRUE(stub().GetModel(&context, about, &model).ok());
  EXPECT_FALSE(model.chat());
}

class BrokenTemplateTest : public ServerTest {
 protected:
  BrokenTemplateTest()
      : ServerTest("{}", 0, MinimalModel::PluginFile(), "", ModelSource().max_batch_tokens,
                   "{% include 'x' %}") {}
};

TEST_F(BrokenTemplateTest, TheModelServesWithoutIt) {
  ExpectAlive();
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->mutable_messages()->add_messages()->set_role("user");
  const Generated refused = Generate(request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("the tag {% include %} is not supported"));
}

}  // namespace
}  // namespace longstream
