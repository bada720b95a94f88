// The end of a server that is in use.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gateway/http/http_server.h"
#include "tests/gateway/http/http_client.h"
#include "tests/gateway/http/http_server_fixture.h"

namespace longstream::gateway {
namespace {

class HttpServerShutdownTest : public HttpServerTest {};

TEST_F(HttpServerShutdownTest, EndsIdleConnections) {
  Start({}, Echo);
  HttpClient idle = Connect();
  EXPECT_EQ(idle.Ask(GetRequest("/")).status, 200);
  HttpClient fresh = Connect();
  EXPECT_EQ(WaitForOpen(2), 2);
  const int port = server_->port();
  const absl::Time begin = absl::Now();
  server_->Shutdown(absl::Minutes(1));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20)) << "nothing is being answered";
  EXPECT_TRUE(idle.Ends());
  EXPECT_TRUE(fresh.Ends());
  EXPECT_THROW(HttpClient{port}, std::runtime_error);
  server_->Shutdown(absl::ZeroDuration());
}

TEST_F(HttpServerShutdownTest, WaitsForAnswers) {
  absl::Notification begun;
  absl::Notification go_on;
  Start({}, [&](Exchange& exchange) {
    begun.Notify();
    go_on.WaitForNotification();
    EXPECT_FALSE(exchange.gone());
    Echo(exchange);
  });
  HttpClient client = Connect();
  client.Send(PostRequest("/", "abc"));
  begun.WaitForNotification();
  std::jthread shuts_down([&] { server_->Shutdown(absl::Minutes(1)); });
  absl::SleepFor(absl::Milliseconds(50));
  go_on.Notify();
  EXPECT_EQ(client.Read().body, "abc");
  EXPECT_TRUE(client.Ends());
}

// The handler has ended long before its client has read the answer.
TEST_F(HttpServerShutdownTest, WaitsForAClientThatReadsSlowly) {
  constexpr size_t kSize = 20 << 20;
  std::atomic<bool> begun = false;
  Start({}, [&](Exchange& exchange) {
    exchange.Answer({.body = std::string(kSize, 'a')});
    begun = true;
  });
  HttpClient client = Connect();
  const int small = 64 << 10;
  setsockopt(client.tcp().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  client.Send(GetRequest("/"));
  while (!begun) absl::SleepFor(absl::Milliseconds(1));
  std::jthread shuts_down([&] { server_->Shutdown(absl::Minutes(1)); });
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_TRUE(client.Read().whole);
}

TEST_F(HttpServerShutdownTest, RequestsDuringTheGraceAreTheLast) {
  absl::Notification begun;
  absl::Notification go_on;
  Start({}, [&](Exchange& exchange) {
    if (exchange.request().path == "/wait") {
      begun.Notify();
      go_on.WaitForNotification();
    }
    Echo(exchange);
  });
  HttpClient waits = Connect();
  waits.Send(GetRequest("/wait"));
  begun.WaitForNotification();
  HttpClient reads = Connect();
  EXPECT_EQ(reads.Ask(WaitingHeader(3)).status, 100);
  const int port = server_->port();
  std::jthread shuts_down([&] { server_->Shutdown(absl::Minutes(1)); });
  const auto can_connect = [port] {
    try {
      const HttpClient client(port);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  while (can_connect()) absl::SleepFor(absl::Milliseconds(5));
  const HttpResponse last = reads.Ask("abc");
  EXPECT_EQ(last.body, "abc");
  EXPECT_TRUE(last.Has("Connection: close"));
  EXPECT_TRUE(reads.Ends());
  go_on.Notify();
  EXPECT_EQ(waits.Read().status, 200);
}

TEST_F(HttpServerShutdownTest, EndsConnectionsAfterTheGrace) {
  for (const absl::Duration grace : {absl::ZeroDuration(), absl::Milliseconds(100)}) {
    absl::Notification begun;
    absl::Notification gone;
    std::atomic<bool> ended = false;
    Start({}, [&](Exchange& exchange) {
      exchange.OnGone([&] { gone.Notify(); });
      begun.Notify();
      gone.WaitForNotification();
      exchange.OnGone({});
      absl::SleepFor(absl::Milliseconds(50));  // it takes some time to end
      Echo(exchange);
      ended = true;
    });
    HttpClient client = Connect();
    client.Send(GetRequest("/"));
    begun.WaitForNotification();
    server_->Shutdown(grace);
    EXPECT_TRUE(ended);
    EXPECT_EQ(client.Read().status, 0);
  }
}

TEST_F(HttpServerShutdownTest, FreesAHandlerWhoseClientDoesNotRead) {
  std::atomic<int> ended = 0;
  Start({}, [&](Exchange& exchange) {
    exchange.BeginEvents({});
    while (exchange.SendEvent(std::string(100'000, 'a'))) {
    }
    ++ended;
  });
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    clients.back().Send(GetRequest("/"));
    EXPECT_TRUE(clients.back().Receive());
  }
  server_->Shutdown(absl::Milliseconds(50));
  EXPECT_EQ(ended, 4);
}

// Clients ask as fast as they can while the server ends.
TEST_F(HttpServerShutdownTest, RequestsThatComeWithTheEnd) {
  for (int round = 0; round < 60; ++round) {
    Start({.max_requests = 2}, Echo);
    const int port = server_->port();
    std::atomic<int> answers = 0;
    std::vector<std::jthread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        try {
          HttpClient client(port);
          const std::string request = PostRequest("/", "abc");
          while (client.Ask(request + request).status != 0 && client.Read().status != 0) ++answers;
        } catch (const std::runtime_error&) {  // the server is gone
        }
      });
    }
    while (answers < 4 + round) std::this_thread::yield();
    server_->Shutdown(round % 3 == 0 ? absl::Seconds(20) : absl::ZeroDuration());
    if (round % 2 == 0) server_ = nullptr;
  }
}

}  // namespace
}  // namespace longstream::gateway
