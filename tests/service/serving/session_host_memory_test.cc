// The host's memory of sessions while they are opened, forked, used, closed and expire.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/chat/history_bytes.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"

namespace longstream {
namespace {

constexpr uint64_t kLimit = 1 << 20;

class SessionHostMemoryTest : public testing::Test {
 protected:
  SessionHostMemoryTest() { EXPECT_TRUE(models_.WaitUntilLoaded().ok()); }

  uint64_t Held() const { return models_.host_memory()->held_bytes(); }
  // The engine forgets a turn a little after the reader has got its end.
  void Flush() {
    const std::shared_ptr<Engine> engine = models_.Find("m").value();
    while (engine->num_turns() > 0) absl::SleepFor(absl::Milliseconds(1));
    engine->Flush();
  }
  uint64_t HeldByAll() {
    Flush();
    return Held();
  }

  SessionId Open(std::optional<absl::Duration> timeout = std::nullopt) {
    return WaitForSession([&](SessionManager::Opened opened) {
             sessions_.OpenSession("", "m", std::nullopt, timeout, std::move(opened));
           })
        .value()
        .id;
  }
  absl::StatusOr<SessionView> Fork(const SessionId& id) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_.ForkSession({"", id}, std::nullopt, std::nullopt, std::move(opened));
    });
  }
  void Close(const SessionId& id) {
    absl::Notification done;
    sessions_.CloseSession({"", id}, [&](const absl::StatusOr<uint64_t>&) { done.Notify(); });
    done.WaitForNotification();
  }
  uint64_t HostBytes(const SessionId& id) { return sessions_.View({"", id}).value().bytes.host; }

  // Starts a turn with a conversation of one message of `bytes` bytes.
  absl::StatusOr<TurnHandle> Start(const SessionId& id, TurnRequest request, size_t bytes) {
    absl::StatusOr<NewTurn> turn = sessions_.TurnOf({"", id});
    if (!turn.ok()) return turn.status();
    if (absl::Status status = turn->Lease(); !status.ok()) return status;
    auto history = std::make_shared<chat::History>();
    history->conversation.messages.push_back(chat::Value::MakeText(std::string(bytes, 'm')));
    absl::Status status =
        chat::ChargeHistory(turn->history().conversation.get(), turn->host_memory(), history.get());
    if (!status.ok()) return status;
    request.conversation = std::move(history);
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    status = turn->Start(handle);
    if (!status.ok()) return status;
    return handle;
  }
  static TurnEnd ReadToEnd(TurnHandle turn) {
    while (true) {
      const TurnStream::Item item = turn.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) return *end;
      if (std::holds_alternative<std::monostate>(item)) absl::SleepFor(absl::Microseconds(100));
    }
  }
  absl::Status Run(const SessionId& id, TurnRequest request, size_t bytes) {
    absl::StatusOr<TurnHandle> turn = Start(id, std::move(request), bytes);
    return turn.ok() ? ReadToEnd(*turn).status : turn.status();
  }

  MinimalModel model_;
  ModelRegistry models_{{.plugins = model_.plugins(),
                         .host = model_.host(),
                         .metrics = model_.registry(),
                         .engine = {},
                         .session_host_bytes = kLimit},
                        {model_.Source(R"({"step_delay_us": 50})")},
                        nullptr};
  SessionMetrics metrics_{model_.registry(), kLimit};
  SessionManager sessions_{&models_, {.metrics = &metrics_}};
};

TEST_F(SessionHostMemoryTest, OpenForkAndClose) {
  const SessionId id = Open();
  const uint64_t empty = HostBytes(id);
  EXPECT_GE(empty, 500u);
  EXPECT_EQ(HeldByAll(), empty);
  ASSERT_TRUE(Run(id, Generate(nullptr, std::string(5000, 'p'), 10), 30000).ok());
  const uint64_t used = HostBytes(id);
  EXPECT_GE(used, empty + 30000 + 4 * 5010 + 5010 / 8);
  EXPECT_EQ(HeldByAll(), used) << "the turn's request is freed";
  const absl::StatusOr<SessionView> fork = Fork(id);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_GE(fork->bytes.host, empty + 30000 + 4 * 5010 + 5010 / 8);
  EXPECT_LE(HeldByAll(), used + fork->bytes.host - 30000) << "the conversation is shared";
  Close(id);
  EXPECT_EQ(HeldByAll(), fork->bytes.host);
  Close(fork->id);
  EXPECT_EQ(HeldByAll(), 0u);
}

