// Connections of the gRPC port from their beginning to their end. gRPC does not report the end, so
// these tests prove that the server notices each kind of it.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/metrics/connection_metrics.h"
#include "tests/service/metric_value.h"
#include "tests/service/server/server_fixture.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;

constexpr int kClients = 10;

// Servers of their own, beside the server of the fixture.
class ConnectionsTest : public ServerTest {
 protected:
  ~ConnectionsTest() override { own_.reset(); }

  void Start(GrpcServer::Options options = {}, const std::string& listen = "127.0.0.1:0") {
    options.listen = listen;
    options.connection_metrics = &metrics_;
    auto server = GrpcServer::Start(options, &models(), &sessions());
    if (!server.ok()) throw std::runtime_error(server.status().ToString());
    own_ = *std::move(server);
  }
  // Connects and sends a client's first bytes, so that the connection belongs to gRPC. Waits for
  // gRPC's own SETTINGS.
  TcpClient Connect() {
    TcpClient client(own_->port());
    EXPECT_TRUE(client.Send(std::string(kHttp2Preface) + std::string(kEmptySettings)));
    char byte = 0;
    EXPECT_EQ(recv(client.fd(), &byte, 1, MSG_PEEK), 1) << "gRPC does not answer";
    return client;
  }
  std::vector<TcpClient> ConnectMany() {
    std::vector<TcpClient> clients;
    for (int i = 0; i < kClients; ++i) clients.push_back(Connect());
    EXPECT_EQ(WaitForOpen(kClients), kClients);
    return clients;
  }
  // A call on a new connection. If the server refuses the connection, the client tries again.
  grpc::Status Call(const std::string& host = "127.0.0.1") {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::ListModelsResponse response;
    return NewStub(host)->ListModels(&context, {}, &response);
  }
  std::unique_ptr<v1::Longstream::Stub> NewStub(const std::string& host = "127.0.0.1") {
    grpc::ChannelArguments own_connection;
    own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Longstream::NewStub(
        grpc::CreateCustomChannel(host + ":" + std::to_string(own_->port()),
                                  grpc::InsecureChannelCredentials(), own_connection));
  }
  double WaitForOpen(double connections) {
    return WaitForMetric(registry_, connections, "longstream_connections", {{"port", "grpc"}});
  }
  double Refused(const std::string& reason) {
    return MetricValue(registry_, "longstream_connections_refused_total", {{"reason", reason}});
  }
  double Accepted() { return MetricValue(registry_, "longstream_connections_accepted_total"); }
  // Every connection has ended, none was refused, and the server still serves.
  void ExpectAllEnded() {
    EXPECT_EQ(WaitForOpen(0), 0);
    EXPECT_EQ(Accepted(), kClients);
    EXPECT_EQ(MetricValue(registry_, "longstream_connections_refused_total"), 0);
    EXPECT_TRUE(Call().ok());
    EXPECT_EQ(WaitForOpen(0), 0);
  }

  prometheus::Registry registry_;
  ConnectionMetrics metrics_{&registry_, "grpc"};
  std::unique_ptr<GrpcServer> own_;
};

TEST_F(ConnectionsTest, EveryKindOfAddress) {
  const std::pair<const char*, std::vector<const char*>> kAddresses[] = {
      {"[::1]:0", {"[::1]"}},
      {"localhost:0", {"127.0.0.1"}},
      {"0.0.0.0:0", {"127.0.0.1", "[::1]"}},
      {"[::]:0", {"127.0.0.1", "[::1]"}}};
  for (const auto& [listen, hosts] : kAddresses) {
    Start({}, listen);
    for (const char* host : hosts) {
      const grpc::Status status = Call(host);
      EXPECT_TRUE(status.ok()) << listen << " " << host << " " << status.error_message();
    }
  }
}

TEST_F(ConnectionsTest, ClientsThatClose) {
  Start();
  ConnectMany().clear();
  ExpectAllEnded();
}

