// The HTTP API's credentials, tenants and TLS, and configurations that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/chat_server.h"
#include "tests/processes/server_process.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/tls_client.h"
#include "tests/service/security/token_row.h"

namespace longstream {
namespace {

using client::ChannelSecurity;
using testing::HasSubstr;
using testing::Not;

const Conversation kConversation = {{"user", "abc"}};

Headers Bearer(const std::string& token) { return {{"Authorization", "Bearer " + token}}; }

ChannelSecurity With(const std::string& token) {
  ChannelSecurity security;
  security.token = token;
  return security;
}

class HttpSecurityTest : public testing::Test {
 protected:
  HttpSecurityTest() {
    files_.WriteSecret("credentials", TokenRow("alice", "role=client tenant=a") +
                                          TokenRow("anne", "role=client tenant=a") +
                                          TokenRow("bob", "role=client tenant=b") +
                                          TokenRow("operator", "role=operator"));
    files_.WriteSecret("single", TokenRow("alice", "role=client"));
  }
  std::string Credentials(const std::string& name = "credentials") const {
    return "security: {credentials: " + files_.string() + "/" + name + "}\n";
  }
  // `quotas`: of the tenant a.
  std::unique_ptr<ChatServer> WithTenants(const std::string& quotas = "") const {
    return std::make_unique<ChatServer>(
        directory_.Arguments("", Credentials() + "tenants: [{name: a" + quotas + "}, {name: b}]"),
        With("alice"));
  }
  // The log of a server that must not start, without the listener of Arguments().
  std::string ErrorOfStart(const std::string& yaml) const {
    std::vector<std::string> arguments = directory_.Arguments("", yaml);
    arguments.resize(arguments.size() - 2);
    const ServerRun run = RunServer(kServerBinary, arguments);
    EXPECT_NE(run.exit_code, 0) << yaml;
    return run.log;
  }
  std::string Tls() const {
    return "tls: {certificate: " + files_.string() + "/cert.pem, key: " + files_.string() +
           "/key.pem}";
  }
  void WriteCertificate(const TestCertificate& own) const {
    files_.Write("cert.pem", own.certificate);
    files_.WriteSecret("key.pem", own.key);
  }

