// The gate with a HandOver that keeps the descriptors, in place of gRPC.
#include "service/connections/http2_gate.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/service/metric_value.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;

class Http2GateTest : public testing::Test {
 protected:
  void Start(Http2Gate::Options options) {
    absl::StatusOr<ListeningSockets> listening = Listen("0.0.0.0:0", absl::ZeroDuration());
    ASSERT_TRUE(listening.ok()) << listening.status();
    port_ = listening->port;
    options.metrics = &metrics_;
    if (options.max_connections == 0) options.max_connections = 100;
    auto gate = Http2Gate::Start(*std::move(listening), options, [this](int descriptor) {
      absl::MutexLock lock(&mutex_);
      handed_over_.emplace_back(descriptor);
    });
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
  }
  ~Http2GateTest() override { gate_.reset(); }

  // Connects, sends the preface and waits until the connection is handed over.
  TcpClient Served(int family = AF_INET) {
    const size_t before = HandedOverCount();
    TcpClient client(port_, family);
    EXPECT_TRUE(client.Send(kHttp2Preface));
    WaitForHandedOver(before + 1);
    return client;
  }
  size_t HandedOverCount() {
    absl::MutexLock lock(&mutex_);
    return handed_over_.size();
  }
  void WaitForHandedOver(size_t count) {
    for (int i = 0; i < 4000 && HandedOverCount() < count; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    ASSERT_EQ(HandedOverCount(), count);
  }
  // Closes all descriptors that were handed over, as gRPC does at the end of a connection.
  void CloseHandedOver() {
    absl::MutexLock lock(&mutex_);
    handed_over_.clear();
  }
  double WaitForOpen(double connections) {
    return WaitForMetric(registry_, connections, "longstream_connections", {{"port", "grpc"}});
  }
  double Refused(const std::string& reason) {
    return MetricValue(registry_, "longstream_connections_refused_total", {{"reason", reason}});
  }
  double AllRefused() { return MetricValue(registry_, "longstream_connections_refused_total"); }
  double Accepted() { return MetricValue(registry_, "longstream_connections_accepted_total"); }

  prometheus::Registry registry_;
  ConnectionMetrics metrics_{&registry_, "grpc"};
  int port_ = 0;
  absl::Mutex mutex_;
  std::vector<Descriptor> handed_over_;
  std::unique_ptr<Http2Gate> gate_;
};

TEST_F(Http2GateTest, HandsAConnectionOverWithItsFirstBytesUnread) {
  Start({.preface_timeout = absl::Seconds(20)});
  const TcpClient client(port_);
  for (const char byte : kHttp2Preface) {
    EXPECT_EQ(HandedOverCount(), 0u);
    EXPECT_TRUE(client.Send({&byte, 1}));
    std::this_thread::sleep_for(milliseconds(2));
  }
  WaitForHandedOver(1);
  EXPECT_TRUE(client.Send("more"));
  absl::MutexLock lock(&mutex_);
  std::string received;
  char bytes[100];
  while (received.size() < kHttp2Preface.size() + 4) {
    const ssize_t count = recv(handed_over_.front().number(), bytes, sizeof(bytes), 0);
    if (count > 0) received.append(bytes, static_cast<size_t>(count));
    if (count <= 0) {
      ASSERT_EQ(errno, EAGAIN);
    }
  }
  EXPECT_EQ(received, std::string(kHttp2Preface) + "more");
}

TEST_F(Http2GateTest, RefusesWhatIsNotHttp2) {
  Start({.preface_timeout = absl::Seconds(20)});
  for (const std::string bytes : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "PRI * HTTP/2.1"}) {
    const TcpClient client(port_);
    EXPECT_TRUE(client.Send(bytes));
    EXPECT_EQ(client.ReceiveAll(milliseconds(5000)), "") << bytes;
  }
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("protocol"), 3);
  EXPECT_EQ(Accepted(), 3);
  EXPECT_EQ(HandedOverCount(), 0u);
}

// The first bytes of a ClientHello of 512 bytes.
constexpr std::string_view kClientHello("\x16\x03\x01\x02\x00\x01", 6);

TEST_F(Http2GateTest, WithTlsHandsOverABeginningHandshake) {
  Start({.preface_timeout = absl::Seconds(20), .tls = true});
  const TcpClient client(port_);
  for (const char byte : kClientHello) {
    EXPECT_EQ(HandedOverCount(), 0u);
    EXPECT_TRUE(client.Send({&byte, 1}));
    std::this_thread::sleep_for(milliseconds(2));
  }
  WaitForHandedOver(1);
  absl::MutexLock lock(&mutex_);
  char bytes[100];
  EXPECT_EQ(recv(handed_over_.front().number(), bytes, sizeof(bytes), 0),
            static_cast<ssize_t>(kClientHello.size()));
}

TEST_F(Http2GateTest, WithTlsRefusesWhatIsNoHandshake) {
  Start({.preface_timeout = absl::Seconds(20), .tls = true});
  const std::vector<std::string> wrong = {std::string(kHttp2Preface), "GET / HTTP/1.1\r\n\r\n",
                                          "\x15\x03\x01", "\x16\x02",
                                          std::string("\x16\x03\x01\x02\x00\x02", 6)};
  for (const std::string& bytes : wrong) {
    const TcpClient client(port_);
    EXPECT_TRUE(client.Send(bytes));
    EXPECT_EQ(client.ReceiveAll(milliseconds(5000)), "") << bytes;
  }
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("protocol"), static_cast<double>(wrong.size()));
  EXPECT_EQ(HandedOverCount(), 0u);
}

