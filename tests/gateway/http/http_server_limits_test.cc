// The limits of time, connections, requests and memory, with hostile clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gateway/http/http_server.h"
#include "tests/gateway/http/http_client.h"
#include "tests/gateway/http/http_server_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream::gateway {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr absl::Duration kShort = absl::Milliseconds(300);
constexpr absl::Duration kLong = absl::Minutes(5);

class HttpServerLimitsTest : public HttpServerTest {
 protected:
  // A handler that waits until Release, and counts its calls.
  HttpServer::Handler Waits() {
    return [this](Exchange& exchange) {
      ++waiting_;
      release_.WaitForNotification();
      Echo(exchange);
      --waiting_;
    };
  }
  void ExpectWaiting(int count) {
    EXPECT_TRUE(WaitUntil([&] { return waiting_ == count; })) << waiting_;
  }
  void TearDown() override {
    if (!release_.HasBeenNotified()) release_.Notify();
  }

  std::atomic<int> waiting_ = 0;
  absl::Notification release_;
};

TEST_F(HttpServerLimitsTest, SlowRequests) {
  Start({.times = {kLong, absl::Seconds(1), kLong}}, Echo);
  HttpClient silent = Connect();
  HttpClient header = Connect();
  header.Send("GET / HT");
  HttpClient body = Connect();
  body.Send("POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
  HttpClient second = Connect();
  EXPECT_EQ(second.Ask(GetRequest("/")).status, 200);
  second.Send("G");
  HttpClient idle = Connect();
  EXPECT_EQ(idle.Ask(GetRequest("/")).status, 200);
  std::jthread drips([&] {
    while (body.Send("a")) absl::SleepFor(absl::Milliseconds(20));
  });
  for (HttpClient* const client : {&silent, &header, &body, &second}) {
    EXPECT_TRUE(client->Ends()) << "bytes do not give it more time";
  }
  EXPECT_EQ(WaitForRefused(3, "timeout"), 3) << "the others had a request";
  EXPECT_EQ(idle.Ask(GetRequest("/")).status, 200);
}

// The time of a request begins with its first byte.
TEST_F(HttpServerLimitsTest, TheTimeOfARequestBeginsLate) {
  Start({.times = {kLong, absl::Seconds(2), kLong}}, Echo);
  HttpClient client = Connect();
  absl::SleepFor(absl::Milliseconds(1200));
  const std::string request = PostRequest("/", "abc");
  client.Send(request.substr(0, 10));
  absl::SleepFor(absl::Milliseconds(1200));
  EXPECT_EQ(client.Ask(request.substr(10)).body, "abc");
}

TEST_F(HttpServerLimitsTest, IdleConnections) {
  Start({.times = {absl::Seconds(1), kLong, kLong}}, Echo);
  HttpClient client = Connect();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.Ask(GetRequest("/")).status, 200);
    absl::SleepFor(absl::Milliseconds(300));
  }
  EXPECT_TRUE(client.Ends());
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 0);
}

// The handler may take longer than all limits of the client.
TEST_F(HttpServerLimitsTest, TheTimeOfTheHandlerIsNotTheClients) {
  Start({.times = {kShort, kShort, kShort}}, [](Exchange& exchange) {
    absl::SleepFor(3 * kShort);
    exchange.BeginEvents({});
    absl::SleepFor(3 * kShort);
    exchange.SendEvent("a");
    absl::SleepFor(3 * kShort);
    exchange.SendEvent("b");
  });
  EXPECT_EQ(Ask(GetRequest("/")).body, "ab");
}

// Sends events until the client is gone. Returns how many bytes were sent.
size_t SendUntilGone(Exchange& exchange) {
  exchange.BeginEvents({});
  const std::string event(50'000, 'a');
  size_t sent = 0;
  while (exchange.SendEvent(event)) sent += event.size();
  return sent;
}

TEST_F(HttpServerLimitsTest, AClientThatDoesNotRead) {
  std::atomic<int> ended = 0;
  Start({.times = {kLong, kLong, absl::Seconds(1)}}, [&](Exchange& exchange) {
    SendUntilGone(exchange);
    ++ended;
  });
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(Connect());
    clients.back().Send(GetRequest("/"));
  }
  EXPECT_TRUE(WaitUntil([&] { return ended == 4; }));
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 0) << "they had a request";
}

