// Several gateways and servers: conversations and responses go on at any of them, also after
// restarts, and each answer is that of a session that has read the conversation for the first time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/e2e/http/gateways_fixture.h"
#include "tests/processes/free_port.h"
#include "tests/processes/postgres_server.h"
#include "tests/processes/server_process.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

class DemoGatewaysTest : public GatewaysTest, public testing::WithParamInterface<std::string> {
 protected:
  DemoGatewaysTest() : GatewaysTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Demo, DemoGatewaysTest, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& model) { return model.param; });

TEST_P(DemoGatewaysTest, AConversationGoesOnAtEachOfThem) {
  Conversation conversation;
  std::string session;
  int64_t known = 0;
  for (size_t turn = 0; turn < 6; ++turn) {
    conversation.emplace_back("user", "import os" + std::to_string(turn));
    const HttpReply reply = Answer(turn % 2, &conversation);
    if (turn == 0) {
      session = SessionIdOf(reply);
    } else {
      EXPECT_EQ(SessionOf(reply), "continued");
      EXPECT_EQ(SessionIdOf(reply), session);
      EXPECT_GE(CachedTokens(reply), known - 1);
    }
    known = reply.json().at("usage").at("total_tokens");
  }
}

TEST_F(GatewaysTest, ASessionWithWhichAnotherOneHasGoneOnIsForked) {
  Conversation first = {{"user", "abc"}};
  const HttpReply begin = Answer(0, &first);
  Conversation second = first;
  first.emplace_back("user", "def");
  second.emplace_back("user", "ghi");
  EXPECT_EQ(SessionIdOf(Answer(1, &second)), SessionIdOf(begin));
  // Gateway 0 believes that the session is as it has left it.
  const HttpReply forked = Answer(0, &first);
  EXPECT_EQ(SessionOf(forked), "forked");
  EXPECT_GT(CachedTokens(forked), PromptTokens(begin)) << "up to the first answer";
  // Both go on, at the other gateways.
  first.emplace_back("user", "jkl");
  second.emplace_back("user", "mno");
  EXPECT_EQ(SessionIdOf(Answer(1, &first)), SessionIdOf(forked));
  EXPECT_EQ(SessionIdOf(Answer(0, &second)), SessionIdOf(begin));
  // The same question once more, where it was answered and where it was not.
  for (const size_t gateway : {0, 1}) {
    Conversation again(second.begin(), second.end() - 1);
    EXPECT_EQ(SessionOf(Answer(gateway, &again)), "forked");
  }
}

TEST_F(GatewaysTest, AConversationOutlivesAllProcesses) {
  Conversation conversation = {{"user", "abc"}};
  const std::string session = SessionIdOf(Answer(0, &conversation));
  for (const char* const question : {"def", "ghi"}) {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(gateways_[i]->Stop(), 0);
      StartGateway(i);
    }
    RestartServer();
    conversation.emplace_back("user", question);
    const HttpReply reply = Answer(0, &conversation);
    EXPECT_EQ(SessionOf(reply), "continued");
    EXPECT_EQ(SessionIdOf(reply), session);
  }
}

TEST_F(GatewaysTest, ResponsesGoOnAndAreReadAtEachOfThem) {
  Conversation conversation;
  std::vector<Json> responses;
  for (size_t turn = 0; turn < 5; ++turn) {
    const std::string previous = turn == 0 ? "" : responses.back().at("id").get<std::string>();
    responses.push_back(Respond(turn % 2, "abc" + std::to_string(turn), previous, &conversation));
  }
  EXPECT_EQ(responses.back().at("longstream").at("session"), "continued");
  for (size_t i = 0; i < 2; ++i) {
    gateways_[i]->Signal(SIGKILL);
    gateways_[i]->Wait();
    StartGateway(i);
  }
  RestartServer();
  for (const Json& response : responses) {
    HttpReply reply;
    ASSERT_TRUE(WaitUntil([&] {
      reply = Get(Port(0), ResponsePath(response.at("id")));
      return reply.status != 503;
    }));
    EXPECT_EQ(reply.json(), response);
  }
  Respond(1, "xyz", responses.back().at("id"), &conversation);
  // Behind an earlier one.
  Conversation other(conversation.begin(), conversation.begin() + 4);
  Json fork = Respond(0, "other", responses[1].at("id"), &other);
  EXPECT_EQ(fork.at("longstream").at("session"), "forked");
  // The fork has all that it needs, if the session that it was forked from ends.
  EXPECT_EQ(Ask(Port(0), "DELETE",
                "/longstream/sessions/" +
                    responses[0].at("longstream").at("session_id").get<std::string>())
                .status,
            200);
  EXPECT_EQ(Get(Port(1), ResponsePath(responses[0].at("id"))).status, 404);
  gateways_[1]->Stop();
  StartGateway(1);
  fork = Respond(1, "more", fork.at("id"), &other);
  EXPECT_EQ(fork.at("longstream").at("session"), "continued");
}

