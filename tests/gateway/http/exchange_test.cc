// An exchange without a server.
#include "gateway/http/exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/wait_until.h"

namespace longstream::gateway {
namespace {

std::string TakeAll(Exchange& exchange) {
  std::string bytes;
  exchange.TakeBytes(&bytes);
  return bytes;
}

TEST(ExchangeTest, WakesForBytes) {
  int wakes = 0;
  Exchange exchange({}, [&] { ++wakes; });
  exchange.BeginEvents({});
  EXPECT_EQ(wakes, 1);
  exchange.SendEvent("a");
  EXPECT_EQ(wakes, 1) << "the bytes before were not taken";
  TakeAll(exchange);
  exchange.SendEvent("b");
  exchange.SendEvent("c");
  EXPECT_EQ(wakes, 2);
  EXPECT_EQ(TakeAll(exchange), "1\r\nb\r\n1\r\nc\r\n");
  EXPECT_EQ(TakeAll(exchange), "");
  EXPECT_FALSE(exchange.ended());
  exchange.EndEvents();
  EXPECT_EQ(wakes, 3);
  EXPECT_FALSE(exchange.ended()) << "bytes are left";
  EXPECT_EQ(TakeAll(exchange), "0\r\n\r\n");
  EXPECT_TRUE(exchange.ended());
}

// A proxy would take the chunks for the next answer.
TEST(ExchangeTest, AStreamForHeadIsItsHeader) {
  HttpRequest request;
  request.method = "HEAD";
  Exchange exchange(request, [] {});
  exchange.BeginEvents({});
  EXPECT_FALSE(exchange.SendEvent("a"));
  exchange.EndEvents();
  const std::string bytes = TakeAll(exchange);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n")) << bytes;
  EXPECT_EQ(bytes.find("\r\n\r\n"), bytes.size() - 4) << bytes;
  EXPECT_TRUE(exchange.ended());
}

TEST(ExchangeTest, TakeBytesAppends) {
  Exchange exchange({}, [] {});
  exchange.BeginEvents({});
  TakeAll(exchange);
  exchange.SendEvent("a");
  std::string bytes = "before ";
  exchange.TakeBytes(&bytes);
  EXPECT_EQ(bytes, "before 1\r\na\r\n");
}

TEST(ExchangeTest, ClosesIfTheClientOrTheServerWants) {
  HttpRequest leaves;
  leaves.keep_alive = false;
  Exchange client(leaves, [] {});
  client.Answer({});
  EXPECT_TRUE(client.closes());
  Exchange server({}, [] {});
  server.Close();
  server.Answer({});
  EXPECT_NE(TakeAll(server).find("\r\nConnection: close\r\n"), std::string::npos);
  Exchange neither({}, [] {});
  neither.Answer({});
  EXPECT_FALSE(neither.closes());
}

TEST(ExchangeTest, OnGone) {
  int calls = 0;
  const auto count = [&] { ++calls; };
  Exchange before({}, [] {});
  before.OnGone(count);
  before.Leave();
  before.Leave();
  EXPECT_EQ(calls, 1);
  Exchange after({}, [] {});
  after.Leave();
  after.OnGone(count);
  EXPECT_EQ(calls, 2);
  Exchange answered({}, [] {});
  answered.OnGone(count);
  answered.Answer({});
  answered.Leave();
  EXPECT_EQ(calls, 2) << "the answer has ended";
  Exchange withdrawn({}, [] {});
  withdrawn.OnGone(count);
  withdrawn.OnGone({});
  withdrawn.Leave();
  EXPECT_EQ(calls, 2);
}

// After OnGone({}), what the function uses may be destroyed.
TEST(ExchangeTest, OnGoneCanBeWithdrawnWhileTheClientLeaves) {
  for (int i = 0; i < 200; ++i) {
    Exchange exchange({}, [] {});
    auto used = std::make_unique<std::atomic<int>>(0);
    exchange.OnGone([&used] { ++*used; });
    std::jthread leaves([&] { exchange.Leave(); });
    exchange.OnGone({});
    used = nullptr;
  }
}

TEST(ExchangeTest, AHandlerWaitsForAClientThatDoesNotRead) {
  Exchange exchange({}, [] {});
  exchange.BeginEvents({});
  std::atomic<int> sent = 0;
  std::jthread handler([&] {
    while (exchange.SendEvent(std::string(1000, 'a'))) ++sent;
  });
  EXPECT_TRUE(WaitUntil([&] { return sent >= 260; }));
  absl::SleepFor(absl::Milliseconds(50));
  const int before = sent;
  EXPECT_LT(before, 265);
  EXPECT_GT(TakeAll(exchange).size(), 262'000u);
  EXPECT_TRUE(WaitUntil([&] { return sent > before; }));
  exchange.Leave();
}

}  // namespace
}  // namespace longstream::gateway
