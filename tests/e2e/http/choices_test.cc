// Several answers to one request: their order, their sessions, what they share, and what a client
// that continues one of them gets.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr int kChoices = 3;

// A request for several answers, which draws its tokens from seeds.
Json DrawnBody(Json body, int seed) {
  body["temperature"] = 1.5;
  body["seed"] = seed;
  return body;
}

class ChoicesTest : public testing::TestWithParam<std::string> {
 protected:
  Json Answer(const char* path, const Json& body) const {
    const HttpReply reply = Post(server_.http(), path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  // The text of the answer with the seed, of a server that has seen the conversation or not.
  std::string AloneText(const Json& body, int seed) const {
    return Answer(kChatPath, DrawnBody(body, seed))["choices"][0]["message"]["content"];
  }

  const ChatModelDirectory directory_{GetParam()};
  ChatServer server_{directory_.Arguments()};
};

TEST_P(ChoicesTest, EachIsTheAnswerOfItsSeed) {
  const Json body = ChatBody({{"user", "import os"}}, 20);
  Json several = DrawnBody(body, 7);
  several["n"] = kChoices;
  const Json answer = Answer(kChatPath, several);
  ASSERT_EQ(answer["choices"].size(), static_cast<size_t>(kChoices));
  std::set<std::string> texts;
  int64_t tokens = 0;
  for (int i = 0; i < kChoices; ++i) {
    const Json& choice = answer["choices"][i];
    EXPECT_EQ(choice["index"], i);
    const std::string text = choice["message"]["content"];
    texts.insert(text);
    Json alone = DrawnBody(body, 7 + i);
    const Json single = Answer(kChatPath, alone);
    EXPECT_EQ(single["choices"][0]["message"]["content"], text);
    EXPECT_EQ(single["choices"][0]["finish_reason"], choice["finish_reason"]);
    EXPECT_EQ(single["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    tokens += single["usage"]["completion_tokens"].get<int64_t>();
  }
  EXPECT_GT(texts.size(), 1u);
  EXPECT_EQ(answer["usage"]["completion_tokens"], tokens);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0) << "read once";
}

// The prompt is read once, and each answer has a session of its own, which a client can continue.
TEST_P(ChoicesTest, EachCanBeContinued) {
  Conversation conversation = {{"user", "import os"}};
  Json body = DrawnBody(ChatBody(conversation, 20), 7);
  body["n"] = kChoices;
  const double before = server_.Metric("longstream_prompt_tokens_total");
  const Json answer = Answer(kChatPath, body);
  const double read = server_.Metric("longstream_prompt_tokens_total") - before;
  EXPECT_EQ(read, answer["usage"]["prompt_tokens"].get<double>());
  std::set<std::string> sessions;
  for (int i = 0; i < kChoices; ++i) {
    const Json& receipt = answer["longstream"]["choices"][i];
    EXPECT_EQ(receipt["session"], i == 0 ? "new" : "forked");
    const std::string session = receipt["session_id"];
    EXPECT_TRUE(sessions.insert(session).second);
    Conversation next = conversation;
    next.emplace_back("assistant", answer["choices"][i]["message"]["content"]);
    next.emplace_back("user", "def f():");
    const HttpReply reply = server_.Chat(ChatBody(next));
    EXPECT_EQ(SessionOf(reply), "continued");
    EXPECT_EQ(reply.json()["longstream"]["session_id"], session);
    EXPECT_EQ(TextOf(reply), FreshAnswer(server_.connection(), next));
  }
  EXPECT_EQ(server_.connection().Sessions("m").size(), static_cast<size_t>(kChoices));
}

TEST_P(ChoicesTest, AContinuedConversationHasThemToo) {
  Conversation conversation = {{"user", "import os"}};
  conversation.emplace_back("assistant", TextOf(server_.Chat(ChatBody(conversation))));
  conversation.emplace_back("user", "def f():");
  Json body = ChatBody(conversation);
  body["n"] = 2;
  const Json answer = Answer(kChatPath, body);
  EXPECT_EQ(answer["longstream"]["choices"][0]["session"], "continued");
  EXPECT_GT(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 10);
  EXPECT_LT(answer["usage"]["prompt_tokens_details"]["cached_tokens"],
            answer["usage"]["prompt_tokens"]);
  const std::string fresh = FreshAnswer(server_.connection(), conversation);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(answer["choices"][i]["message"]["content"], fresh);
}

TEST_P(ChoicesTest, AStreamHasTheSameTexts) {
  Json body = DrawnBody(ChatBody({{"user", "import os"}}, 20), 7);
  body["n"] = kChoices;
  const Json whole = Answer(kChatPath, body);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  HttpStream stream(server_.http(), kChatPath, body);
  std::map<int, std::string> texts;
  std::map<int, std::string> ends;
  Json usage;
  for (const std::string& event : stream.Rest()) {
    if (event == "[DONE]") continue;
    const Json chunk = Json::parse(event);
    if (!chunk["usage"].is_null()) usage = chunk["usage"];
    for (const Json& choice : chunk["choices"]) {
      const int index = choice["index"];
      EXPECT_EQ(ends.count(index), 0u) << "after its end";
      texts[index] += choice["delta"].value("content", "");
      if (!choice["finish_reason"].is_null()) ends[index] = choice["finish_reason"];
    }
  }
  for (int i = 0; i < kChoices; ++i) {
    EXPECT_EQ(texts[i], whole["choices"][i]["message"]["content"]);
    EXPECT_EQ(ends[i], whole["choices"][i]["finish_reason"]);
  }
  EXPECT_EQ(usage["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_EQ(usage["prompt_tokens"], whole["usage"]["prompt_tokens"]);
}

TEST_P(ChoicesTest, CompletionsHaveThemForEachPrompt) {
  const Json prompts = {"import ", "def f", "x"};
  Json body = DrawnBody({{"model", "m"}, {"prompt", prompts}}, 7);
  body["n"] = kChoices;
  body["logprobs"] = 0;
  const Json answer = Answer(kCompletionsPath, body);
  ASSERT_EQ(answer["choices"].size(), prompts.size() * kChoices);
  int64_t prompt_tokens = 0;
  for (size_t i = 0; i < answer["choices"].size(); ++i) {
    const size_t choice = i % kChoices;
    Json alone = DrawnBody({{"model", "m"}, {"prompt", prompts[i / kChoices]}}, 7);
    alone["seed"] = 7 + choice;
    alone["logprobs"] = 0;
    const Json single = Answer(kCompletionsPath, alone);
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], single["choices"][0]["text"]);
    EXPECT_EQ(answer["choices"][i]["logprobs"], single["choices"][0]["logprobs"]);
    if (choice == 0) prompt_tokens += single["usage"]["prompt_tokens"].get<int64_t>();
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], prompt_tokens);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16 * 9);
  EXPECT_TRUE(server_.connection().Sessions("m").empty()) << "completions keep no session";
}

TEST_P(ChoicesTest, AnErrorEndsAllAndKeepsNoSession) {
  Json body = ChatBody({{"user", "import os"}});
  body["n"] = kChoices;
  body["model"] = "none";
  EXPECT_EQ(Post(server_.http(), kChatPath, body).status, 404);
  body["model"] = "m";
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "s"}, {"schema", {{"type", "nothing"}}}}}};
  EXPECT_EQ(Post(server_.http(), kChatPath, body).status, 400);
  EXPECT_TRUE(server_.connection().Sessions("m").empty());
  Json completion = {{"model", "m"}, {"prompt", {"abc", {1, -1}}}, {"n", 2}};
  EXPECT_EQ(Post(server_.http(), kCompletionsPath, completion).status, 400);
  completion["prompt"] = {{1}, {1 << 30}};  // not in the vocabulary
  EXPECT_EQ(Post(server_.http(), kCompletionsPath, completion).status, 400);
  EXPECT_TRUE(server_.connection().Sessions("m").empty());
}