TEST_F(SessionHostMemoryTest, ACancelledTurnLeavesTheSessionAsItWas) {
  const SessionId id = Open();
  ASSERT_TRUE(Run(id, Generate(nullptr, "start", 10), 10000).ok());
  const uint64_t before = HeldByAll();
  {
    const absl::StatusOr<TurnHandle> turn =
        Start(id, Generate(nullptr, std::string(20000, 'x'), 40000), 200000);
    ASSERT_TRUE(turn.ok()) << turn.status();
    EXPECT_GE(Held(), before + 200000 + 80000) << "the conversation and the prompt";
    TurnHandle(*turn).Cancel();
    EXPECT_EQ(ReadToEnd(*turn).status.code(), absl::StatusCode::kCancelled);
    EXPECT_GE(HeldByAll(), before + 280000) << "the handle keeps the request";
  }
  EXPECT_EQ(Held(), HostBytes(id));
  EXPECT_LE(Held(), before + 500);
}

TEST_F(SessionHostMemoryTest, ReplacedTokensCountUntilTheTurnEnds) {
  const SessionId id = Open();
  ASSERT_TRUE(Run(id, Generate(nullptr, std::string(20000, 'a'), 1), 10).ok());
  const uint64_t before = HeldByAll();
  TurnRequest request = Generate(nullptr, "b", 5);
  request.kept_tokens = 10;
  ASSERT_TRUE(Run(id, std::move(request), 10).ok());
  EXPECT_LE(HeldByAll(), before - 70000) << "the session has 16 tokens";
  EXPECT_EQ(HeldByAll(), HostBytes(id));
}

TEST_F(SessionHostMemoryTest, BeyondTheLimitCallsAreRefusedAndSessionsStayAsTheyAre) {
  const SessionId id = Open();
  ASSERT_TRUE(Run(id, Generate(nullptr, std::string(20000, 'p'), 5), 700000).ok());
  const SessionId other = Open();
  const uint64_t before = HeldByAll();
  const uint64_t position = sessions_.View({"", id})->position;
  EXPECT_TRUE(absl::IsResourceExhausted(Run(id, Generate(nullptr, "more", 5), 400000)));
  TurnRequest long_prompt = Generate(nullptr, "", 5);
  long_prompt.prompt.assign(60000, 'p');
  EXPECT_TRUE(absl::IsResourceExhausted(Run(other, std::move(long_prompt), 10)));
  TurnRequest stops = Generate(nullptr, "x", 5);
  stops.stop.strings.assign(1, std::string(300000, 's'));
  EXPECT_TRUE(absl::IsResourceExhausted(Run(other, std::move(stops), 10)));
  EXPECT_EQ(HeldByAll(), before);
  EXPECT_EQ(sessions_.View({"", id})->position, position);
  EXPECT_EQ(model_.RequestsCounted("RESOURCE_EXHAUSTED"), 2) << "those that reached Start";
  std::vector<SessionId> forks;
  absl::StatusOr<SessionView> fork = Fork(id);
  for (; fork.ok(); fork = Fork(id)) forks.push_back(fork->id);
  EXPECT_TRUE(absl::IsResourceExhausted(fork.status())) << fork.status();
  EXPECT_LE(HeldByAll(), kLimit);
  for (const SessionId& each : forks) Close(each);
  EXPECT_EQ(HeldByAll(), before);
  EXPECT_TRUE(Run(id, Generate(nullptr, "more", 5), 10).ok());
}

TEST_F(SessionHostMemoryTest, ExpiredSessionsGiveTheirMemoryBack) {
  const SessionId id = Open(absl::Milliseconds(300));
  ASSERT_TRUE(Run(id, Generate(nullptr, "start", 10), 100000).ok());
  EXPECT_GE(Held(), 100000u);
  for (int i = 0; i < 20000 && Held() > 0; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(Held(), 0u);
}

TEST_F(SessionHostMemoryTest, TheMetricFollows) {
  const std::string name = "longstream_session_host_bytes";
  const SessionId id = Open();
  ASSERT_TRUE(Run(id, Generate(nullptr, "start", 10), 100000).ok());
  const auto held = static_cast<double>(HeldByAll());
  EXPECT_GE(held, 100000);
  EXPECT_EQ(WaitForMetric(*model_.registry(), held, name), held);
}

}  // namespace
}  // namespace longstream
