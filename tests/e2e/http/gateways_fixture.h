// One server, and two gateways before it that share conversations and responses.
#ifndef LONGSTREAM_TESTS_E2E_HTTP_GATEWAYS_FIXTURE_H_
#define LONGSTREAM_TESTS_E2E_HTTP_GATEWAYS_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/processes/free_port.h"
#include "tests/processes/server_process.h"
#include "tests/service/wait_until.h"

namespace longstream {

inline constexpr char kResponsesPath[] = "/v1/responses";

inline int64_t CachedTokens(const HttpReply& reply) {
  return reply.json().at("usage").at("prompt_tokens_details").at("cached_tokens");
}
inline int64_t PromptTokens(const HttpReply& reply) {
  return reply.json().at("usage").at("prompt_tokens");
}
inline std::string SessionIdOf(const HttpReply& reply) {
  return reply.json().at("longstream").at("session_id");
}
inline std::string ResponsePath(const std::string& id) {
  return std::string(kResponsesPath) + "/" + id;
}

// The text of a response.
inline std::string ResponseText(const Json& response) {
  std::string text;
  for (const Json& item : response.at("output")) {
    if (item.at("type") == "message") text += item.at("content")[0].at("text");
  }
  return text;
}

inline Json ResponseBody(const std::string& input, const std::string& previous = "") {
  Json body = {{"model", "m"}, {"input", input}, {"max_output_tokens", 12}, {"temperature", 0}};
  if (!previous.empty()) body["previous_response_id"] = previous;
  return body;
}

// One server, and gateways before it.
class GatewaysTest : public testing::Test {
 protected:
  // `options`: further keys of the model.
  explicit GatewaysTest(const std::string& architecture = "minimal",
                        const std::string& options = "")
      : directory_(architecture), options_(options) {
    StartServer();
    for (size_t i = 0; i < 2; ++i) StartGateway(i);
  }

  void StartServer() {
    const std::string command = "exec " + std::string(kServerBinary) + " --listen " + Address() +
                                " --metrics-listen '' --plugins " LONGSTREAM_BINARY_DIR
                                "/plugins --store " +
                                store_ + " --model " + directory_.Flag(options_);
    server_ = std::make_unique<ServerProcess>("/bin/bash", std::vector<std::string>{"-c", command});
    client::Connection(Address()).WaitUntilServing("m", std::chrono::seconds(30));
  }
  void RestartServer() {
    server_->Signal(SIGKILL);
    server_->Wait();
    StartServer();
  }
  void StartGateway(size_t i) {
    gateways_[i] = std::make_unique<ServerProcess>(
        kGatewayBinary,
        std::vector<std::string>{"--server", Address(), "--durable", "--grace", "1"});
  }
  std::string Address() const { return "127.0.0.1:" + std::to_string(port_); }
  int Port(size_t gateway) const { return gateways_[gateway]->port(); }

  // Sends the conversation and adds the answer, which must be that of a fresh session.
  HttpReply Answer(size_t gateway, Conversation* conversation) {
    HttpReply reply;
    // A gateway that has not noticed a restart yet may lose its connection.
    EXPECT_TRUE(WaitUntil([&] {
      reply = Post(Port(gateway), kChatPath, ChatBody(*conversation));
      return reply.status != 503;
    }));
    EXPECT_EQ(reply.status, 200) << reply.body;
    if (reply.status != 200) return reply;
    client::Connection connection(Address());
    EXPECT_EQ(TextOf(reply), FreshAnswer(connection, *conversation));
    conversation->emplace_back("assistant", TextOf(reply));
    return reply;
  }
  // The same for a response.
  Json Respond(size_t gateway, const std::string& input, const std::string& previous,
               Conversation* conversation) {
    conversation->emplace_back("user", input);
    HttpReply reply;
    EXPECT_TRUE(WaitUntil([&] {
      reply = Post(Port(gateway), kResponsesPath, ResponseBody(input, previous));
      return reply.status != 503;
    }));
    EXPECT_EQ(reply.status, 200) << reply.body;
    if (reply.status != 200) return {};
    client::Connection connection(Address());
    EXPECT_EQ(ResponseText(reply.json()), FreshAnswer(connection, *conversation));
    conversation->emplace_back("assistant", ResponseText(reply.json()));
    return reply.json();
  }

  const ChatModelDirectory directory_;
  const std::string options_;
  const TemporaryDirectory files_;
  const std::string store_ = files_.string() + "/store";
  const int port_ = FreePort();
  std::unique_ptr<ServerProcess> server_, gateways_[2];
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HTTP_GATEWAYS_FIXTURE_H_
