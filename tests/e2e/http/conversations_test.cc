// Conversations over HTTP: which session answers, that each answer equals the one of a session that
// has read the same conversation for the first time, and how many tokens were cached.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"

namespace longstream {
namespace {

constexpr int kAnswerTokens = 12;

int64_t Tokens(const HttpReply& reply, const char* kind) {
  return reply.json().at("usage").at(kind);
}
int64_t CachedTokens(const HttpReply& reply) {
  return reply.json().at("usage").at("prompt_tokens_details").at("cached_tokens");
}

class DemoConversationTest : public testing::TestWithParam<std::string> {
 protected:
  // Sends the conversation and adds the answer to it.
  HttpReply Answer(Conversation* conversation) {
    HttpReply reply = server_.Chat(ChatBody(*conversation));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(TextOf(reply), FreshAnswer(server_.connection(), *conversation));
    conversation->emplace_back("assistant", TextOf(reply));
    return reply;
  }

  const ChatModelDirectory directory_{GetParam()};
  ChatServer server_{directory_.Arguments()};
};

TEST_P(DemoConversationTest, IsReadOnceAndAnsweredAsByAFreshSession) {
  const char* const questions[] = {"import os", "def f():", "for i in", "x = 1", "return"};
  Conversation conversation;
  std::string session;
  int64_t known = 0;
  for (const char* const question : questions) {
    conversation.emplace_back("user", question);
    const HttpReply reply = Answer(&conversation);
    EXPECT_EQ(SessionOf(reply), known == 0 ? "new" : "continued");
    const std::string answered_by = reply.json()["longstream"]["session_id"];
    if (known > 0) {
      EXPECT_EQ(answered_by, session);
      // The last token of an answer is not computed before the next turn.
      EXPECT_GE(CachedTokens(reply), known - 1);
      EXPECT_LE(CachedTokens(reply), known);
      EXPECT_GE(Tokens(reply, "prompt_tokens"), known + 10);
    } else {
      EXPECT_EQ(CachedTokens(reply), 0);
    }
    session = answered_by;
    known = Tokens(reply, "total_tokens");
    EXPECT_EQ(known, Tokens(reply, "prompt_tokens") + Tokens(reply, "completion_tokens"));
    EXPECT_EQ(Tokens(reply, "completion_tokens"), kAnswerTokens);
  }

  // The last request once more.
  Conversation again(conversation.begin(), conversation.end() - 1);
  const HttpReply repeated = Answer(&again);
  EXPECT_EQ(SessionOf(repeated), "forked");
  EXPECT_EQ(again, conversation);

  // Another third question. The session that has read the first one stays as it is.
  Conversation other(conversation.begin(), conversation.begin() + 4);
  other.emplace_back("user", "while True:");
  const HttpReply diverged = Answer(&other);
  EXPECT_EQ(SessionOf(diverged), "forked");
  EXPECT_GE(CachedTokens(diverged), 50) << "the first two questions and answers";
  conversation.emplace_back("user", "print");
  EXPECT_EQ(SessionOf(Answer(&conversation)), "continued");
  other.emplace_back("user", "break");
  EXPECT_EQ(SessionOf(Answer(&other)), "continued");

  // The first message differs.
  Conversation strange = conversation;
  strange.front().second = "import sys";
  strange.emplace_back("user", "x");
  EXPECT_EQ(SessionOf(Answer(&strange)), "new");

  EXPECT_EQ(server_.Metric("longstream_http_turns_total", {{"session", "continued"}}), 6);
  EXPECT_EQ(server_.Metric("longstream_http_turns_total", {{"session", "forked"}}), 2);
  EXPECT_EQ(server_.Metric("longstream_http_turns_total", {{"session", "new"}}), 2);
  EXPECT_EQ(server_.process().Stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Demo, DemoConversationTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& model) { return model.param; });

// The template begins the thoughts of an answer, and leaves out those of earlier ones.
TEST(ConversationsTest, AnswersAreFoundWithTheirThoughtsAndWithoutThem) {
  const ChatModelDirectory directory("dense");
  directory.Write(
      "chat_template.jinja",
      "{%- for m in messages %}# {{ m.role }}\n{{ m.content.split('</think>')[-1] }}\n{% endfor %}"
      "{% if add_generation_prompt %}# assistant\n<think>\n{% endif %}");
  ChatServer server(directory.Arguments());
  for (const std::string form : {"without", "with", "inline"}) {
    SCOPED_TRACE(form);
    const std::string question = "import " + form;
    Json body = ChatBody({{"user", question}});
    const Json first = server.Chat(body).json();
    const Json& message = first["choices"][0]["message"];
    // The model of code never ends its thoughts.
    EXPECT_EQ(message["content"], "");
    const std::string thoughts = message["reasoning_content"];
    EXPECT_FALSE(thoughts.empty());
    EXPECT_EQ(first["usage"]["completion_tokens_details"]["reasoning_tokens"], kAnswerTokens);
    Json repeated = {{"role", "assistant"}, {"content", ""}};
    if (form == "with") repeated["reasoning_content"] = thoughts;
    if (form == "inline") repeated["content"] = "<think>\n" + thoughts + "</think>";
    body["messages"].push_back(repeated);
    body["messages"].push_back({{"role", "user"}, {"content", "def f():"}});
    const HttpReply second = server.Chat(body);
    EXPECT_EQ(SessionOf(second), "continued");
    // All tokens before the thoughts, but the one before the first difference.
    EXPECT_EQ(CachedTokens(second),
              static_cast<int64_t>(("# user\n" + question + "\n# assistant\n").size()) - 1);
  }
  EXPECT_EQ(server.process().Stop(), 0);
}

// Other callers use the gateway's sessions over gRPC.
TEST(ConversationsTest, GoOnWhenSomebodyElseChangesTheirSession) {
  const ChatModelDirectory directory("dense");
  ChatServer server(directory.Arguments());
  client::Connection& connection = server.connection();
  Conversation conversation = {{"user", "import os"}};
  std::string turn;
  const auto answer = [&] {
    const HttpReply reply = server.Chat(ChatBody(conversation));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(TextOf(reply), FreshAnswer(connection, conversation));
    conversation.emplace_back("assistant", TextOf(reply));
    conversation.emplace_back("user", "def f():");
    turn = reply.json()["longstream"]["turn_id"];
    return reply;
  };
  const auto session = [&] { return connection.Sessions("m").at(0).session_id(); };

  answer();
  const std::string first_turn = turn;
  EXPECT_EQ(SessionOf(answer()), "continued");
  connection.RewindToTurn(session(), first_turn);
  answer();
  connection.RewindToPosition(session(), 3);
  answer();
  connection.Append(session(), "something else");
  answer();
  const std::string own = connection.Open("m").session_id();
  connection.Generate(WholeTurn(session(), {{"user", "another conversation"}}));
  answer();
  for (const v1::Session& one : connection.Sessions("m")) connection.Close(one.session_id());
  EXPECT_EQ(SessionOf(answer()), "new");
  EXPECT_EQ(SessionOf(answer()), "continued");
  EXPECT_THROW(connection.Get(own), client::CallError);

  // The session is gone, and a request wants to fork it.
  connection.Close(session());
  conversation.resize(3);
  EXPECT_EQ(SessionOf(answer()), "new");
  EXPECT_EQ(server.process().Stop(), 0);
}

// Somebody else runs a turn on the session when the next request of its conversation comes.
TEST(ConversationsTest, GoOnWhileSomebodyElseUsesTheirSession) {
  const ChatModelDirectory directory;
  ChatServer server(directory.Arguments(",options.step_delay_us=2000"));
  client::Connection& connection = server.connection();
  Conversation conversation = {{"user", "abc"}};
  const HttpReply first = server.Chat(ChatBody(conversation));
  conversation.emplace_back("assistant", TextOf(first));
  conversation.emplace_back("user", "def");
  const std::string session = first.json()["longstream"]["session_id"];
  bool answered = false;
  try {
    connection.Generate(WholeTurn(session, conversation, 1000), [&](const v1::GenerateResponse& r) {
      if (!r.has_delta()) return true;
      const HttpReply reply = server.Chat(ChatBody(conversation));
      EXPECT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(TextOf(reply), FreshAnswer(connection, conversation));
      answered = true;
      return false;
    });
  } catch (const client::CallError&) {  // the turn was stopped
  }
  EXPECT_TRUE(answered);
  EXPECT_EQ(server.process().Stop(), 0);
}

// There is room for fewer sessions than there are conversations.
class FewSessionsTest : public testing::Test {
 protected:
  // Each of ten conversations has two requests.
  void Converse(ChatServer& server) {
    std::vector<Conversation> all;
    for (int i = 0; i < 10; ++i) all.push_back({{"user", "question " + std::to_string(i)}});
    for (int round = 0; round < 2; ++round) {
      for (Conversation& conversation : all) {
        const HttpReply reply = server.Chat(ChatBody(conversation));
        ASSERT_EQ(reply.status, 200) << reply.body;
        conversation.emplace_back("assistant", TextOf(reply));
        conversation.emplace_back("user", "and");
        EXPECT_LE(server.connection().Sessions("m").size(), 3u);
        EXPECT_LE(server.PlainMetric("longstream_http_sessions"), 3);
        answers_[conversation] = TextOf(reply);
      }
    }
  }
  void ExpectRightAnswers(ChatServer& server) {
    // Room for the sessions of this test.
    for (const v1::Session& one : server.connection().Sessions("m")) {
      server.connection().Close(one.session_id());
    }
    for (const auto& [conversation, answer] : answers_) {
      const Conversation asked(conversation.begin(), conversation.end() - 2);
      EXPECT_EQ(answer, FreshAnswer(server.connection(), asked));
    }
  }

