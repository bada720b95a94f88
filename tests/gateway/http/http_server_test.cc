// The answers of the server, on one connection or a few.
#include "gateway/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/gateway/http/http_client.h"
#include "tests/gateway/http/http_server_fixture.h"

namespace longstream::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Answers with the path.
void AnswerPath(Exchange& exchange) { exchange.Answer({.body = exchange.request().path}); }

TEST_F(HttpServerTest, Answers) {
  Start({}, Echo);
  const HttpResponse response = Ask(PostRequest("/a", "hello"));
  EXPECT_EQ(response.header.substr(0, 23), "HTTP/1.1 200 OK\r\nDate: ");
  EXPECT_TRUE(response.Has("Content-Type: text/plain"));
  EXPECT_TRUE(response.Has("Content-Length: 5"));
  EXPECT_EQ(response.header.find("Connection:"), std::string::npos);
  EXPECT_EQ(response.body, "hello");

  Start({}, [](Exchange& exchange) {
    exchange.Answer({404, "text/plain", "none", {{"X-A", "1"}, {"X-B", "2"}}});
  });
  const HttpResponse other = Ask(GetRequest("/"));
  EXPECT_EQ(other.header.substr(0, 24), "HTTP/1.1 404 Not Found\r\n");
  EXPECT_TRUE(other.Has("X-A: 1"));
  EXPECT_TRUE(other.Has("X-B: 2"));
}

TEST_F(HttpServerTest, OneConnectionServesManyRequests) {
  Start({}, Echo);
  HttpClient client = Connect();
  for (int i = 0; i < 100; ++i) {
    const std::string body = "body " + std::to_string(i);
    EXPECT_EQ(client.Ask(PostRequest("/", body)).body, body);
  }
  const HttpResponse last = client.Ask(GetRequest("/", "Connection: close\r\n"));
  EXPECT_TRUE(last.Has("Connection: close"));
  EXPECT_TRUE(client.Ends());
  EXPECT_EQ(MetricValue(*registry_, "longstream_connections_accepted_total"), 1);
}

TEST_F(HttpServerTest, Http10) {
  Start({}, Echo);
  HttpClient keeps = Connect();
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = keeps.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_TRUE(response.Has("Connection: keep-alive"));
    EXPECT_EQ(response.status, 200);
  }
  HttpClient closes = Connect();
  EXPECT_TRUE(closes.Ask("GET / HTTP/1.0\r\n\r\n").Has("Connection: close"));
  EXPECT_TRUE(closes.Ends());
}

TEST_F(HttpServerTest, RequestsInOnePacket) {
  Start({}, AnswerPath);
  HttpClient client = Connect();
  std::string requests;
  for (int i = 0; i < 50; ++i) requests += GetRequest("/" + std::to_string(i));
  client.Send(requests);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.Read().body, "/" + std::to_string(i));
  EXPECT_EQ(client.Ask(GetRequest("/after")).body, "/after");
}

// More than the server reads while it answers.
TEST_F(HttpServerTest, ManyRequestsThatComeDuringAnAnswer) {
  absl::Notification go_on;
  Start({}, [&](Exchange& exchange) {
    go_on.WaitForNotification();
    AnswerPath(exchange);
  });
  HttpClient client = Connect();
  client.Send(GetRequest("/first"));
  std::string requests;
  for (int i = 0; i < 5000; ++i) requests += GetRequest("/" + std::to_string(i));
  client.Send(requests);
  go_on.Notify();
  EXPECT_EQ(client.Read().body, "/first");
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(client.Read().body, "/" + std::to_string(i));
}

TEST_F(HttpServerTest, ABadRequestAfterAGoodOne) {
  Start({}, AnswerPath);
  HttpClient client = Connect();
  client.Send(GetRequest("/good") + "bad\r\n\r\n");
  EXPECT_EQ(client.Read().body, "/good");
  const HttpResponse bad = client.Read();
  EXPECT_EQ(bad.status, 400);
  EXPECT_TRUE(bad.Has("Connection: close"));
  EXPECT_TRUE(client.Ends());
}

TEST_F(HttpServerTest, AnswersToHeadHaveNoBody) {
  Start({}, AnswerPath);
  HttpClient client = Connect();
  client.Send("HEAD /abc HTTP/1.1\r\n\r\n");
  const HttpResponse head = client.Read(/*to_head=*/true);
  EXPECT_TRUE(head.Has("Content-Length: 4"));
  EXPECT_EQ(client.Ask(GetRequest("/d")).body, "/d");
}