TEST_F(Http2GateTest, WithTlsEndsSilentClients) {
  Start({.preface_timeout = absl::Milliseconds(200), .tls = true});
  const TcpClient silent(port_);
  const TcpClient half(port_);
  EXPECT_TRUE(half.Send(kClientHello.substr(0, 5)));
  for (const TcpClient* client : {&silent, &half}) {
    EXPECT_EQ(client->ReceiveAll(milliseconds(5000)), "");
  }
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 2);
}

TEST_F(Http2GateTest, APrefaceThatDoesNotComeInTime) {
  Start({.preface_timeout = absl::Milliseconds(400)});
  const TcpClient silent(port_);
  const TcpClient slow(port_);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t sent = 0; sent < 10; ++sent) {
    slow.Send(kHttp2Preface.substr(sent, 1));
    std::this_thread::sleep_for(milliseconds(50));
  }
  for (const TcpClient* client : {&silent, &slow}) {
    EXPECT_EQ(client->ReceiveAll(milliseconds(2000)), "");
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(390));
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 2);
}

TEST_F(Http2GateTest, ClientsThatLeaveAreNotCountedAsRefused) {
  Start({.preface_timeout = absl::Seconds(20)});
  {
    const TcpClient closes(port_);
    TcpClient resets(port_);
    EXPECT_TRUE(closes.Send("PRI"));
    const TcpClient half(port_);
    EXPECT_TRUE(half.Send("PRI"));
    EXPECT_EQ(WaitForOpen(3), 3);
    resets.Reset();
    half.CloseForWriting();
    EXPECT_EQ(half.ReceiveAll(milliseconds(5000)), "") << "the rest of the preface cannot come";
  }
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(AllRefused(), 0);
  EXPECT_EQ(Accepted(), 3);
}

// gRPC closes descriptors and tells nobody. New connections get the same descriptors.
TEST_F(Http2GateTest, TheCountReturnsToZero) {
  Start({.preface_timeout = absl::Seconds(20)});
  for (int round = 0; round < 3; ++round) {
    std::vector<TcpClient> clients;
    for (int i = 0; i < 20; ++i) clients.push_back(Served());
    EXPECT_EQ(WaitForOpen(20), 20);
    CloseHandedOver();
    if (round == 1) continue;  // reuse the descriptors before anybody looks at them
    EXPECT_EQ(WaitForOpen(0), 0);
  }
  EXPECT_EQ(Accepted(), 60);
  EXPECT_EQ(AllRefused(), 0);
}

TEST_F(Http2GateTest, ALimitOfConnections) {
  Start({.max_connections = 2, .preface_timeout = absl::Seconds(20)});
  const TcpClient first = Served();
  const TcpClient waiting(port_);
  EXPECT_EQ(WaitForOpen(2), 2);
  const TcpClient third(port_);
  EXPECT_EQ(third.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(Refused("total"), 1);
  EXPECT_EQ(AllRefused(), 1);

  // The gate notices at once that there is room, and not only when it counts connections next.
  CloseHandedOver();
  const TcpClient fourth = Served();
  EXPECT_EQ(Refused("total"), 1);
  EXPECT_EQ(Accepted(), 4);
}

TEST_F(Http2GateTest, ALimitOfConnectionsPerAddress) {
  Start({.max_per_address = 2, .preface_timeout = absl::Seconds(20)});
  const TcpClient first = Served();
  const TcpClient second = Served();
  const TcpClient third(port_);
  EXPECT_EQ(third.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(Refused("peer"), 1);
  const TcpClient other = Served(AF_INET6);
  EXPECT_EQ(WaitForOpen(3), 3);

  CloseHandedOver();
  EXPECT_EQ(WaitForOpen(0), 0);  // a gate that has just looked for ended connections looks later
  const TcpClient fourth = Served();
  EXPECT_EQ(WaitForOpen(1), 1);
  EXPECT_EQ(AllRefused(), 1);
}

TEST_F(Http2GateTest, AConnectionWithoutARequestEnds) {
  FirstRequests first_requests(absl::Seconds(1));
  Start({.preface_timeout = absl::Seconds(20), .first_requests = &first_requests});
  const auto begin = std::chrono::steady_clock::now();
  const TcpClient silent = Served();
  const TcpClient calls = Served();
  sockaddr_in own{};
  socklen_t size = sizeof(own);
  ASSERT_EQ(getsockname(calls.fd(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  first_requests.CallFrom("ipv4:127.0.0.1:" + std::to_string(ntohs(own.sin_port)));
  silent.ReceiveAll(milliseconds(5000));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(990));
  EXPECT_THROW(calls.ReceiveAll(milliseconds(1500)), std::runtime_error);
  EXPECT_EQ(Refused("timeout"), 1);
  CloseHandedOver();
  EXPECT_EQ(WaitForOpen(0), 0);
  gate_.reset();
}

TEST_F(Http2GateTest, StoppingEndsOnlyConnectionsThatWait) {
  Start({.preface_timeout = absl::Seconds(20)});
  const TcpClient served = Served();
  const TcpClient waiting(port_);
  EXPECT_EQ(WaitForOpen(2), 2);
  gate_->StopAccepting();
  EXPECT_EQ(waiting.ReceiveAll(milliseconds(5000)), "");
  EXPECT_THROW(TcpClient{port_}, std::runtime_error);
  EXPECT_EQ(WaitForOpen(1), 1);
  EXPECT_THROW(served.ReceiveAll(milliseconds(200)), std::runtime_error);
  CloseHandedOver();
  EXPECT_EQ(WaitForOpen(0), 0) << "the gate counts on while the server drains";
}

}  // namespace
}  // namespace longstream
