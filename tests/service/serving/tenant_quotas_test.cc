// The quotas of tenants: exact under many callers, and given back however a call ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "service/errors/retry_after.h"
#include "tests/service/serving/tenant_sessions.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr int kCallers = 64;
constexpr SessionId kId{1, 2};
const Place kNoPlace{.turn = TurnId{7, 7}, .position = {}};

TenantSessions::Options WithQuotas(const TenantQuotas& quotas, bool has_store = false) {
  return {.tenants = {{.name = "a", .quotas = quotas}, {.name = "b", .quotas = {}}},
          .has_store = has_store};
}

void ExpectRefusal(const absl::Status& status, const std::string& text) {
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  EXPECT_TRUE(RetryAfterOf(status).has_value());
}

// The use of a tenant becomes 0 when its last objects are gone, a moment after the last call.
void ExpectNothingUsed(TenantSessions& sessions, const std::string& tenant) {
  const auto used = [&] {
    const TenantUse use = sessions.UseOf(tenant);
    return use.sessions + use.turns + use.host_bytes + use.cache_bytes;
  };
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (used() > 0 && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
  const TenantUse use = sessions.UseOf(tenant);
  EXPECT_EQ(use.sessions, 0u);
  EXPECT_EQ(use.turns, 0u);
  EXPECT_EQ(use.host_bytes, 0u);
  EXPECT_EQ(use.cache_bytes, 0u);
}

// Calls `call` with 0 ... kCallers - 1 on as many threads at once. Returns how many succeeded;
// the others must be refusals that have the text.
int CountOfCallers(const std::function<absl::Status(uint64_t)>& call, const std::string& text) {
  std::atomic<int> ready = 0, succeeded = 0;
  std::vector<std::thread> callers;
  for (uint64_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i] {
      ++ready;
      while (ready < kCallers) std::this_thread::yield();
      const absl::Status status = call(i);
      if (status.ok()) {
        ++succeeded;
      } else {
        ExpectRefusal(status, text);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return succeeded;
}

class QuotasTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Stores, QuotasTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Store" : "Memory"; });

TEST_P(QuotasTest, SessionsAreExactUnderManyCallers) {
  TenantSessions sessions(WithQuotas({.sessions = 10}, GetParam()));
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  const auto open_or_fork = [&](uint64_t i) {
    const SessionId id{9, i};
    if (i % 4 != 0) return sessions.Open("a", id).status();
    absl::Status status;
    do {  // the other forks of the source may be running
      status = sessions.Fork({"a", kId}, id).status();
    } while (absl::IsAborted(status));
    return status;
  };
  EXPECT_EQ(CountOfCallers(open_or_fork, "quota sessions: the tenant has 10 open sessions"), 9);
  EXPECT_EQ(sessions->List("a", std::nullopt, 100).sessions.size(), 10u);
  EXPECT_EQ(sessions.UseOf("a").sessions, 10u);
  EXPECT_TRUE(sessions.Open("b").ok()) << "the other tenant has no quota";
  for (const SessionView& view : sessions->List("a", std::nullopt, 100).sessions) {
    ASSERT_TRUE(sessions.Close({"a", view.id}).ok());
  }
  EXPECT_EQ(sessions.UseOf("a").sessions, 0u) << "known when the last close answers";
  ExpectNothingUsed(sessions, "a");
}

TEST_P(QuotasTest, TurnsAreExactUnderManyCallers) {
  TenantSessions sessions(WithQuotas({.turns = 5}, GetParam()));
  for (uint64_t i = 0; i < kCallers; ++i) ASSERT_TRUE(sessions.Open("a", SessionId{9, i}).ok());
  absl::Mutex mutex;
  std::vector<TurnHandle> running;
  // Nobody reads, so the turns go on until they are cancelled.
  const auto begin = [&](uint64_t i) {
    absl::StatusOr<TurnHandle> turn = sessions.Begin({"a", {9, i}}, "text", 100000);
    if (!turn.ok()) return turn.status();
    absl::MutexLock lock(&mutex);
    running.push_back(*std::move(turn));
    return absl::OkStatus();
  };
  EXPECT_EQ(CountOfCallers(begin, "quota turns: the tenant has 5 turns that wait or run"), 5);
  EXPECT_EQ(sessions.UseOf("a").turns, 5u);
  for (TurnHandle& turn : running) turn.Cancel();
  for (TurnHandle& turn : running) {
    EXPECT_TRUE(absl::IsCancelled(TenantSessions::ReadToEnd(turn).status));
  }
  EXPECT_EQ(sessions.UseOf("a").turns, 0u) << "known when the turns end";
  EXPECT_TRUE(sessions.Turn({"a", {9, 1}}, "text", 3).ok());
}

TEST_P(QuotasTest, TokensAreTakenAndSettled) {
  std::atomic<int> seconds = 0;
  TenantSessions::Options options = WithQuotas({.tokens_per_minute = 400}, GetParam());
  options.quota_clock = [&seconds] { return MonotonicTime() + absl::Seconds(seconds.load()); };
  TenantSessions sessions(options);
  for (uint64_t i = 0; i < kCallers; ++i) ASSERT_TRUE(sessions.Open("a", SessionId{9, i}).ok());
  absl::Mutex mutex;
  std::vector<TurnHandle> running;
  // 4 tokens of the prompt and 196 of the answer.
  const auto begin = [&](uint64_t i) {
    absl::StatusOr<TurnHandle> turn = sessions.Begin({"a", {9, i}}, "text", 196);
    if (!turn.ok()) return turn.status();
    absl::MutexLock lock(&mutex);
    running.push_back(*std::move(turn));
    return absl::OkStatus();
  };
  EXPECT_EQ(CountOfCallers(begin, "quota tokens_per_minute: the turn may take 200 tokens"), 2);
  for (TurnHandle& turn : running) {
    EXPECT_TRUE(TenantSessions::ReadToEnd(turn).status.ok());
  }
  EXPECT_EQ(sessions.UseOf("a").tokens, 400u);
  const absl::Status refused = sessions.Turn({"a", {9, 1}}, "text", 196).status();
  ExpectRefusal(refused, "the limit is 400 a minute");
  EXPECT_EQ(RetryAfterOf(refused), absl::Seconds(30));
  EXPECT_EQ(sessions.UseOf("a").refusals[static_cast<size_t>(Quota::kTokensPerMinute)],
            kCallers - 2 + 1u);
  seconds = 15;
  const absl::Status early = sessions.Turn({"a", {9, 1}}, "text", 196).status();
  EXPECT_EQ(RetryAfterOf(early), absl::Seconds(15));
  seconds = 30;
  EXPECT_TRUE(sessions.Turn({"a", {9, 1}}, "text", 196).ok());
}

TEST(Quotas, TokensThatATurnDoesNotUseAreGivenBack) {
  TenantSessions sessions(WithQuotas({.tokens_per_minute = 1000}));
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  auto turn = sessions.Begin({"a", kId}, "text", 900);
  ASSERT_TRUE(turn.ok());
  turn->Cancel();
  TenantSessions::ReadToEnd(*turn);
  const uint64_t used = sessions.UseOf("a").tokens;
  ASSERT_LE(used, 904u);
  EXPECT_TRUE(sessions.Turn({"a", kId}, "text", 1000 - used - 5).ok());
}

TEST(Quotas, ScoresCountToo) {
  TenantSessions sessions(WithQuotas({.tokens_per_minute = 100, .turns = 1}));
  absl::StatusOr<NewTurn> turn = sessions->ScoreWith("a", "m");
  ASSERT_TRUE(turn.ok() && turn->Lease().ok());
  TurnRequest request = Generate(nullptr, std::string(101, 'x'), 0);
  request.kind = TurnKind::kScore;
  TurnHandle handle = turn->Make(request, nullptr);
  ASSERT_TRUE(turn->Start(handle).ok()) << "a full bucket is enough for any turn";
  EXPECT_TRUE(TenantSessions::ReadToEnd(handle).status.ok());
  handle = TurnHandle();
  EXPECT_EQ(sessions.UseOf("a").tokens, 101u);
  ExpectNothingUsed(sessions, "a");
}

// The caches' part of the quota of bytes is tested in engine_quotas_test.cc.
TEST(QuotaOfBytes, TheHostsPartIsRefused) {
  TenantSessions sessions(WithQuotas({.session_bytes = 100'000}));
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  const absl::Status refused = sessions.Turn({"a", kId}, std::string(60'000, 'x'), 3).status();
  ExpectRefusal(refused, "quota session_bytes: the tenant's sessions and turns hold");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("bytes of the host's memory"));
  EXPECT_TRUE(sessions.Open("b").ok());
  EXPECT_EQ(sessions.UseOf("a").turns, 0u);
  ASSERT_TRUE(sessions.Close({"a", kId}).ok());
  ExpectNothingUsed(sessions, "a");
}

// The bytes that a turn adds when it has begun are not refused, so the tenant may hold a little
// more.
TEST_P(QuotasTest, BytesAreRefusedUnderManyCallersAndGivenBack) {
  constexpr uint64_t kLimit = 1'000'000;
  TenantSessions sessions(WithQuotas({.session_bytes = kLimit}, GetParam()));
  for (uint64_t i = 0; i < kCallers; ++i) ASSERT_TRUE(sessions.Open("a", SessionId{9, i}).ok());
  const std::string text(20'000, 'x');
  const auto turn = [&](uint64_t i) {
    const absl::Status status = sessions.Turn({"a", {9, i}}, text, 3).status();
    EXPECT_LE(sessions.UseOf("a").host_bytes, 2 * kLimit);
    return status;
  };
  EXPECT_LT(CountOfCallers(turn, "quota session_bytes: the tenant's sessions and turns hold"),
            kCallers);
  for (uint64_t i = 1; i < kCallers; ++i) ASSERT_TRUE(sessions.Close({"a", {9, i}}).ok());
  EXPECT_TRUE(sessions.Turn({"a", {9, 0}}, "text", 3).ok()) << "there is room again";
  ASSERT_TRUE(sessions.Close({"a", {9, 0}}).ok());
  ExpectNothingUsed(sessions, "a");
}

class FailedCallsTest : public QuotasTest {};
INSTANTIATE_TEST_SUITE_P(Stores, FailedCallsTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Store" : "Memory"; });

TEST_P(FailedCallsTest, GiveBackWhatTheyTook) {
  TenantSessions::Options options = WithQuotas(
      {.sessions = 3, .session_bytes = 1 << 20, .tokens_per_minute = 1'000'000, .turns = 2},
      GetParam());
  options.cache_bytes = 400'000;
  TenantSessions sessions(options);
  const SessionKey key{"a", kId};
  // Opens and forks.
  EXPECT_FALSE(sessions.Open("a", kId, "unknown model").ok());
  EXPECT_FALSE(sessions.Open("a", kId, "m", absl::Hours(1000)).ok());
  EXPECT_FALSE(sessions.Fork(key).ok());
  ASSERT_TRUE(sessions.Open("a", kId).ok());
  EXPECT_FALSE(sessions.Open("a", kId, "m", absl::Minutes(1)).ok()) << "the id is in use";
  EXPECT_FALSE(sessions.Fork(key, kId).ok()) << "the id is in use";
  EXPECT_FALSE(sessions.Fork(key, std::nullopt, kNoPlace).ok());
  EXPECT_FALSE(sessions.Rewind(key, kNoPlace).ok());
  EXPECT_EQ(sessions.UseOf("a").sessions, 1u);
  // Turns that are refused at each point.
  EXPECT_FALSE(sessions.Turn(key, std::string(300'000, 'x'), 5).ok()) << "beyond the context";
  TurnRequest late = Generate(nullptr, "text", 5);
  late.deadline = MonotonicTime::Now() - absl::Seconds(1);
  EXPECT_FALSE(sessions.Begin(key, "", 0, &late).ok());
  absl::StatusOr<NewTurn> dropped = sessions->TurnOf(key);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  // The engine lets go of the late turn a moment after its end.
  ASSERT_TRUE(WaitUntil([&] { return dropped->Lease().ok(); }));
  dropped->Make(Generate(nullptr, "text", 5), nullptr);
  EXPECT_TRUE(absl::IsAborted(sessions.Turn(key, "text", 5).status())) << "the lease is held";
  dropped = absl::CancelledError("");
  EXPECT_EQ(sessions.UseOf("a").turns, 0u);
  // Turns that end early. Nobody reads them, so they cannot come to their end.
  auto cancelled = sessions.Begin(key, "text", 50'000);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  cancelled->Cancel();
  EXPECT_FALSE(TenantSessions::ReadToEnd(*cancelled).status.ok());
  cancelled = absl::CancelledError("");
  auto closed = sessions.Begin(key, "text", 50'000);
  ASSERT_TRUE(closed.ok()) << closed.status();
  ASSERT_TRUE(sessions.Close(key).ok());
  EXPECT_FALSE(TenantSessions::ReadToEnd(*closed).status.ok());
  closed = absl::CancelledError("");
  EXPECT_FALSE(sessions.Close(key).ok());
  ExpectNothingUsed(sessions, "a");
  // All of it again, up to the quota.
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(sessions.Open("a", SessionId{9, i}).ok());
  EXPECT_FALSE(sessions.Open("a").ok());
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(sessions.Close({"a", {9, i}}).ok());
  ExpectNothingUsed(sessions, "a");
}

TEST(Quotas, SessionsThatExpireInMemoryAreGivenBack) {
  TenantSessions sessions(WithQuotas({.sessions = 1}));
  ASSERT_TRUE(sessions.Open("a", kId, "m", absl::Milliseconds(10)).ok());
  ExpectNothingUsed(sessions, "a");  // within some seconds
  EXPECT_TRUE(sessions.Open("a").ok());
}

TEST(Quotas, SessionsThatExpireIntoTheStoreStay) {
  TenantSessions sessions(WithQuotas({.sessions = 1}, /*has_store=*/true));
  ASSERT_TRUE(sessions.Open("a", kId, "m", absl::Milliseconds(10)).ok());
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (sessions.UseOf("a").host_bytes > 0 && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(sessions.UseOf("a").host_bytes, 0u) << "it is evicted";
  EXPECT_FALSE(sessions.Open("a").ok()) << "and open";
  ASSERT_TRUE(sessions.Close({"a", kId}).ok());
  EXPECT_TRUE(sessions.Open("a").ok());
}

TEST(TenantReadsTest, ReadsOfOneTenantThatHangLeaveAThreadToTheOthers) {
  TenantSessions sessions(WithQuotas({}, /*has_store=*/true));
  const auto go_on = std::make_shared<absl::Notification>();  // shared with the threads that read
  absl::BlockingCounter hanging(100);
  for (int i = 0; i < 100; ++i) {
    sessions->Read<int>(
        {"a"},
        [go_on] {
          go_on->WaitForNotification();
          return 1;
        },
        [&](const absl::StatusOr<int>&) { hanging.DecrementCount(); });
  }
  for (int i = 0; i < 3; ++i) {
    absl::Notification read;
    sessions->Read<int>(
        {"b"}, [] { return 2; },
        [&](const absl::StatusOr<int>& found) {
          EXPECT_EQ(*found, 2);
          read.Notify();
        });
    read.WaitForNotification();
  }
  go_on->Notify();
  hanging.Wait();
}

}  // namespace
}  // namespace longstream