TEST_F(HttpServerTest, RequestsInPieces) {
  Start({}, Echo);
  HttpClient client = Connect();
  for (const std::string& request :
       {PostRequest("/", "hello"),
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n"
                    "3\r\nllo\r\n0\r\n\r\n")}) {
    for (const char& byte : request) client.Send({&byte, 1});
    EXPECT_EQ(client.Read().body, "hello");
  }
}

TEST_F(HttpServerTest, LargeBodies) {
  Start({}, Echo);
  HttpClient client = Connect();
  std::string body(10 << 20, 'a');
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>('a' + i % 23);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(client.Ask(PostRequest("/", body)).body == body);
}

TEST_F(HttpServerTest, RefusedRequests) {
  Start({.limits = {.header_bytes = 1000, .body_bytes = 100}}, Echo);
  const auto status = [this](const std::string& request) {
    HttpClient client = Connect();
    const HttpResponse response = client.Ask(request);
    EXPECT_TRUE(response.Has("Connection: close"));
    EXPECT_THAT(response.body, HasSubstr("\"type\":\"invalid_request_error\""));
    EXPECT_TRUE(client.Ends());
    return response.status;
  };
  EXPECT_EQ(status("\r\n"), 400);
  EXPECT_EQ(status(GetRequest("/", "A: " + std::string(1000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status(PostRequest("/", std::string(101, 'a'))), 413);
  EXPECT_EQ(status(GetRequest("/", "Transfer-Encoding: gzip\r\n")), 400);
  EXPECT_EQ(WaitForRefused(4, "protocol"), 4);
  EXPECT_EQ(Ask(PostRequest("/", std::string(100, 'a'))).status, 200);
}

// Of a long body that is refused, the rest is read, so that the client gets the answer.
TEST_F(HttpServerTest, AClientThatSendsALongBodyGetsTheAnswer) {
  Start({.limits = {.body_bytes = 100}}, Echo);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask(PostRequest("/", std::string(500'000, 'a'))).status, 413);
  }
}

TEST_F(HttpServerTest, Continue) {
  Start({}, Echo);
  HttpClient client = Connect();
  const std::string header = WaitingHeader(3);
  EXPECT_EQ(client.Ask(header).status, 100);
  EXPECT_EQ(client.Ask("abc").body, "abc");
  client.Send(header);  // then also behind another request
  EXPECT_EQ(client.Read().status, 100);
  client.Send("abc" + header);
  EXPECT_EQ(client.Read().body, "abc");
  EXPECT_EQ(client.Read().status, 100);
  EXPECT_EQ(client.Ask("def").body, "def");
  EXPECT_EQ(client.Ask(header + "ghi").body, "ghi") << "100 is late";
}

TEST_F(HttpServerTest, Events) {
  Start({}, [](Exchange& exchange) {
    exchange.BeginEvents({{"X-A", "1"}});
    EXPECT_TRUE(exchange.SendEvent("data: 1\n\n"));
    EXPECT_TRUE(exchange.SendEvent(""));
    EXPECT_TRUE(exchange.SendEvent(std::string(300, 'x')));
    exchange.EndEvents();
    exchange.EndEvents();
  });
  HttpClient client = Connect();
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = client.Ask(GetRequest("/"));
    EXPECT_TRUE(response.Has("Content-Type: text/event-stream; charset=utf-8"));
    EXPECT_TRUE(response.Has("Cache-Control: no-cache"));
    EXPECT_TRUE(response.Has("X-A: 1"));
    EXPECT_TRUE(response.whole);
    EXPECT_THAT(response.chunks, ElementsAre("data: 1\n\n", std::string(300, 'x')));
  }
  HttpClient old = Connect();
  const HttpResponse response = old.Ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(response.Has("Connection: close"));
  EXPECT_EQ(response.header.find("chunked"), std::string::npos);
  EXPECT_EQ(response.body, "data: 1\n\n" + std::string(300, 'x'));
}

// An event comes when it is sent, not with the next one.
TEST_F(HttpServerTest, EventsComeAtOnce) {
  absl::Notification go_on;
  Start({}, [&](Exchange& exchange) {
    exchange.BeginEvents({});
    exchange.SendEvent("first");
    go_on.WaitForNotification();
    exchange.SendEvent("second");
    exchange.EndEvents();
  });
  HttpClient client = Connect();
  client.Send(GetRequest("/"));
  while (client.received().find("first") == std::string::npos) ASSERT_TRUE(client.Receive());
  go_on.Notify();
  EXPECT_EQ(client.Read().body, "firstsecond");
}

TEST_F(HttpServerTest, ManyEvents) {
  Start({}, [](Exchange& exchange) {
    exchange.BeginEvents({});
    for (int i = 0; i < 20000; ++i) exchange.SendEvent("event " + std::to_string(i) + "\n");
    exchange.EndEvents();
  });
  const HttpResponse response = Ask(GetRequest("/"));
  ASSERT_EQ(response.chunks.size(), 20000u);
  EXPECT_EQ(response.chunks.back(), "event 19999\n");
}

TEST_F(HttpServerTest, HandlersWithFaults) {
  Start({}, [](Exchange& exchange) {
    const std::string& path = exchange.request().path;
    if (path == "/throw") throw std::runtime_error("the model is gone");
    if (path == "/end") exchange.EndEvents();
    if (path == "/twice") exchange.Answer({.body = "first"});
    if (path == "/twice") exchange.Answer({.body = "second"});
    if (path == "/events") exchange.BeginEvents({});
    if (path == "/events") exchange.SendEvent("event");
    if (path == "/events") throw std::runtime_error("too late for another answer");
  });
  HttpClient client = Connect();
  const HttpResponse thrown = client.Ask(GetRequest("/throw"));
  EXPECT_EQ(thrown.status, 500);
  EXPECT_THAT(thrown.body, HasSubstr("the model is gone"));
  for (const char* const path : {"/nothing", "/end"}) {
    const HttpResponse nothing = client.Ask(GetRequest(path));
    EXPECT_EQ(nothing.status, 500);
    EXPECT_THAT(nothing.body, HasSubstr("the request has no answer"));
  }
  EXPECT_EQ(client.Ask(GetRequest("/twice")).body, "first");
  EXPECT_EQ(client.Ask(GetRequest("/events")).body, "event");
  EXPECT_EQ(client.Ask(GetRequest("/nothing")).status, 500) << "the connection is as before";
}

TEST_F(HttpServerTest, AClientThatLeaves) {
  for (const bool resets : {false, true}) {
    absl::Notification begun;
    absl::Notification gone;
    absl::Notification ended;
    Start({}, [&](Exchange& exchange) {
      exchange.OnGone([&] { gone.Notify(); });
      exchange.BeginEvents({});
      exchange.SendEvent("event");
      begun.Notify();
      gone.WaitForNotification();
      EXPECT_TRUE(exchange.gone());
      EXPECT_FALSE(exchange.SendEvent("event"));
      EXPECT_FALSE(exchange.SendEvent(""));
      exchange.EndEvents();
      exchange.OnGone({});
      ended.Notify();
    });
    HttpClient client = Connect();
    client.Send(GetRequest("/"));
    begun.WaitForNotification();
    resets ? client.tcp().Reset() : client.tcp().Close();
    EXPECT_TRUE(ended.WaitForNotificationWithTimeout(absl::Seconds(20)));
    EXPECT_EQ(WaitForOpen(0), 0);
  }
}

// A handler that waits for the model learns that its client has left, also after a client has once
// sent much at a time.
TEST_F(HttpServerTest, AClientThatLeavesAfterManyRequestsInOnePacket) {
  absl::Notification gone;
  Start({}, [&](Exchange& exchange) {
    if (exchange.request().path != "/wait") return AnswerPath(exchange);
    absl::Notification left;
    exchange.OnGone([&] { left.Notify(); });
    left.WaitForNotification();
    exchange.OnGone({});
    gone.Notify();
  });
  HttpClient client = Connect();
  std::string requests;
  for (int i = 0; i < 6000; ++i) requests += GetRequest("/a");
  client.Send(requests);
  for (int i = 0; i < 6000; ++i) ASSERT_EQ(client.Read().body, "/a");
  client.Send(GetRequest("/wait"));
  client.tcp().Close();
  EXPECT_TRUE(gone.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

TEST_F(HttpServerTest, AnAddressInUse) {
  Start({}, Echo);
  HttpServer::Options options;
  options.listen = "127.0.0.1:" + std::to_string(server_->port());
  EXPECT_EQ(HttpServer::Start(options, Echo).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace longstream::gateway
