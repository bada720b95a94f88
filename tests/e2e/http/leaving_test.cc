// Clients that leave before their answer has ended. Their turns are cancelled, whether they run or
// wait, and nothing of them stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr int kManyTokens = 20000;  // a minute

// One turn at a time, so that others wait.
class LeavingTest : public testing::Test {
 protected:
  // Waits until so many turns run and wait.
  void ExpectTurns(double running, double waiting) const {
    EXPECT_TRUE(WaitUntil([&] {
      return server_.Metric("longstream_requests_running") == running &&
             server_.Metric("longstream_requests_waiting") == waiting;
    })) << running
        << " " << waiting;
  }
  // Waits until the server is done with so many clients that have left. Only then their sessions
  // are free for others: the end of a turn comes a little before.
  void ExpectLeft(double count) const {
    const std::map<std::string, std::string> labels = {{"route", kChatPath}, {"code", "499"}};
    const char* const name = "longstream_http_requests_total";
    EXPECT_TRUE(WaitUntil([&] { return server_.Metric(name, labels) == count; }))
        << server_.Metric(name, labels);
  }
  size_t NumSessions() { return server_.connection().Sessions("m").size(); }
  void ExpectSessions(size_t count) {
    EXPECT_TRUE(WaitUntil([&] { return NumSessions() == count; })) << NumSessions();
    EXPECT_TRUE(WaitUntil([&] {
      return server_.PlainMetric("longstream_http_sessions") == static_cast<double>(count);
    }));
  }
  // Begins a long answer, and leaves after some pieces of it.
  void LeaveInTheMiddle(const Conversation& conversation, bool reset) const {
    HttpStream stream(server_.http(), kChatPath, StreamBody(conversation, kManyTokens));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream.Next().has_value());
    if (reset) {
      stream.Reset();
    } else {
      stream.Leave();
    }
  }
  HttpReply ExpectRightAnswer(const Conversation& conversation) {
    HttpReply reply = server_.Chat(ChatBody(conversation));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(TextOf(reply), FreshAnswer(server_.connection(), conversation));
    return reply;
  }

  const ChatModelDirectory directory_;
  ChatServer server_{directory_.Arguments(
      ",options.step_delay_us=3000", "scheduler: {max_batch_sequences: 1, max_open_turns: 1}")};
};

TEST_F(LeavingTest, InTheMiddleOfAStream) {
  const Conversation first = {{"user", "abc"}};
  LeaveInTheMiddle(first, false);
  ExpectTurns(0, 0);
  const size_t descriptors = server_.process().descriptors();
  const size_t threads = server_.process().threads()["longstream-serv"];
  for (int i = 0; i < 20; ++i) {
    LeaveInTheMiddle(first, i % 2 == 0);
    ExpectTurns(0, 0);
  }
  ExpectSessions(0);
  EXPECT_EQ(server_.PlainMetric("longstream_session_host_bytes"), 0);
  EXPECT_TRUE(WaitUntil([&] { return server_.process().descriptors() <= descriptors + 2; }));
  EXPECT_LE(server_.process().threads()["longstream-serv"], threads + 5);

  // The session of a turn that continues a conversation stays, and another turn continues it.
  const HttpReply answer = ExpectRightAnswer(first);
  EXPECT_EQ(SessionOf(answer), "new");
  Conversation second = first;
  second.emplace_back("assistant", TextOf(answer));
  second.emplace_back("user", "def");
  for (int i = 0; i < 5; ++i) {
    LeaveInTheMiddle(second, i % 2 == 0);
    ExpectTurns(0, 0);
  }
  ExpectSessions(1);
  ExpectLeft(26);
  const HttpReply next = ExpectRightAnswer(second);
  EXPECT_EQ(SessionOf(next), "continued");
  EXPECT_EQ(next.json()["longstream"]["session_id"], answer.json()["longstream"]["session_id"]);

  // The session of a fork ends with its only turn.
  for (int i = 0; i < 5; ++i) {
    LeaveInTheMiddle(first, i % 2 == 0);
    ExpectTurns(0, 0);
  }
  ExpectSessions(1);
  ExpectLeft(31);
  EXPECT_EQ(SessionOf(ExpectRightAnswer(first)), "forked");
  EXPECT_EQ(server_.process().Stop(), 0);
}

TEST_F(LeavingTest, WhileTheTurnWaitsBehindOthers) {
  HttpStream running(server_.http(), kChatPath, StreamBody({{"user", "first"}}, kManyTokens));
  ASSERT_TRUE(running.Next().has_value());
  for (int round = 0; round < 3; ++round) {
    std::list<HttpStream> waiting;
    for (int i = 0; i < 3; ++i) {
      const Conversation conversation = {{"user", "waits " + std::to_string(i)}};
      waiting.emplace_back(server_.http(), kChatPath, StreamBody(conversation));
      waiting.emplace_back(server_.http(), kChatPath, ChatBody(conversation));
    }
    const Json completion = {{"model", "m"}, {"prompt", "waits"}};
    waiting.emplace_back(server_.http(), kCompletionsPath, completion);
    ExpectTurns(1, 7);
    if (round == 1) waiting.front().Reset();
    waiting.clear();
    ExpectTurns(1, 0);
    ExpectSessions(1);
  }
  ASSERT_TRUE(running.Next().has_value()) << "this client is still there";
  running.Leave();
  ExpectTurns(0, 0);
  ExpectSessions(0);
  EXPECT_EQ(SessionOf(ExpectRightAnswer({{"user", "waits 1"}})), "new");
  EXPECT_EQ(server_.process().Stop(), 0);
}

// Also while the session is being opened or forked.
TEST_F(LeavingTest, AtAnyMoment) {
  const Conversation known = {{"user", "known"}};
  ExpectRightAnswer(known);
  for (int i = 0; i < 400; ++i) {
    const Conversation unknown = {{"user", "unknown " + std::to_string(i)}};
    const Json body = StreamBody(i % 2 == 0 ? known : unknown, kManyTokens);
    HttpStream stream(server_.http(), kChatPath, body);
    std::this_thread::sleep_for(std::chrono::microseconds(5 * i));
    stream.Reset();
  }
  ExpectTurns(0, 0);
  ExpectSessions(1);
  EXPECT_EQ(SessionOf(ExpectRightAnswer(known)), "forked");
  EXPECT_EQ(server_.process().Stop(), 0);
}

TEST_F(LeavingTest, WhileThePromptIsRead) {
  const Conversation conversation = {{"user", std::string(60'000, 'x')}};
  for (int i = 0; i < 5; ++i) {
    HttpStream stream(server_.http(), kChatPath, StreamBody(conversation));
    EXPECT_EQ(stream.status(), 200);
    stream.Leave();
    ExpectTurns(0, 0);
  }
  ExpectSessions(0);
  ExpectRightAnswer(conversation);
  EXPECT_EQ(server_.process().Stop(), 0);
}

}  // namespace
}  // namespace longstream