TEST_F(ConnectionsTest, ClientsThatCloseAfterCalls) {
  Start();
  {
    std::vector<std::unique_ptr<v1::Longstream::Stub>> stubs;
    for (int i = 0; i < kClients; ++i) {
      stubs.push_back(NewStub());
      grpc::ClientContext context;
      v1::ListModelsResponse response;
      EXPECT_TRUE(stubs.back()->ListModels(&context, {}, &response).ok());
    }
    EXPECT_EQ(WaitForOpen(kClients), kClients);
  }
  ExpectAllEnded();
}

TEST_F(ConnectionsTest, ClientsThatReset) {
  Start();
  std::vector<TcpClient> clients = ConnectMany();
  for (TcpClient& client : clients) client.Reset();
  ExpectAllEnded();
}

TEST_F(ConnectionsTest, ClientsThatCloseOneSide) {
  Start();
  const std::vector<TcpClient> clients = ConnectMany();
  for (const TcpClient& client : clients) client.CloseForWriting();
  ExpectAllEnded();
}

TEST_F(ConnectionsTest, ClientsThatSendRubbish) {
  Start();
  const std::vector<TcpClient> clients = ConnectMany();
  for (const TcpClient& client : clients) client.Send(std::string(100, '\xff'));
  ExpectAllEnded();
}

TEST_F(ConnectionsTest, ClientsThatAnswerNoPing) {
  Start({.keepalive_time = absl::Milliseconds(300), .keepalive_timeout = absl::Milliseconds(300)});
  const std::vector<TcpClient> clients = ConnectMany();
  ExpectAllEnded();
}

// The server says GOAWAY, frame type 7, and closes.
TEST_F(ConnectionsTest, IdleConnections) {
  Start({.idle_timeout = absl::Milliseconds(500)});
  const std::vector<TcpClient> clients = ConnectMany();
  for (const TcpClient& client : clients) {
    const std::string frames = client.ReceiveAll();
    bool goaway = false;
    for (size_t at = 0; at + 9 <= frames.size();) {
      const auto byte = [&](size_t i) { return static_cast<uint8_t>(frames[at + i]); };
      goaway |= byte(3) == 7;
      at += 9 + static_cast<size_t>(byte(0)) * 65536 + static_cast<size_t>(byte(1)) * 256 + byte(2);
    }
    EXPECT_TRUE(goaway);
  }
  ExpectAllEnded();
}

// A client does not notice that the server has closed its idle connection: it connects again.
TEST_F(ConnectionsTest, AClientConnectsAgainAfterItWasIdle) {
  Start({.idle_timeout = absl::Milliseconds(200)});
  const auto stub = NewStub();
  for (int call = 0; call < 3; ++call) {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    const grpc::Status status = stub->ListModels(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(WaitForOpen(0), 0);
  }
  EXPECT_EQ(Accepted(), 3);
}

// A call keeps its connection, however long it takes.
TEST_F(ConnectionsTest, AConnectionWithACallIsNotIdle) {
  Start({.idle_timeout = absl::Milliseconds(200)});
  const std::string id = Open();
  const auto stub = NewStub();
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub->Append(&context, &response);
  v1::AppendRequest piece;
  piece.set_session_id(id);
  for (int i = 0; i < 3; ++i) {
    piece.mutable_input()->set_text("abc");
    EXPECT_TRUE(writer->Write(piece));
    std::this_thread::sleep_for(milliseconds(500));
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Accepted(), 1);
}

TEST_F(ConnectionsTest, ClientsThatDoNotFinishTheHandshake) {
  Start({.handshake_timeout = absl::Milliseconds(500)});
  const TcpClient silent(own_->port());
  const TcpClient part(own_->port());
  EXPECT_TRUE(part.Send(kHttp2Preface.substr(0, 20)));
  const TcpClient no_settings(own_->port());
  EXPECT_TRUE(no_settings.Send(kHttp2Preface));
  const TcpClient part_of_settings(own_->port());
  EXPECT_TRUE(part_of_settings.Send(std::string(kHttp2Preface) + std::string("\0\0\6\4\0", 5)));
  EXPECT_EQ(silent.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(part.ReceiveAll(milliseconds(5000)), "");
  no_settings.ReceiveAll(milliseconds(5000));
  part_of_settings.ReceiveAll(milliseconds(5000));
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 2);
  EXPECT_TRUE(Call().ok());
}

TEST_F(ConnectionsTest, ConnectionsWithoutARequest) {
  Start({.first_request_timeout = absl::Milliseconds(400)});
  const std::vector<TcpClient> clients = ConnectMany();
  for (const TcpClient& client : clients) client.ReceiveAll(milliseconds(10000));
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), kClients);
  EXPECT_TRUE(Call().ok());
}