TEST_F(HttpServerLimitsTest, AClientThatReadsSlowly) {
  constexpr size_t kSize = 12 << 20;
  Start({.times = {kLong, kLong, absl::Milliseconds(1500)}},
        [&](Exchange& exchange) { exchange.Answer({.body = std::string(kSize, 'a')}); });
  HttpClient client = Connect();
  const int small = 64 << 10;
  setsockopt(client.tcp().fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  client.Send(GetRequest("/"));
  size_t next = 0;
  while (client.received().size() < kSize && client.Receive()) {
    if (client.received().size() < next) continue;
    next = client.received().size() + (kSize >> 5);
    absl::SleepFor(absl::Milliseconds(60));
  }
  EXPECT_GE(client.received().size(), kSize) << "it takes longer than the limit, but it reads";
}

TEST_F(HttpServerLimitsTest, ANewConnectionReplacesTheLongestIdle) {
  Start({.max_connections = 3}, Echo);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(Connect());
    EXPECT_EQ(clients.back().Ask(GetRequest("/")).status, 200);
  }
  EXPECT_EQ(clients[0].Ask(GetRequest("/")).status, 200);
  HttpClient next = Connect();
  EXPECT_EQ(next.Ask(GetRequest("/")).status, 200);
  EXPECT_TRUE(clients[1].Ends());
  EXPECT_EQ(clients[0].Ask(GetRequest("/")).status, 200);
  EXPECT_EQ(clients[2].Ask(GetRequest("/")).status, 200);
  EXPECT_EQ(Refused("total"), 0);
}

TEST_F(HttpServerLimitsTest, ConnectionsInUseAreNotReplaced) {
  Start({.max_connections = 2}, Waits());
  HttpClient answers = Connect();
  answers.Send(PostRequest("/", "abc"));
  ExpectWaiting(1);
  HttpClient reads = Connect();
  EXPECT_EQ(reads.Ask(WaitingHeader(3)).status, 100);
  EXPECT_TRUE(Connect().Ends());
  EXPECT_TRUE(Connect().Ends());
  EXPECT_EQ(WaitForRefused(2, "total"), 2);
  release_.Notify();
  EXPECT_EQ(answers.Read().body, "abc");
  EXPECT_EQ(reads.Ask("def").body, "def");
}

TEST_F(HttpServerLimitsTest, ManyConnectionsDoNotDisturbOneInUse) {
  Start({.max_connections = 10}, Echo);
  for (int i = 0; i < 20; ++i) {
    HttpClient client = Connect();
    EXPECT_EQ(client.Ask(WaitingHeader(3)).status, 100);
    std::vector<HttpClient> flood;
    for (int j = 0; j < 30; ++j) flood.push_back(Connect());
    EXPECT_EQ(client.Ask("abc").body, "abc");
  }
}

TEST_F(HttpServerLimitsTest, TooManyRequests) {
  Start({.max_requests = 2}, Waits());
  HttpClient first = Connect();
  HttpClient second = Connect();
  first.Send(PostRequest("/", "1"));
  second.Send(PostRequest("/", "2"));
  ExpectWaiting(2);
  HttpClient third = Connect();
  for (int i = 0; i < 3; ++i) {
    const HttpResponse busy = third.Ask(PostRequest("/", "3"));
    EXPECT_EQ(busy.status, 503);
    EXPECT_TRUE(busy.Has("Retry-After: 1"));
    EXPECT_THAT(busy.body, HasSubstr("2 requests are being answered; try again"));
  }
  release_.Notify();
  EXPECT_EQ(first.Read().body, "1");
  EXPECT_EQ(second.Read().body, "2");
  ExpectWaiting(0);
  EXPECT_TRUE(WaitUntil([&] { return third.Ask(PostRequest("/", "3")).status == 200; }));
}

TEST_F(HttpServerLimitsTest, ShortRequestsHaveThreadsOfTheirOwn) {
  HttpServer::Options options;
  options.max_requests = 1;
  options.is_short = [](const HttpRequest& request) { return request.method == "GET"; };
  const HttpServer::Handler waits = Waits();
  Start(options, [waits](Exchange& exchange) {
    exchange.request().method == "GET" ? Echo(exchange) : waits(exchange);
  });
  HttpClient first = Connect();
  first.Send(PostRequest("/", "1"));
  ExpectWaiting(1);
  EXPECT_EQ(Ask(PostRequest("/", "2")).status, 503);
  EXPECT_EQ(Ask("GET / HTTP/1.1\r\n\r\n").status, 200);
  release_.Notify();
  EXPECT_EQ(first.Read().body, "1");
}