  const ChatModelDirectory directory_;
  std::map<Conversation, std::string> answers_;
};

TEST_F(FewSessionsTest, TheServerHasRoomForThree) {
  ChatServer server(directory_.Arguments("", "sessions: {max: 3}"));
  ASSERT_NO_FATAL_FAILURE(Converse(server));
  ExpectRightAnswers(server);
  EXPECT_EQ(server.process().Stop(), 0);
}

TEST_F(FewSessionsTest, TheListenerKeepsThree) {
  ChatServer server(directory_.Arguments("", "http: {max_sessions: 3}"));
  ASSERT_NO_FATAL_FAILURE(Converse(server));
  ExpectRightAnswers(server);
  EXPECT_EQ(server.process().Stop(), 0);
}

TEST_F(FewSessionsTest, AForkNeedsRoomToo) {
  ChatServer server(directory_.Arguments("", "sessions: {max: 1}"));
  Conversation conversation = {{"user", "abc"}};
  for (const char* const how : {"new", "continued", "new", "new"}) {
    const HttpReply reply = server.Chat(ChatBody(conversation));
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(SessionOf(reply), how);
    if (conversation.size() == 1) {
      conversation.emplace_back("assistant", TextOf(reply));
      conversation.emplace_back("user", "def");
    }
    answers_[conversation] = TextOf(reply);
  }
  EXPECT_EQ(server.process().Stop(), 0);
}

// Many clients at once, some of them with the same conversation. No turn may find its session in
// use, and no client may get the answer of another one.
TEST(ConversationsTest, OfManyClientsAtOnce) {
  constexpr int kClients = 16;
  constexpr int kRequests = 5;
  const ChatModelDirectory directory;
  ChatServer server(directory.Arguments(",options.step_delay_us=300"));
  std::vector<Conversation> ends(kClients);
  std::vector<std::set<std::string>> turns(kClients);
  std::vector<std::string> errors(kClients);
  {
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        Conversation& conversation = ends[i];
        for (int request = 0; request < kRequests; ++request) {
          // All share the first question, and four each the second.
          const int who = request == 0 ? 0 : request == 1 ? i % 4 : request == 2 ? i % 8 : i;
          conversation.emplace_back("user", "I am " + std::to_string(who));
          const HttpReply reply = server.Chat(ChatBody(conversation));
          if (reply.status != 200) {
            errors[i] = reply.body;
            return;
          }
          turns[i].insert(reply.json()["longstream"]["turn_id"]);
          conversation.emplace_back("assistant", TextOf(reply));
        }
      });
    }
  }
  std::map<Conversation, std::string> fresh;
  std::set<std::string> all_turns;
  for (int i = 0; i < kClients; ++i) {
    ASSERT_EQ(errors[i], "");
    all_turns.insert(turns[i].begin(), turns[i].end());
    for (size_t end = 1; end < ends[i].size(); end += 2) {
      const Conversation asked(ends[i].begin(), ends[i].begin() + static_cast<long>(end));
      std::string& answer = fresh[asked];
      if (answer.empty()) answer = FreshAnswer(server.connection(), asked);
      EXPECT_EQ(ends[i][end].second, answer);
    }
  }
  EXPECT_EQ(all_turns.size(), static_cast<size_t>(kClients * kRequests));
  EXPECT_EQ(server.Metric("longstream_http_requests_total", {{"code", "200"}}),
            kClients * kRequests);
  EXPECT_GE(server.Metric("longstream_http_turns_total", {{"session", "continued"}}), kClients);
  EXPECT_EQ(server.process().Stop(), 0);
}

}  // namespace
}  // namespace longstream