// Every kind of call counts, over IPv4 and IPv6, and the connection stays open afterwards.
TEST_F(ConnectionsTest, ARequestEndsTheTimeForIt) {
  Start({.first_request_timeout = absl::Seconds(2)}, "0.0.0.0:0");
  const std::pair<const char*, std::string> calls[] = {
      {"/longstream.v1.Longstream/ListModels", ""},
      {"/longstream.v1.Longstream/GetModel", "\xff"},
      {"/grpc.health.v1.Health/Check", ""},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*"}};
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    for (const auto& [method, request] : calls) {
      grpc::ChannelArguments own_connection;
      own_connection.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      channels.push_back(grpc::CreateCustomChannel(host + ":" + std::to_string(own_->port()),
                                                   grpc::InsecureChannelCredentials(),
                                                   own_connection));
      CallRaw(channels.back(), method, {request});
    }
  }
  EXPECT_EQ(WaitForOpen(static_cast<double>(channels.size())), channels.size());
  std::this_thread::sleep_for(milliseconds(3000));
  EXPECT_EQ(WaitForOpen(static_cast<double>(channels.size())), channels.size());
  for (const auto& channel : channels) {
    EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
  }
  EXPECT_EQ(Refused("timeout"), 0);
}

TEST_F(ConnectionsTest, TheLimitHoldsAndEnds) {
  Start({.max_connections = 3});
  std::vector<TcpClient> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(Connect());
  const TcpClient fourth(own_->port());
  EXPECT_EQ(fourth.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(Refused("total"), 1);
  clients.pop_back();
  EXPECT_TRUE(Call().ok());
  clients.clear();
  EXPECT_EQ(WaitForOpen(0), 0);
}

TEST_F(ConnectionsTest, TheLimitPerAddressHoldsAndEnds) {
  Start({.max_connections_per_address = 2});
  std::vector<TcpClient> clients;
  for (int i = 0; i < 2; ++i) clients.push_back(Connect());
  const TcpClient third(own_->port());
  EXPECT_EQ(third.ReceiveAll(milliseconds(5000)), "");
  EXPECT_EQ(Refused("peer"), 1);
  clients.clear();
  EXPECT_TRUE(Call().ok());
}

TEST_F(ConnectionsTest, AServerThatDrainsAcceptsNothingAndServesItsConnections) {
  Start();
  const auto stub = NewStub();
  const auto call = [&] {
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    return stub->ListModels(&context, {}, &response);
  };
  EXPECT_TRUE(call().ok());
  const TcpClient waiting(own_->port());
  own_->StopAccepting();
  EXPECT_EQ(waiting.ReceiveAll(milliseconds(5000)), "");
  EXPECT_THROW(TcpClient{own_->port()}, std::runtime_error);
  EXPECT_TRUE(call().ok());
  own_->Shutdown(MonotonicTime::Now());
  EXPECT_EQ(WaitForOpen(0), 0);
}

// Connections come and go, with calls on some of them, on reused descriptors.
TEST_F(ConnectionsTest, TheCountIsRightAfterManyConnections) {
  Start();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 50; ++i) {
        if (i % 10 == thread) {
          EXPECT_TRUE(Call().ok());
          continue;
        }
        TcpClient client(own_->port());
        if (i % 3 != 0) client.Send(kHttp2Preface);
        if (i % 3 == 1) client.Send(kEmptySettings);
        if (i % 2 == 0) client.Reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Accepted(), 200);
  EXPECT_TRUE(Call().ok());
}

}  // namespace
}  // namespace longstream
