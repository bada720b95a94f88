// Many clients at once, each of which does something else at random: honest ones must get the right
// answers, and at the end nothing may be left.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <random>
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
#include "tests/service/wait_until.h"

namespace longstream::gateway {
namespace {

using Random = std::mt19937;

size_t Below(Random& random, size_t bound) {
  return std::uniform_int_distribution<size_t>(0, bound - 1)(random);
}

// Answers in the way that the path names.
void AnswerInSomeWay(Exchange& exchange) {
  const std::string& path = exchange.request().path;
  if (path == "/throw") throw std::runtime_error("thrown");
  if (path == "/nothing") return;
  if (path == "/events") {
    exchange.BeginEvents({});
    for (int i = 0; i < 20; ++i) exchange.SendEvent(exchange.request().body);
    return exchange.EndEvents();
  }
  if (path == "/endless") {
    exchange.BeginEvents({});
    while (exchange.SendEvent(std::string(20'000, 'a'))) {
    }
    return;
  }
  if (path == "/wait") {
    absl::Notification gone;
    exchange.OnGone([&gone] { gone.Notify(); });
    gone.WaitForNotificationWithTimeout(absl::Milliseconds(100));
    exchange.OnGone({});
  }
  Echo(exchange);
}

class HttpServerRandomTest : public HttpServerTest {
 protected:
  // Requests with right answers, some in one packet, some in pieces.
  static void BeHonest(HttpClient& client, Random& random) {
    const size_t requests = 1 + Below(random, 5);
    std::vector<std::string> bodies;
    std::string bytes;
    for (size_t i = 0; i < requests; ++i) {
      bodies.push_back(
          std::string(Below(random, 3000), static_cast<char>('a' + Below(random, 26))));
      const bool events = Below(random, 3) == 0;
      bytes += PostRequest(events ? "/events" : "/echo", bodies.back());
      if (events) {
        std::string repeated;
        for (int j = 0; j < 20; ++j) repeated += bodies.back();
        bodies.back() = repeated;
      }
    }
    const size_t piece = 1 + Below(random, bytes.size());
    for (size_t at = 0; at < bytes.size(); at += piece) client.Send(bytes.substr(at, piece));
    for (const std::string& body : bodies) {
      const HttpResponse response = client.Read();
      EXPECT_EQ(response.status, 200);
      EXPECT_EQ(response.body, body);
      EXPECT_TRUE(response.whole);
    }
  }
  static void BeHostile(HttpClient& client, Random& random) {
    switch (Below(random, 8)) {
      case 0:
        client.Send("POST /echo HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" +
                    std::string(Below(random, 100'000), 'a'));
        break;
      case 1:
        EXPECT_EQ(client.Ask("bad\r\n\r\n").status, 400);
        break;
      case 2:
        client.Send(GetRequest("/endless"));
        client.Receive();
        break;
      case 3:
        client.Send(GetRequest("/wait"));
        break;
      case 4:
        EXPECT_EQ(client.Ask(GetRequest(Below(random, 2) == 0 ? "/throw" : "/nothing")).status,
                  500);
        break;
      case 5:
        client.Send(GetRequest("/echo"));
        client.tcp().CloseForWriting();
        client.Ends();
        break;
      case 6:
        client.Ask("GET /events HTTP/1.0\r\n\r\n");
        break;
      default:
        break;
    }
    if (Below(random, 2) == 0) client.tcp().Reset();
  }
  void RunClients(unsigned seed, int connections) {
    std::vector<std::jthread> clients;
    for (unsigned i = 0; i < 8; ++i) {
      clients.emplace_back([this, connections, seed = 8 * seed + i] {
        Random random(seed);
        for (int j = 0; j < connections; ++j) {
          HttpClient client = Connect();
          for (size_t k = Below(random, 3); k > 0; --k) BeHonest(client, random);
          if (Below(random, 2) == 0) BeHostile(client, random);
        }
      });
    }
  }
};

TEST_F(HttpServerRandomTest, ManyClients) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::atomic<int> running = 0;
    Start({}, [&](Exchange& exchange) {
      ++running;
      const std::shared_ptr<void> ends(nullptr, [&](void*) { --running; });
      AnswerInSomeWay(exchange);
    });
    RunClients(seed, 40);
    EXPECT_EQ(WaitForOpen(0), 0);
    server_->Shutdown(absl::Seconds(20));
    EXPECT_EQ(running, 0);
  }
}

// With small limits, honest clients may be refused, but the server goes on.
TEST_F(HttpServerRandomTest, SmallLimits) {
  const ConnectionTimes times{absl::Milliseconds(50), absl::Milliseconds(50),
                              absl::Milliseconds(50)};
  Start({.times = times, .max_held_bytes = 200'000, .max_connections = 6, .max_requests = 3},
        AnswerInSomeWay);
  std::vector<std::jthread> clients;
  for (unsigned i = 0; i < 8; ++i) {
    clients.emplace_back([this, seed = 100 + i] {
      Random random(seed);
      constexpr const char* kPaths[] = {"/echo", "/events", "/wait", "/throw", "/endless"};
      for (int j = 0; j < 40; ++j) {
        HttpClient client = Connect();
        std::string bytes;
        for (size_t k = Below(random, 4); k > 0; --k) {
          const size_t longest = Below(random, 10) == 0 ? 100'000 : 1000;
          bytes += PostRequest(kPaths[Below(random, std::size(kPaths))],
                               std::string(Below(random, longest), 'a'));
        }
        client.Send(bytes.substr(0, Below(random, bytes.size() + 1)));
        for (size_t k = Below(random, 20); k > 0 && client.Receive(); --k) {
        }
        if (Below(random, 2) == 0) client.tcp().Reset();
      }
    });
  }
  clients.clear();
  EXPECT_EQ(WaitForOpen(0), 0);
  EXPECT_TRUE(WaitUntil([&] { return Ask(PostRequest("/echo", "abc")).body == "abc"; }));
}

TEST_F(HttpServerRandomTest, ShutdownDuringManyClients) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    Start({.max_requests = 4}, AnswerInSomeWay);
    const int port = server_->port();
    std::atomic<int> begun = 0;
    std::vector<std::jthread> clients;
    for (unsigned i = 0; i < 6; ++i) {
      clients.emplace_back([&, port, client_seed = 10 * seed + i] {
        Random random(client_seed);
        try {
          for (;;) {
            HttpClient client(port);
            ++begun;
            constexpr const char* kPaths[] = {"/echo", "/events", "/wait", "/endless"};
            client.Ask(PostRequest(kPaths[Below(random, std::size(kPaths) - 1)], "abc"));
            client.Send(PostRequest(kPaths[Below(random, std::size(kPaths))], "abc"));
            client.Receive();
          }
        } catch (const std::runtime_error&) {  // the server is gone
        }
      });
    }
    while (begun < 20) absl::SleepFor(absl::Milliseconds(1));
    server_->Shutdown(seed % 2 == 0 ? absl::Milliseconds(30) : absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace longstream::gateway
