// The metrics port with TLS and with credentials.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/scrapes/metrics_server.h"
#include "tests/service/metric_value.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/tls_client.h"
#include "tests/service/security/token_row.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;

std::string Get(const std::string& header = "") {
  return "GET /metrics HTTP/1.1\r\nHost: a\r\n" + header + "\r\n";
}

class GuardedScrapeTest : public testing::Test {
 protected:
  GuardedScrapeTest() {
    signal(SIGPIPE, SIG_IGN);
    prometheus::BuildGauge().Name("answer").Help("A metric").Register(*registry_).Add({}).Set(42);
  }

  void Start(const ScrapeSecurity& security, absl::Duration timeout = absl::Seconds(20)) {
    auto server = MetricsServer::Start("127.0.0.1:0", registry_, timeout, security);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::shared_ptr<CurrentCertificates> NewCertificates() {
    const TestCertificate own = IssueForServer(&authority_);
    return std::make_shared<CurrentCertificates>(
        Certificates{own.certificate, own.key, authority_.certificate(), absl::InfiniteFuture()});
  }
  std::string AskOverTls(const TestCertificate& own = {}, const std::string& header = "") {
    return TlsClient(server_->port(), authority_.certificate(), own).Ask(Get(header));
  }
  std::string AskInPlainText(const std::string& header = "") {
    const TcpClient client(server_->port());
    EXPECT_TRUE(client.Send(Get(header)));
    return client.ReceiveAll();
  }
  static bool HasMetrics(const std::string& answer) {
    return answer.starts_with("HTTP/1.1 200 OK\r\n") &&
           answer.find("\nanswer 42\n") != std::string::npos;
  }
  double Refused(const std::string& reason) {
    return MetricValue(*registry_, "longstream_connections_refused_total", {{"reason", reason}});
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  TestAuthority authority_;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(GuardedScrapeTest, AnswersOverTls) {
  Start({.certificates = NewCertificates()});
  EXPECT_TRUE(HasMetrics(AskOverTls()));
  EXPECT_TRUE(HasMetrics(
      TlsClient(server_->port(), authority_.certificate(), {}, TLS1_2_VERSION).Ask(Get())));
  EXPECT_TRUE(
      LenientServerTakes(authority_.certificate(), IssueForServer(&authority_), TLS1_1_VERSION));
  EXPECT_EQ(TlsClient(server_->port(), authority_.certificate(), {}, TLS1_1_VERSION).Ask(Get()),
            "");
  TestAuthority stranger;
  EXPECT_EQ(TlsClient(server_->port(), stranger.certificate(), {}).Ask(Get()), "");
}

TEST_F(GuardedScrapeTest, LargeAnswersComeWhole) {
  auto& family = prometheus::BuildGauge().Name("many").Help("Many").Register(*registry_);
  for (int i = 0; i < 20000; ++i) family.Add({{"number", std::to_string(i)}}).Set(i);
  Start({.certificates = NewCertificates()});
  const std::string answer = AskOverTls();
  EXPECT_TRUE(HasMetrics(answer));
  EXPECT_NE(answer.find("\nmany{number=\"19999\"} 19999\n"), std::string::npos);
}

TEST_F(GuardedScrapeTest, AClientMustHaveACertificateIfOneIsRequired) {
  Start({.certificates = NewCertificates(), .clients = ClientCertificates::kRequired});
  TestAuthority stranger;
  EXPECT_TRUE(HasMetrics(AskOverTls(authority_.Issue("prometheus", ""))));
  EXPECT_EQ(AskOverTls(), "");
  EXPECT_EQ(AskOverTls(stranger.Issue("prometheus", "")), "");
  EXPECT_EQ(AskOverTls(authority_.Issue("prometheus", "", -10)), "");
}

TEST_F(GuardedScrapeTest, PlainTextGetsNoAnswerOnAPortWithTls) {
  Start({.certificates = NewCertificates()});
  EXPECT_EQ(AskInPlainText().find("HTTP/1.1"), std::string::npos);
  EXPECT_EQ(Refused("protocol"), 1);
  EXPECT_TRUE(HasMetrics(AskOverTls()));
}

// Clients that stop in the handshake keep their connections until the time limit, and delay nobody.
TEST_F(GuardedScrapeTest, HalfHandshakesEnd) {
  Start({.certificates = NewCertificates()}, absl::Milliseconds(500));
  std::vector<TcpClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(server_->port());
    if (i % 2 == 1) continue;
    EXPECT_TRUE(clients.back().Send(std::string("\x16\x03\x01\x02\x00\x01", 6)));
  }
  EXPECT_TRUE(HasMetrics(AskOverTls()));
  for (const TcpClient& client : clients) client.ReceiveAll(milliseconds(20000));
  EXPECT_EQ(Refused("timeout"), 20);
}

// Records without content do not keep the thread of the port.
TEST_F(GuardedScrapeTest, FewKeyUpdatesAreTakenAndManyEndTheConnection) {
  Start({.certificates = NewCertificates()});
  const auto ask = [this](int key_updates) {
    return TlsClient(server_->port(), authority_.certificate()).Ask(Get(), key_updates);
  };
  EXPECT_TRUE(HasMetrics(ask(10)));
  EXPECT_EQ(Refused("protocol"), 0);
  EXPECT_EQ(ask(200), "");
  EXPECT_EQ(Refused("protocol"), 1);
}

TEST_F(GuardedScrapeTest, NewConnectionsGetNewCertificates) {
  const std::shared_ptr<CurrentCertificates> certificates = NewCertificates();
  Start({.certificates = certificates});
  TestAuthority next;
  const TestCertificate own = IssueForServer(&next);
  certificates->Set({own.certificate, own.key, "", absl::InfiniteFuture()});
  EXPECT_EQ(AskOverTls(), "");
  EXPECT_TRUE(HasMetrics(TlsClient(server_->port(), next.certificate(), {}).Ask(Get())));
  certificates->Set({own.certificate, "no key", "", absl::InfiniteFuture()});
  EXPECT_TRUE(HasMetrics(TlsClient(server_->port(), next.certificate(), {}).Ask(Get())))
      << "those before are still used";
}

TEST_F(GuardedScrapeTest, OnlyOperatorsReadGuardedMetrics) {
  const Guard guard(true,
                    *Credentials::Parse(
                        TokenRow("client", "role=client") + TokenRow("operator", "role=operator") +
                            "certificate name=p role=operator common_name=prometheus\n"
                            "certificate name=c role=client dns=client\n",
                        "f"),
                    {});
  Start({.guard = &guard});
  EXPECT_TRUE(HasMetrics(AskInPlainText("Authorization: Bearer operator\r\n")));
  EXPECT_TRUE(HasMetrics(AskInPlainText("authorization:bearer operator\r\n")));
  for (const char* header : {"", "Authorization: Bearer wrong\r\n", "Authorization: operator\r\n",
                             "Authorization: Bearer operator\r\nAuthorization: Bearer operator\r\n",
                             "X: Authorization: Bearer operator\r\n"}) {
    const std::string answer = AskInPlainText(header);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n")) << answer;
    EXPECT_NE(answer.find("\r\nWWW-Authenticate: Bearer\r\n"), std::string::npos);
    EXPECT_EQ(answer.find("answer 42"), std::string::npos);
  }
  EXPECT_TRUE(AskInPlainText("Authorization: Bearer client\r\n").starts_with("HTTP/1.1 403 "));

  server_.reset();
  Start({.certificates = NewCertificates(),
         .clients = ClientCertificates::kOptional,
         .guard = &guard});
  EXPECT_TRUE(HasMetrics(AskOverTls(authority_.Issue("prometheus", ""))));
  EXPECT_TRUE(HasMetrics(AskOverTls({}, "Authorization: Bearer operator\r\n")));
  EXPECT_TRUE(AskOverTls(authority_.Issue("x", "DNS:client")).starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(AskOverTls(authority_.Issue("client", "")).starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(AskOverTls().starts_with("HTTP/1.1 401 "));
}

}  // namespace
}  // namespace longstream
