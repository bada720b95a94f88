// Completions: prompts of each kind, log-probabilities, ends, and errors within a list of prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"

namespace longstream {
namespace {

using testing::HasSubstr;

class CompletionsTest : public testing::Test {
 protected:
  static Json Body(const Json& prompt) {
    return {{"model", "m"}, {"prompt", prompt}, {"temperature", 0}};
  }
  HttpReply Complete(const Json& body) const {
    HttpReply reply = Post(server_.http(), kCompletionsPath, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply;
  }
  Json Choice(const Json& body) const { return Complete(body).json().at("choices").at(0); }
  std::string FreshText(const std::string& prompt, uint32_t max_tokens) {
    v1::GenerateRequest request;
    request.set_session_id(server_.connection().Open("m").session_id());
    request.mutable_input()->set_text(prompt);
    request.set_max_tokens(max_tokens);
    request.mutable_sampling()->set_temperature(0);
    std::string text = server_.connection().Generate(request).text;
    server_.connection().Close(request.session_id());
    return text;
  }

  const ChatModelDirectory directory_;
  ChatServer server_{directory_.Arguments(",options.utf8=true")};
};

TEST_F(CompletionsTest, PromptsOfEachKind) {
  const std::string abc = FreshText("abc", 16), def = FreshText("def", 16);
  ASSERT_NE(abc, def);
  const HttpReply text = Complete(Body("abc"));
  const Json choice = text.json().at("choices").at(0);
  EXPECT_EQ(choice.at("text"), abc) << "16 tokens unless the request says otherwise";
  EXPECT_EQ(choice.at("index"), 0);
  EXPECT_EQ(choice.at("logprobs"), nullptr);
  EXPECT_EQ(choice.at("finish_reason"), "length");
  EXPECT_EQ(text.json().at("object"), "text_completion");
  EXPECT_EQ(text.json().at("model"), "m");
  EXPECT_EQ(text.json().at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(text.json().at("usage").at("completion_tokens"), 16);
  EXPECT_EQ(Choice(Body({97, 98, 99})).at("text"), abc);
  const Json lists[] = {{"abc", "def"}, {{97, 98, 99}, {100, 101, 102}}, {"abc", {100, 101, 102}}};
  for (const Json& list : lists) {
    const Json reply = Complete(Body(list)).json();
    ASSERT_EQ(reply.at("choices").size(), 2u);
    EXPECT_EQ(reply.at("choices")[0].at("text"), abc);
    EXPECT_EQ(reply.at("choices")[1].at("text"), def);
    EXPECT_EQ(reply.at("choices")[1].at("index"), 1);
    EXPECT_EQ(reply.at("usage").at("total_tokens"), 38);
  }
  EXPECT_EQ(Complete(Body("abc")).json().at("choices")[0].at("text"), abc);
  EXPECT_TRUE(server_.connection().Sessions("m").empty()) << "completions keep no session";
  Json too_many = Json::array();
  for (int i = 0; i < 65; ++i) too_many.push_back("a");
  const HttpReply refused = Post(server_.http(), kCompletionsPath, Body(too_many));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json().at("error").at("param"), "prompt");
}

TEST_F(CompletionsTest, StopStringsAndLengths) {
  const std::string whole = FreshText("abc", 40);
  Json body = Body("abc");
  body["max_tokens"] = 40;
  const std::string stop = whole.substr(20, 3);
  const std::string before = whole.substr(0, whole.find(stop));
  for (const Json& stops : {Json(stop), Json::array({"never comes", stop})}) {
    body["stop"] = stops;
    const Json choice = Choice(body);
    EXPECT_EQ(choice.at("text"), before) << "the text ends before the stop string";
    EXPECT_EQ(choice.at("finish_reason"), "stop");
  }
  body["stop"] = "never comes";
  EXPECT_EQ(Choice(body).at("text"), whole);
  EXPECT_EQ(Choice(body).at("finish_reason"), "length");
  body["stop"] = Json();
  body["stop_token_ids"] = {static_cast<int>(static_cast<unsigned char>(stop[0]))};
  EXPECT_EQ(Choice(body).at("finish_reason"), "stop");
  body["min_tokens"] = 40;
  EXPECT_EQ(Choice(body).at("finish_reason"), "length");
}

// The conversation of a client has the text before the stop string, and goes on behind it.
TEST_F(CompletionsTest, AChatGoesOnBehindAStopString) {
  Conversation conversation = {{"user", "abc"}};
  const std::string whole = TextOf(server_.Chat(ChatBody(conversation, 40)));
  Json body = ChatBody(conversation, 40);
  body["stop"] = whole.substr(20, 3);
  const HttpReply stopped = server_.Chat(body);
  EXPECT_EQ(TextOf(stopped), whole.substr(0, whole.find(whole.substr(20, 3))));
  EXPECT_EQ(stopped.json().at("choices")[0].at("finish_reason"), "stop");
  conversation.emplace_back("assistant", TextOf(stopped));
  conversation.emplace_back("user", "def");
  const HttpReply next = server_.Chat(ChatBody(conversation));
  EXPECT_EQ(SessionOf(next), "continued");
  EXPECT_EQ(TextOf(next), FreshAnswer(server_.connection(), conversation));
}

TEST_F(CompletionsTest, LogProbabilities) {
  Json body = Body("abc");
  body["logprobs"] = 2;
  const Json choice = Choice(body);
  const Json& log_probs = choice.at("logprobs");
  for (const char* const name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) {
    EXPECT_EQ(log_probs.at(name).size(), 16u) << name;
  }
  EXPECT_EQ(log_probs.at("text_offset")[0], 0);
  EXPECT_LE(log_probs.at("top_logprobs")[3].size(), 2u);
  body["logprobs"] = 0;
  const Json none = Choice(body);
  EXPECT_EQ(none.at("logprobs").at("tokens").size(), 16u);
  EXPECT_EQ(none.at("text"), choice.at("text"));
}

// The choices of a stream, put together.
struct Streamed {
  std::vector<std::string> texts;
  std::vector<Json> reasons;
  std::vector<Json> tokens, offsets;
  std::vector<std::string> others;  // events that are no choice
};

Streamed Join(const std::vector<std::string>& events) {
  Streamed all;
  for (const std::string& event : events) {
    const Json chunk = event == "[DONE]" ? Json() : Json::parse(event);
    if (!chunk.contains("choices") || chunk.at("choices").empty()) {
      all.others.push_back(event);
      continue;
    }
    const Json& choice = chunk.at("choices").at(0);
    const size_t index = choice.at("index");
    if (all.texts.size() <= index) {
      all.texts.resize(index + 1);
      all.reasons.resize(index + 1);
      all.tokens.resize(index + 1, Json::array());
      all.offsets.resize(index + 1, Json::array());
    }
    EXPECT_EQ(all.reasons[index], nullptr) << "a choice goes on after its end";
    all.texts[index] += choice.at("text");
    all.reasons[index] = choice.at("finish_reason");
    if (choice.at("logprobs").is_null()) continue;
    const Json& log_probs = choice.at("logprobs");
    for (const Json& token : log_probs.at("tokens")) all.tokens[index].push_back(token);
    for (const Json& offset : log_probs.at("text_offset")) all.offsets[index].push_back(offset);
  }
  return all;
}

TEST_F(CompletionsTest, AStreamHasWhatTheWholeAnswerHas) {
  Json body = Body({"abc", "def"});
  body["max_tokens"] = 30;
  body["logprobs"] = 1;
  const HttpReply whole = Complete(body);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  HttpStream stream(server_.http(), kCompletionsPath, body);
  const Streamed joined = Join(stream.Rest());
  const Json choices = whole.json().at("choices");
  ASSERT_EQ(joined.texts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(joined.texts[i], choices[i].at("text"));
    EXPECT_EQ(joined.reasons[i], "length");
    EXPECT_EQ(joined.tokens[i], choices[i].at("logprobs").at("tokens"));
    EXPECT_EQ(joined.offsets[i], choices[i].at("logprobs").at("text_offset"));
  }
  ASSERT_EQ(joined.others.size(), 2u);
  EXPECT_EQ(Json::parse(joined.others[0]).at("usage"), whole.json().at("usage"));
  EXPECT_EQ(joined.others[1], "[DONE]");
}

TEST_F(CompletionsTest, AnErrorInTheSecondPrompt) {
  Json body = Body({"abc", std::string(70'000, 'x')});
  const HttpReply whole = Post(server_.http(), kCompletionsPath, body);
  EXPECT_EQ(whole.status, 400);
  EXPECT_THAT(whole.body, HasSubstr("65536"));
  body["stream"] = true;
  HttpStream stream(server_.http(), kCompletionsPath, body);
  // The error comes before the first piece of the other answer, or behind some.
  const Json error =
      Json::parse(stream.status() == 400 ? stream.Body() : stream.Rest().back()).at("error");
  EXPECT_THAT(error.at("message"), HasSubstr("65536"));
  EXPECT_TRUE(server_.connection().Sessions("m").empty());
  EXPECT_EQ(Choice(Body("abc")).at("text"), FreshText("abc", 16));
  EXPECT_EQ(server_.process().Stop(), 0);
}

}  // namespace
}  // namespace longstream
