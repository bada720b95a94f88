// The metrics port: its answers, and honest scrapes beside hostile clients.
#include "service/scrapes/metrics_server.h"

#include <gtest/gtest.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/service/metric_value.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

class MetricsServerTest : public testing::Test {
 protected:
  MetricsServerTest() {
    prometheus::BuildGauge().Name("answer").Help("A metric").Register(*registry_).Add({}).Set(42);
  }

  void Start(absl::Duration timeout = absl::Seconds(20)) {
    auto server = MetricsServer::Start("127.0.0.1:0", registry_, timeout);
    if (!server.ok()) throw std::runtime_error(server.status().ToString());
    server_ = *std::move(server);
  }
  TcpClient Connect() { return TcpClient(server_->port()); }
  // Returns the whole answer to a request.
  std::string Ask(std::string_view request) {
    const TcpClient client = Connect();
    EXPECT_TRUE(client.Send(request));
    return client.ReceiveAll();
  }
  void ExpectQuickScrape() {
    const auto begin = Clock::now();
    EXPECT_NE(Ask(kGet).find("\nanswer 42\n"), std::string::npos);
    EXPECT_LT(Clock::now() - begin, seconds(5));
  }
  double Refused(const std::string& reason) {
    return MetricValue(*registry_, "longstream_connections_refused_total", {{"reason", reason}});
  }
  double WaitForOpen(double connections) {
    return WaitForMetric(*registry_, connections, "longstream_connections", {{"port", "metrics"}});
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, AnswersInTheTextFormat) {
  Start();
  const std::string answer = Ask(kGet);
  const size_t body = answer.find("\r\n\r\n") + 4;
  EXPECT_EQ(answer.substr(0, body),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: " +
                std::to_string(answer.size() - body) + "\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("# TYPE answer gauge\nanswer 42\n"), std::string::npos) << answer;
  EXPECT_NE(Ask("GET /metrics HTTP/1.0\n\n").find("\nanswer 42\n"), std::string::npos);
  EXPECT_NE(Ask("GET /metrics?name=a HTTP/1.1\r\n\r\n").find("\nanswer 42\n"), std::string::npos);
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(MetricValue(*registry_, "longstream_connections_refused_total"), 0);
  EXPECT_EQ(MetricValue(*registry_, "longstream_connections_accepted_total"), 3);
  EXPECT_EQ(MetricValue(*registry_, "exposer_scrapes_total"), 3);
  EXPECT_GT(MetricValue(*registry_, "exposer_transferred_bytes_total"), 3 * 100);
}

TEST_F(MetricsServerTest, ARequestMayComeInPieces) {
  Start();
  const TcpClient client = Connect();
  for (const char& byte : std::string_view(kGet)) {
    EXPECT_TRUE(client.Send({&byte, 1}));
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_NE(client.ReceiveAll().find("\nanswer 42\n"), std::string::npos);
}

TEST_F(MetricsServerTest, RequestsWithAnotherAnswer) {
  Start();
  const auto first_line = [this](std::string_view request) {
    const std::string answer = Ask(request);
    return answer.substr(0, answer.find("\r\n"));
  };
  EXPECT_EQ(first_line("GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(first_line("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
            "HTTP/1.1 405 Method Not Allowed");
  const std::string head = Ask("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_EQ(head.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_EQ(head.size(), head.find("\r\n\r\n") + 4) << "an answer to HEAD has no body";
  EXPECT_EQ(Refused("protocol"), 0);

  EXPECT_EQ(first_line("\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line("GET\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line("GET /metrics HTTP/2.0\r\n\r\n"), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line(std::string(kHttp2Preface)), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(first_line("GET /metrics HTTP/1.1\r\nA: " + std::string(9000, 'a')),
            "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(Refused("protocol"), 5);
  ExpectQuickScrape();
}

TEST_F(MetricsServerTest, SilentAndSlowClientsDoNotDelayAScrape) {
  Start();
  std::vector<TcpClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(Connect());
    if (i % 2 == 0) clients.back().Send("GET /metrics");
  }
  for (int i = 0; i < 5; ++i) {
    ExpectQuickScrape();
    for (size_t slow = 190; slow < 200; ++slow) clients[slow].Send("a");
  }
  EXPECT_GE(Refused("total"), 200 - 32);
  clients.clear();
  EXPECT_EQ(WaitForOpen(0), 0);
}

TEST_F(MetricsServerTest, ClientsThatDoNotReadDoNotDelayAScrape) {
  // The help text makes the answer larger than the buffers of a connection.
  prometheus::BuildGauge()
      .Name("large")
      .Help(std::string(20 << 20, 'a'))
      .Register(*registry_)
      .Add({});
  // The client that reads 20 MB must have enough time on a loaded machine.
  Start(absl::Seconds(10));
  std::vector<TcpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    EXPECT_TRUE(clients.back().Send(kGet));
  }
  EXPECT_EQ(WaitForMetric(*registry_, 4, "exposer_scrapes_total"), 4);
  EXPECT_NE(Ask(kGet).find("\nanswer 42\n"), std::string::npos);
  EXPECT_EQ(WaitForOpen(0), 0) << "the time limit ends connections whose clients do not read";
  EXPECT_EQ(Refused("timeout"), 4);
}

TEST_F(MetricsServerTest, ClientsHaveATimeLimit) {
  Start(absl::Milliseconds(300));
  const TcpClient silent = Connect();
  const TcpClient slow = Connect();
  EXPECT_TRUE(slow.Send("GET /met"));
  TcpClient resets = Connect();
  resets.Reset();
  EXPECT_EQ(silent.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(slow.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 2);
  ExpectQuickScrape();
}

// A client that keeps its side open after the answer, or sends without end.
TEST_F(MetricsServerTest, ClientsThatDoNotClose) {
  Start(absl::Milliseconds(500));
  const TcpClient stays = Connect();
  EXPECT_TRUE(stays.Send(kGet));
  EXPECT_NE(stays.ReceiveAll().find("\nanswer 42\n"), std::string::npos);
  const TcpClient floods = Connect();
  EXPECT_TRUE(floods.Send(kGet));
  const std::string more(1 << 20, 'a');
  for (int i = 0; i < 1000 && floods.Send(more); ++i) {
  }
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 0) << "both clients got their answers";
}

TEST_F(MetricsServerTest, AnAddressInUse) {
  Start();
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  EXPECT_EQ(MetricsServer::Start(address, registry_).status(),
            absl::UnavailableError("metrics_listen: cannot bind " + address +
                                   ": Address already in use"));
}

}  // namespace
}  // namespace longstream