TEST_F(GatewaysTest, LongChainsOfResponsesGoOn) {
  Conversation conversation;
  Json last;
  std::vector<std::string> ids;
  for (int i = 0; i < 70; ++i) {
    last = Respond(0, "a", ids.empty() ? "" : ids.back(), &conversation);
    ids.push_back(last.at("id"));
  }
  // Notes of the session that were written first are gone: others have the whole conversation.
  client::Connection connection(Address());
  v1::PutNotesRequest put;
  put.set_session_id(last.at("longstream").at("session_id"));
  for (int i = 0; i < 64; ++i) put.add_notes();
  for (int round = 0; round < 63; ++round) {
    for (int i = 0; i < 64; ++i) {
      put.mutable_notes(i)->set_key(std::to_string(round) + " " + std::to_string(i));
      put.mutable_notes(i)->set_value("x");
    }
    connection.PutNotes(put);
  }
  EXPECT_EQ(Get(Port(1), ResponsePath(ids.front())).status, 404);
  EXPECT_EQ(Get(Port(1), ResponsePath(ids.back())).status, 200);
  Respond(1, "b", ids.back(), &conversation);
}

TEST_F(GatewaysTest, ADeletedResponseIsGoneAtEachOfThem) {
  Conversation conversation;
  const Json first = Respond(0, "abc", "", &conversation);
  const Json second = Respond(1, "def", first.at("id"), &conversation);
  const std::string path = ResponsePath(first.at("id"));
  EXPECT_EQ(Get(Port(0), path).status, 200);
  EXPECT_EQ(Get(Port(1), path, {{"authorization", "Bearer other"}}).status, 404)
      << "another client's";
  EXPECT_EQ(Ask(Port(1), "DELETE", path).json().at("deleted"), true);
  for (const size_t gateway : {0, 1}) {
    EXPECT_EQ(Get(Port(gateway), path).status, 404);
    EXPECT_EQ(Ask(Port(gateway), "DELETE", path).status, 404);
    const HttpReply reply = Post(Port(gateway), kResponsesPath, ResponseBody("x", first.at("id")));
    EXPECT_EQ(reply.status, 404);
    EXPECT_EQ(reply.json().at("error").at("code"), "previous_response_not_found");
  }
  gateways_[0]->Stop();
  StartGateway(0);
  Respond(0, "ghi", second.at("id"), &conversation);
}

TEST_F(GatewaysTest, AResponseOfTheBackgroundIsReadAtEachOfThemWhenItHasEnded) {
  Json body = ResponseBody("abc");
  body["background"] = true;
  const std::string path = ResponsePath(Post(Port(0), kResponsesPath, body).json().at("id"));
  HttpReply reply;
  ASSERT_TRUE(WaitUntil([&] {
    reply = Get(Port(1), path);
    return reply.status == 200 && reply.json().at("status") == "incomplete";
  }));
  EXPECT_EQ(reply.json(), Get(Port(0), path).json());
  EXPECT_EQ(reply.json().at("status"), "incomplete") << "after 12 tokens";
  EXPECT_EQ(Ask(Port(1), "POST", path + "/cancel").status, 400);
}

TEST_F(GatewaysTest, SeveralAnswersCanAllBeContinuedElsewhere) {
  Json body = ChatBody({{"user", "abc"}});
  body["n"] = 3;
  body["temperature"] = 1.0;
  body["seed"] = 5;
  const Json choices = Post(Port(0), kChatPath, body).json().at("choices");
  ASSERT_EQ(choices.size(), 3u);
  for (const Json& choice : choices) {
    Conversation conversation = {
        {"user", "abc"}, {"assistant", choice.at("message").at("content")}, {"user", "def"}};
    const HttpReply reply = Answer(1, &conversation);
    EXPECT_EQ(SessionOf(reply), "continued");
  }
}

// Clients go on with any earlier beginning of their conversations, at any gateway, while these and
// the server are killed.
TEST_F(GatewaysTest, RandomConversationsAndRestarts) {
  std::mt19937 random(20261130);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  const auto below = [&random](size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random);
  };
  std::vector<Conversation> conversations;
  size_t found = 0, later = 0;
  for (int step = 0; step < 120; ++step) {
    SCOPED_TRACE(step);
    const size_t event = below(24);
    if (event == 0) RestartServer();
    if (event == 1 || event == 2) {
      gateways_[event - 1]->Signal(below(2) == 0 ? SIGKILL : SIGTERM);
      gateways_[event - 1]->Wait();
      StartGateway(event - 1);
    }
    Conversation conversation;
    if (!conversations.empty() && below(8) != 0) {
      conversation = conversations[below(conversations.size())];
      // Often its end, sometimes an earlier answer.
      if (below(3) == 0) conversation.resize(2 * (1 + below(conversation.size() / 2)));
    }
    const bool goes_on = !conversation.empty();
    conversation.emplace_back("user", std::string(1 + below(4), static_cast<char>('a' + below(4))));
    const HttpReply reply = Answer(below(2), &conversation);
    if (reply.status != 200) continue;
    later += goes_on ? 1 : 0;
    found += goes_on && SessionOf(reply) != "new" ? 1 : 0;
    conversations.push_back(std::move(conversation));
    if (conversations.size() > 12) conversations.erase(conversations.begin());
  }
  EXPECT_EQ(found, later) << "a session was found for each of them";
}

