// The server as a process, with hostile connections: it runs out of descriptors, clients stay
// silent, and the metrics port is full. It must serve honest clients then or as soon as possible.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/server_process.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kConnectionPatience{30000};

class ConnectionsE2eTest : public testing::Test {
 protected:
  // Starts a server with these lines under `connections` in its configuration file, and a limit of
  // descriptors (0: no change).
  void Start(const std::string& connections, uint64_t max_descriptors = 0) {
    files_.Write("server.yaml", "connections: {" + connections + "}\nmodels:\n- name: m\n  " +
                                    "directory: " + files_.string() + "\n");
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--config", (files_.path() / "server.yaml").string()},
        ProcessLimits{.max_descriptors = max_descriptors});
    client::Connection(server_->address()).WaitUntilServing("m", kConnectionPatience);
  }
  int port() const { return server_->port(); }
  double Metric(const std::string& name, const std::map<std::string, std::string>& labels) const {
    return SampleValue(Scrape(server_->metrics_port()), name, labels).value_or(-1);
  }
  double Refused(const std::string& reason) const {
    return Metric("longstream_connections_refused_total", {{"port", "grpc"}, {"reason", reason}});
  }
  // Waits until no connection to the gRPC port is open. Returns the last count.
  double WaitForNone() const {
    const auto until = Clock::now() + kConnectionPatience;
    double open = -1;
    while (open != 0 && Clock::now() < until) {
      open = Metric("longstream_connections", {{"port", "grpc"}});
      if (open != 0) std::this_thread::sleep_for(milliseconds(20));
    }
    return open;
  }
  void ExpectServes() const {
    client::Connection connection(server_->address());
    connection.WaitUntilServing("m", kConnectionPatience);
    EXPECT_EQ(connection.Models().size(), 1u);
  }

  const MinimalModelDirectory files_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(ConnectionsE2eTest, AServerWithFewDescriptorsServesAgain) {
  Start("", 64);
  client::Connection before(server_->address());
  EXPECT_EQ(before.Models().size(), 1u);
  for (int round = 0; round < 2; ++round) {
    std::vector<TcpClient> clients;
    for (int i = 0; i < 100; ++i) clients.emplace_back(port());
    const auto until = Clock::now() + kConnectionPatience;
    while (Refused("total") < (round + 1) * (100 - 32) && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_LE(server_->descriptors(), 60u) << "nothing is left for files";
    EXPECT_EQ(before.Models().size(), 1u) << "a connection that is open still works";
    EXPECT_GE(Refused("total"), (round + 1) * (100 - 32));
    EXPECT_GE(Metric("longstream_connections", {{"port", "grpc"}}), 32);
  }
  ExpectServes();
  EXPECT_EQ(server_->Stop(), 0);
  EXPECT_THAT(server_->Log(), HasSubstr("\"event\":\"connections\",\"max\":\"32\""));
}

// The limit of connections cannot protect a process whose descriptors are used for something else.
TEST_F(ConnectionsE2eTest, AServerWithoutDescriptorsRefusesAtOnceAndServesAgain) {
  Start("");
  EXPECT_EQ(WaitForNone(), 0);
  rlimit before{};
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  rlimit none_left = before;
  none_left.rlim_cur = server_->descriptors();
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &none_left, nullptr), 0);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 100; ++i) clients.emplace_back(port());
  size_t refused = 0;
  for (const TcpClient& client : clients) {
    try {
      client.ReceiveAll(milliseconds(100));
      ++refused;
    } catch (const std::runtime_error&) {  // there was a descriptor for this connection
    }
  }
  EXPECT_GE(refused, 80u);
  const double used = server_->processor_seconds();
  std::this_thread::sleep_for(seconds(1));
  EXPECT_LT(server_->processor_seconds() - used, 0.3) << "the server spins";
  ASSERT_EQ(prlimit(server_->pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  ExpectServes();
  EXPECT_GE(Refused("descriptors"), 80);
  clients.clear();
  EXPECT_EQ(WaitForNone(), 0);
}

TEST_F(ConnectionsE2eTest, SilentConnectionsEnd) {
  Start("handshake_timeout: 1s, idle_timeout: 500ms");
  std::vector<TcpClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.emplace_back(port());
    if (i % 3 == 1) clients.back().Send(kHttp2Preface);
    if (i % 3 == 2) clients.back().Send(std::string(kHttp2Preface) + std::string(kEmptySettings));
  }
  for (const TcpClient& client : clients) client.ReceiveAll(milliseconds(10000));
  EXPECT_EQ(WaitForNone(), 0);
  EXPECT_EQ(Refused("timeout"), 100);
  ExpectServes();
}

TEST_F(ConnectionsE2eTest, LimitsOfTheConfiguration) {
  Start("max: 4, max_per_address: 3");
  EXPECT_EQ(WaitForNone(), 0);
  std::vector<TcpClient> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(port());
  EXPECT_EQ(clients.back().ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(Refused("peer"), 1);
  clients.clear();
  ExpectServes();
}

TEST_F(ConnectionsE2eTest, ALimitBeyondTheDescriptorsIsLowered) {
  Start("max: 1000", 128);
  EXPECT_THAT(server_->Log(),
              HasSubstr("\"level\":\"warning\",\"event\":\"connections\",\"error\":"
                        "\"connections.max: 1000 is more than the limit of open files, 128, "
                        "allows; the limit is 64\""));
}

// Prometheus gives up a scrape after 10 s by default.
TEST_F(ConnectionsE2eTest, SilentAndSlowConnectionsDoNotDelayAScrape) {
  Start("");
  std::vector<TcpClient> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(server_->metrics_port());
    if (i % 2 == 1) clients.back().Send("GET /met");
  }
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    EXPECT_THAT(Scrape(server_->metrics_port()), HasSubstr("longstream_build_info"));
    EXPECT_LT(Clock::now() - begin, seconds(5));
    clients.back().Send("r");
  }
  EXPECT_GT(
      Metric("longstream_connections_refused_total", {{"port", "metrics"}, {"reason", "total"}}),
      100);
}

}  // namespace
}  // namespace longstream