  const ChatModelDirectory directory_;
  const TemporaryDirectory files_;
};

TEST_F(HttpSecurityTest, EachRequestNeedsACredential) {
  const auto server = WithTenants();
  const Headers refused[] = {
      {},
      Bearer("wrong"),
      Bearer(""),
      {{"Authorization", "Basic YWxpY2U6"}},
      {{"x-api-key", "wrong"}},
      {{"Authorization", "Bearer wrong"}, {"x-api-key", "alice"}},
      Bearer("al\xc3\xaf"),  // gRPC takes no such character
      Bearer("alice\talice"),
      Bearer(std::string(10'000, 'x')),
      {{"x-api-key", "\xff\xfe"}},
  };
  for (const Headers& headers : refused) {
    for (const HttpReply& reply :
         {server->Chat(ChatBody(kConversation), headers),
          Post(server->http(), kCompletionsPath, {{"model", "m"}, {"prompt", "a"}}, headers),
          Get(server->http(), "/v1/models", headers),
          Get(server->http(), "/v1/models/m", headers)}) {
      EXPECT_EQ(reply.status, 401) << reply.body;
      EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer");
      EXPECT_EQ(reply.json().at("error").at("type"), "authentication_error");
      EXPECT_THAT(reply.body, Not(HasSubstr("Basic")));
    }
  }
  HttpStream stream(server->http(), kChatPath, StreamBody(kConversation));
  EXPECT_EQ(stream.status(), 401);
  for (const Headers& headers :
       {Bearer("alice"), Headers{{"x-api-key", "alice"}}, Headers{{"api-key", "alice"}}}) {
    EXPECT_EQ(server->Chat(ChatBody(kConversation), headers).status, 200);
    EXPECT_EQ(Get(server->http(), "/v1/models", headers).json().at("data").at(0).at("id"), "m");
  }
  EXPECT_EQ(Get(server->http(), "/health").status, 200) << "security.open_health";
  EXPECT_THAT(server->process().Log(), Not(HasSubstr("wrong"))) << "no credential is logged";
  EXPECT_EQ(server->process().Stop(), 0);
}

TEST_F(HttpSecurityTest, AnOperatorHasNoConversations) {
  const auto server = WithTenants();
  const HttpReply refused = server->Chat(ChatBody(kConversation), Bearer("operator"));
  EXPECT_EQ(refused.status, 403) << refused.body;
  EXPECT_EQ(refused.json().at("error").at("type"), "permission_error");
  EXPECT_EQ(Get(server->http(), "/v1/models", Bearer("operator")).status, 200);
}

// A conversation is private to its credential, and a session to its tenant.
TEST_F(HttpSecurityTest, NobodyGetsTheSessionOfAnother) {
  const auto server = WithTenants();
  const HttpReply alice = server->Chat(ChatBody(kConversation), Bearer("alice"));
  for (const char* const other : {"anne", "bob"}) {
    const HttpReply reply = server->Chat(ChatBody(kConversation), Bearer(other));
    EXPECT_EQ(SessionOf(reply), "new") << other;
    EXPECT_EQ(TextOf(reply), TextOf(alice));
    EXPECT_NE(reply.json()["longstream"]["session_id"], alice.json()["longstream"]["session_id"]);
    EXPECT_EQ(reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  }
  EXPECT_EQ(SessionOf(server->Chat(ChatBody(kConversation), Bearer("alice"))), "forked");
  EXPECT_EQ(server->connection().Sessions("m").size(), 3u) << "of alice and anne";
  client::Connection bob(server->process().address(), With("bob"));
  EXPECT_EQ(bob.Sessions("m").size(), 1u);
  // The credential that names the same token in another way is the same client.
  const Headers by_key = {{"x-api-key", "alice"}};
  EXPECT_EQ(SessionOf(server->Chat(ChatBody(kConversation), by_key)), "forked");
}

// The quota of one tenant is no reason to end sessions of another.
TEST_F(HttpSecurityTest, AFullTenantEndsItsOwnSessions) {
  const auto server = WithTenants(", sessions: 2");
  Conversation of_bob = kConversation;
  const HttpReply first = server->Chat(ChatBody(of_bob), Bearer("bob"));
  of_bob.emplace_back("assistant", TextOf(first));
  of_bob.emplace_back("user", "def");
  for (int i = 0; i < 6; ++i) {
    const Conversation many = {{"user", "question " + std::to_string(i)}};
    EXPECT_EQ(server->Chat(ChatBody(many), Bearer("alice")).status, 200);
  }
  EXPECT_EQ(server->connection().Sessions("m").size(), 2u);
  EXPECT_EQ(SessionOf(server->Chat(ChatBody(of_bob), Bearer("bob"))), "continued");
}

TEST_F(HttpSecurityTest, TlsWorks) {
  TestAuthority authority;
  WriteCertificate(IssueForServer(&authority));
  ChatServer server(directory_.Arguments("", "http: {" + Tls() + "}\n" + Credentials("single")),
                    With("alice"));
  const auto ask = [&](const std::string& token) {
    return TlsClient(server.http(), authority.certificate())
        .Ask(RequestText("POST", kChatPath, ChatBody(kConversation).dump(), Bearer(token)));
  };
  const HttpReply reply = ParseReply(ask("alice"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(TextOf(reply), FreshAnswer(server.connection(), kConversation));
  EXPECT_EQ(ParseReply(ask("wrong")).status, 401);
  const TestAuthority stranger;
  EXPECT_FALSE(TlsClient(server.http(), stranger.certificate()).Connect());
  // A client without TLS gets nothing, and the port goes on.
  const TcpClient plain(server.http());
  plain.Send(RequestText("GET", "/v1/models", ""));
  EXPECT_THAT(plain.ReceiveAll(), Not(HasSubstr("HTTP/1.1")));
  EXPECT_EQ(ParseReply(ask("alice")).status, 200);
  EXPECT_GT(server.Metric("longstream_certificate_expiry_seconds", {{"port", "http"}}), 0);
  EXPECT_EQ(server.process().Stop(), 0);
}

TEST_F(HttpSecurityTest, WrongConfigurationsAreRefusedByName) {
  EXPECT_THAT(ErrorOfStart(Credentials("single") + "http: {listen: '0.0.0.0:0'}"),
              HasSubstr("http.listen"));
  EXPECT_THAT(ErrorOfStart("http: {listen: '127.0.0.1:0', durable: true}"),
              HasSubstr("http.durable: needs a store"));
  EXPECT_THAT(ErrorOfStart("http: {listen: '127.0.0.1:0', idle_timeout: 2h}\n"
                           "sessions: {max_idle_timeout: 1h}"),
              HasSubstr("http.idle_timeout"));
  EXPECT_THAT(ErrorOfStart("http: {listen: '127.0.0.1:0', " + Tls() + "}"),
              HasSubstr("http.tls: " + files_.string() + "/cert.pem: No such file"));
  EXPECT_THAT(ErrorOfStart("http: {listen: '192.0.2.1:1'}"), HasSubstr("http.listen: "));
}

TEST_F(HttpSecurityTest, AnOpenListenerIsAWarning) {
  const auto arguments = directory_.Arguments("", "http: {listen: '0.0.0.0:0'}");
  ServerProcess server(kServerBinary, {arguments.begin(), arguments.end() - 2});
  EXPECT_THAT(server.Log(), HasSubstr("\"event\":\"open_to_network\",\"listen\":\"0.0.0.0:0\""));
}

TEST_F(HttpSecurityTest, CheckConfigShowsTheListener) {
  TestAuthority authority;
  WriteCertificate(IssueForServer(&authority));
  std::vector<std::string> arguments = directory_.Arguments("", "http: {" + Tls() + "}");
  arguments.insert(arguments.begin(),
                   {"-c", "exec \"$@\" >&2", "bash", kServerBinary, "--check-config"});
  const ServerRun right = RunServer("/bin/bash", arguments);
  EXPECT_EQ(right.exit_code, 0) << right.log;
  EXPECT_THAT(right.log, HasSubstr("http.listen: 127.0.0.1:0\n"));
  EXPECT_THAT(right.log, HasSubstr("http.tls: " + files_.string() + "/cert.pem\n  expires 20"));
  files_.Write("cert.pem", "no certificate");
  const ServerRun wrong = RunServer("/bin/bash", arguments);
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.log, HasSubstr("  error: " + files_.string() + "/cert.pem: expected a "));
}

}  // namespace
}  // namespace longstream
