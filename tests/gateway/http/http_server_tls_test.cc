// The server over TLS.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gateway/http/http_server.h"
#include "tests/gateway/http/http_client.h"
#include "tests/gateway/http/http_server_fixture.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/tls_client.h"

namespace longstream::gateway {
namespace {

class HttpServerTlsTest : public HttpServerTest {
 protected:
  void StartTls(HttpServer::Options options, HttpServer::Handler handler) {
    const TestCertificate own = IssueForServer(&authority_);
    options.certificates = std::make_shared<CurrentCertificates>(
        Certificates{own.certificate, own.key, authority_.certificate(), absl::InfiniteFuture()});
    Start(options, std::move(handler));
  }
  std::string AskOverTls(const std::string& request, const TestCertificate& own = {}) {
    return TlsClient(server_->port(), authority_.certificate(), own).Ask(request);
  }
  // A request whose answer ends the connection.
  static std::string Last(const std::string& body) {
    return "POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  TestAuthority authority_;
};

TEST_F(HttpServerTlsTest, Answers) {
  StartTls({}, Echo);
  const std::string answer = AskOverTls(PostRequest("/", "abc") + Last("def"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\r\n\r\nabcHTTP/1.1 200 OK\r\n"), std::string::npos) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\ndef")) << answer;
}

// More than the server reads of a connection at once: the rest is in OpenSSL's buffers.
TEST_F(HttpServerTlsTest, LargeBodies) {
  StartTls({}, Echo);
  const std::string body(5'000'000, 'a');
  const std::string answer = AskOverTls(Last(body));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + body)) << answer.size();
}

TEST_F(HttpServerTlsTest, ManyRequestsInOnePacket) {
  StartTls({}, Echo);
  std::string requests;
  for (int i = 0; i < 3000; ++i) requests += PostRequest("/", "abc");
  const std::string answer = AskOverTls(requests + Last("the end"));
  EXPECT_TRUE(answer.ends_with("the end"));
  size_t answers = 0;
  for (size_t at = 0; (at = answer.find("HTTP/1.1 200 OK", at)) != std::string::npos; ++at) {
    ++answers;
  }
  EXPECT_EQ(answers, 3001u);
}

TEST_F(HttpServerTlsTest, Events) {
  StartTls({}, [](Exchange& exchange) {
    exchange.BeginEvents({});
    for (int i = 0; i < 1000; ++i) exchange.SendEvent(std::string(1000, 'a'));
  });
  const std::string answer = AskOverTls(Last(""));
  EXPECT_TRUE(answer.ends_with("a\r\n0\r\n\r\n"));
  EXPECT_GT(answer.size(), 1'000'000u);
}

TEST_F(HttpServerTlsTest, ClientsWithoutTheRightCertificateGetNoAnswer) {
  StartTls({.client_certificates = ClientCertificates::kRequired}, Echo);
  EXPECT_NE(AskOverTls(Last("abc"), authority_.Issue("client", "")), "");
  EXPECT_EQ(AskOverTls(Last("abc")), "");
  TestAuthority stranger;
  EXPECT_EQ(AskOverTls(Last("abc"), stranger.Issue("client", "")), "");
}

TEST_F(HttpServerTlsTest, PlainTextGetsNoAnswer) {
  StartTls({}, Echo);
  EXPECT_EQ(Connect().Ask(GetRequest("/")).status, 0);
  EXPECT_EQ(WaitForRefused(1, "protocol"), 1);
  EXPECT_NE(AskOverTls(Last("abc")), "");
}

TEST_F(HttpServerTlsTest, HalfHandshakesEnd) {
  StartTls({.times = {.request = absl::Seconds(1)}}, Echo);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(Connect());
    if (i % 2 == 0) clients.back().Send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  }
  EXPECT_NE(AskOverTls(Last("abc")), "");
  for (HttpClient& client : clients) client.Ends();
  EXPECT_EQ(WaitForRefused(20, "timeout"), 20);
}

TEST_F(HttpServerTlsTest, ShutdownDuringManyRequests) {
  for (int round = 0; round < 3; ++round) {
    StartTls({}, Echo);
    const int port = server_->port();
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        try {
          for (;;) TlsClient(port, authority_.certificate()).Ask(Last("abc"));
        } catch (const std::runtime_error&) {  // the server is gone
        }
      });
    }
    absl::SleepFor(absl::Milliseconds(100));
    server_->Shutdown(round == 0 ? absl::Seconds(20) : absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace longstream::gateway