// --- replicas that share a database, each with its own HTTP listener ----------------------------

class ReplicasTest : public testing::Test {
 protected:
  // A replica learns of others when it renews its lease, three times in `lease_ttl`.
  void Start(const std::string& lease_ttl) {
    for (int i = 0; i < 2; ++i) {
      const std::string name = "replica-" + std::to_string(i);
      const std::string config = files_.Write(
          name + ".yaml", "store: {url: '" + url_ + "', segments: " + files_.string() +
                              "/segments}\nhttp: {durable: true}\nfleet: {replica_id: " + name +
                              ", peer_listen: '127.0.0.1:" + std::to_string(FreePort()) +
                              "', min_residency: 0s, lease_ttl: " + lease_ttl + "}\n");
      replicas_.push_back(std::make_unique<ServerProcess>(
          kServerBinary, std::vector<std::string>{"--plugins", LONGSTREAM_BINARY_DIR "/plugins",
                                                  "--model", directory_.Flag(), "--config", config,
                                                  "--http-listen", "127.0.0.1:0"}));
      client::Connection(replicas_.back()->address()).WaitUntilServing("m", kPatience);
    }
  }

  HttpReply Ask(size_t replica, const char* path, const Json& body) const {
    HttpReply reply = Post(replicas_[replica]->http_port(), path, body);
    EXPECT_EQ(reply.status, 200) << reply.body << replicas_[replica]->Log();
    return reply;
  }

  PostgresServer postgres_;
  const std::string url_ = postgres_.Url(postgres_.NewDatabase());
  const ChatModelDirectory directory_{"hypenet"};
  const TemporaryDirectory files_;
  std::vector<std::unique_ptr<ServerProcess>> replicas_;
};

TEST_F(ReplicasTest, AConversationMovesWithItsClient) {
  Start("3s");
  client::Connection connection(replicas_[0]->address());
  Conversation conversation;
  std::string session, response;
  int64_t known = 0;
  for (size_t turn = 0; turn < 6; ++turn) {
    SCOPED_TRACE(turn);
    conversation.emplace_back("user", "import " + std::to_string(turn));
    const HttpReply reply = Ask(turn % 2, kChatPath, ChatBody(conversation));
    EXPECT_EQ(TextOf(reply), FreshAnswer(connection, conversation));
    if (turn > 0) {
      EXPECT_EQ(SessionOf(reply), "continued");
      EXPECT_EQ(SessionIdOf(reply), session);
      EXPECT_GE(CachedTokens(reply), known - 64) << "its caches have come with it";
    }
    session = SessionIdOf(reply);
    known = reply.json().at("usage").at("total_tokens");
    conversation.emplace_back("assistant", TextOf(reply));
    const Json answer = Ask(turn % 2, kResponsesPath, ResponseBody("abc", response)).json();
    EXPECT_EQ(answer.at("longstream").at("session"), turn > 0 ? "continued" : "new");
    response = answer.at("id");
  }
}

// The lease of the replica that had the session is not over.
TEST_F(ReplicasTest, AConversationOutlivesItsReplica) {
  Start("30s");
  Conversation conversation = {{"user", "import os"}};
  const HttpReply first = Ask(0, kChatPath, ChatBody(conversation));
  conversation.emplace_back("assistant", TextOf(first));
  conversation.emplace_back("user", "import sys");
  replicas_[0]->Signal(SIGKILL);
  const HttpReply second = Ask(1, kChatPath, ChatBody(conversation));
  client::Connection connection(replicas_[1]->address());
  EXPECT_EQ(TextOf(second), FreshAnswer(connection, conversation));
  EXPECT_EQ(SessionOf(second), "forked");
}

// The store takes no notes: answers come nevertheless.
TEST(NotesTest, WithoutAStoreTheServerRefusesThem) {
  const ChatModelDirectory directory;
  ChatServer server(directory.Arguments());
  v1::PutNotesRequest put;
  put.set_session_id(server.connection().Open("m").session_id());
  put.add_notes()->set_key("a");
  try {
    server.connection().PutNotes(put);
    FAIL() << "notes without a store";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(error.status().error_message(), HasSubstr("no store"));
  }
}

}  // namespace
}  // namespace longstream