TEST_F(HttpServerLimitsTest, RequestsThatAreReadHoldMemory) {
  Start({.max_held_bytes = 1'000'000}, Echo);
  HttpClient first = Connect();
  first.Send("POST / HTTP/1.1\r\nContent-Length: 600000\r\n\r\n" + std::string(590'000, 'a'));
  absl::SleepFor(absl::Milliseconds(300));
  HttpClient idle = Connect();
  HttpClient second = Connect();
  second.Send("POST / HTTP/1.1\r\nContent-Length: 700000\r\n\r\n" + std::string(690'000, 'a'));
  const HttpResponse refused = second.Read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("all requests together may hold 1000000 bytes; try again"));
  EXPECT_EQ(idle.Ask(PostRequest("/", "abc")).body, "abc")
      << "the refused request holds nothing, although its client keeps the connection";
  first.tcp().Close();
  EXPECT_EQ(Ask(PostRequest("/", std::string(100'000, 'a'))).status, 200);
}

// A request that comes at once is never seen half.
TEST_F(HttpServerLimitsTest, RequestsThatComeAtOnceHoldMemory) {
  // A request counts several times, because its handler makes JSON and another request of it.
  Start({.max_held_bytes = 2'000'000}, Waits());
  const std::string body(100'000, 'a');
  std::vector<HttpClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(Connect());
    clients.back().Send(PostRequest("/", body));
  }
  ExpectWaiting(2);
  HttpClient third = Connect();
  const HttpResponse refused = third.Ask(PostRequest("/", body));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(waiting_, 2);
  // The handlers still hold their memory after their clients have left.
  clients.clear();
  EXPECT_EQ(WaitForOpen(1), 1);
  EXPECT_EQ(Connect().Ask(PostRequest("/", std::string(200'000, 'a'))).status, 503);
  release_.Notify();
  ExpectWaiting(0);
  EXPECT_EQ(Ask(PostRequest("/", body)).status, 200);
}

TEST_F(HttpServerLimitsTest, MemoryIsFreeAfterManyRequests) {
  Start({.max_held_bytes = 6'000'000}, Echo);  // several of the requests below
  HttpClient client = Connect();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(client.Ask(PostRequest("/", std::string(150'000, 'a'))).status, 200);
    HttpClient leaves = Connect();
    leaves.Send("POST / HTTP/1.1\r\nContent-Length: 200000\r\n\r\n" + std::string(190'000, 'a'));
    leaves.tcp().Reset();
    EXPECT_EQ(WaitForOpen(1), 1);
  }
}

// Floods that are no end of a request: chunks with little content, and what follows a refusal.
TEST_F(HttpServerLimitsTest, AFloodDoesNotDelayOthers) {
  Start({.limits = {.body_bytes = 1 << 30}, .max_held_bytes = uint64_t{4} << 30}, Echo);
  std::string chunks;
  for (int i = 0; i < 1000; ++i) chunks += "1;" + std::string(1000, 'a') + "\r\nx\r\n";
  std::atomic<bool> ends = false;
  std::vector<std::jthread> floods;
  for (int i = 0; i < 2; ++i) {
    floods.emplace_back([&] {
      HttpClient client = Connect();
      client.Send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
      while (!ends && client.Send(chunks)) {
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Ask(PostRequest("/", "abc")).body, "abc");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  }
  ends = true;
}

TEST_F(HttpServerLimitsTest, AClientThatSendsWithoutEndAfterARefusal) {
  Start({}, Echo);
  HttpClient client = Connect();
  client.Send("bad\r\n");
  const std::string more(100'000, 'a');
  int sent = 0;
  while (sent < 10'000 && client.Send(more)) ++sent;
  EXPECT_LT(sent, 10'000);
  EXPECT_EQ(WaitForOpen(0), 0);
}

// A client that gets its last answer and keeps its side open.
TEST_F(HttpServerLimitsTest, AClientThatDoesNotCloseAfterTheLastAnswer) {
  Start({.times = {kLong, kLong, kShort}}, Echo);
  HttpClient good = Connect();
  EXPECT_EQ(good.Ask(GetRequest("/", "Connection: close\r\n")).status, 200);
  HttpClient bad = Connect();
  EXPECT_EQ(bad.Ask("bad\r\n").status, 400);
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_EQ(Refused("timeout"), 0);
  EXPECT_EQ(WaitForRefused(1, "protocol"), 1);
}

}  // namespace
}  // namespace longstream::gateway