TEST_P(ChoicesTest, AClientThatLeavesEndsAll) {
  Json body = StreamBody({{"user", "import os"}}, 20000);
  body["ignore_eos"] = true;
  body["n"] = kChoices;
  HttpStream stream(server_.http(), kChatPath, body);
  std::set<int> begun;
  while (begun.size() < kChoices) {
    begun.insert(Json::parse(stream.Next().value())["choices"][0]["index"].get<int>());
  }
  stream.Leave();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!server_.connection().Sessions("m").empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// A request whose log-probabilities take too much memory leaves nothing behind.
TEST_P(ChoicesTest, ARefusedRequestKeepsNoSession) {
  Json body = ChatBody({{"user", "import os"}});
  body["n"] = kChoices;
  body["logprobs"] = true;
  body["top_logprobs"] = 20;
  body.erase("max_tokens");
  EXPECT_EQ(Post(server_.http(), kChatPath, body).status, 400);
  EXPECT_EQ(Answer(kChatPath, ChatBody({{"user", "x"}}))["choices"].size(), 1u);
  // The metric follows the answer.
  EXPECT_TRUE(WaitUntil([&] { return server_.PlainMetric("longstream_http_sessions") == 1; }));
  EXPECT_EQ(server_.connection().Sessions("m").size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Models, ChoicesTest,
                         testing::Values("minimal", "dense", "hwfa2", "hypenet"),
                         [](const auto& test) { return test.param; });

// A server with room for fewer sessions than a request asks for answers one after the other.
TEST(FewChoicesTest, AServerWithFewPlacesAnswersLater) {
  const ChatModelDirectory directory;
  const ChatServer server(directory.Arguments("", "sessions: {max: 3}"));
  Json completion = {{"model", "m"}, {"prompt", Json::array()}, {"temperature", 0}};
  for (int i = 0; i < 20; ++i) completion["prompt"].push_back("abc");
  for (const int n : {1, 3}) {
    completion["n"] = n;
    const HttpReply reply = Post(server.http(), kCompletionsPath, completion);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json choices = reply.json()["choices"];
    ASSERT_EQ(choices.size(), 20u * n);
    for (const Json& choice : choices) EXPECT_EQ(choice["text"], choices[0]["text"]);
  }
}

}  // namespace
}  // namespace longstream
