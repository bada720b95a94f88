// Idle sessions in the store leave the memory when others need it, and go on when they are used.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/host_memory/host_memory.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/tenant_sessions.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

constexpr uint64_t kHostBytes = 1 << 20;
// A turn of so many bytes of text takes about 40 KB of the host's memory.
constexpr size_t kText = 5000;

SessionId IdOf(uint64_t number) { return {1, number}; }

// Repeats a call as a client does that has got RESOURCE_EXHAUSTED.
absl::Status Patiently(const std::function<absl::Status()>& call) {
  absl::Status status;
  const auto is_let_in = [&] {
    status = call();
    return !absl::IsResourceExhausted(status);
  };
  EXPECT_TRUE(WaitUntil(is_let_in));
  return status;
}

double EarlyReleases(TenantSessions& sessions, const std::string& reason) {
  return MetricValue(sessions.registry(), "longstream_session_early_releases_total",
                     {{"reason", reason}});
}

TEST(MemoryRoomTest, ASessionLeavesItsPlaceToAnother) {
  TenantSessions sessions(
      {.tenants = {}, .has_store = true, .max_sessions = 2, .least_idle = absl::ZeroDuration()});
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(sessions.Open("", IdOf(i)).ok());
  const absl::Status full = sessions.Open("", IdOf(2)).status();
  ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(Patiently([&] { return sessions.Open("", IdOf(2)).status(); }).ok());
  EXPECT_EQ(EarlyReleases(sessions, "places"), 1);
  // All three have the places in turn.
  for (uint64_t i = 0; i < 3; ++i) {
    const absl::Status status = Patiently([&] {
      return sessions.Turn({"", IdOf(i)}, "text", 4).status();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(MemoryRoomTest, ASessionThatWasUsedJustNowStays) {
  TenantSessions sessions(
      {.tenants = {}, .has_store = true, .max_sessions = 1, .least_idle = absl::Hours(1)});
  ASSERT_TRUE(sessions.Open("", IdOf(0)).ok());
  const absl::Time until = absl::Now() + absl::Seconds(3);  // three looks of the manager
  while (absl::Now() < until) {
    const absl::Status status = sessions.Open("", IdOf(1)).status();
    ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_EQ(EarlyReleases(sessions, "places"), 0);
}

TEST(MemoryRoomTest, ASessionThatOnlyLivesInMemoryStays) {
  TenantSessions sessions(
      {.tenants = {}, .has_store = true, .max_sessions = 2, .least_idle = absl::ZeroDuration()});
  ASSERT_TRUE(sessions.Open("", IdOf(0), "m", std::nullopt, Durability::kMemory).ok());
  for (uint64_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(Patiently([&] { return sessions.Open("", IdOf(i)).status(); }).ok());
  }
  EXPECT_EQ(EarlyReleases(sessions, "places"), 2);
  EXPECT_TRUE(sessions.Turn({"", IdOf(0)}, "text", 4).ok());
}

// Without room, 26 sessions of this length fit.
TEST(MemoryRoomTest, SessionsThatNobodyUsesMakeRoomForTokens) {
  constexpr uint64_t kSessions = 40;
  TenantSessions sessions({.tenants = {},
                           .has_store = true,
                           .host_bytes = kHostBytes,
                           .least_idle = absl::ZeroDuration()});
  const std::string text(kText, 't');
  for (uint64_t i = 0; i < kSessions; ++i) {
    const absl::Status opened = Patiently([&] { return sessions.Open("", IdOf(i)).status(); });
    ASSERT_TRUE(opened.ok()) << opened;
    const absl::Status status = Patiently([&] {
      return sessions.Turn({"", IdOf(i)}, text, 4).status();
    });
    ASSERT_TRUE(status.ok()) << i << ": " << status;
    // Bytes that turns leave behind are counted, and never refused.
    EXPECT_LE(sessions.host_memory().held_bytes(), kHostBytes + kHostBytes / 8);
  }
  EXPECT_GT(EarlyReleases(sessions, "host_bytes"), 0);
  // The first one has left, and is as it was.
  const absl::StatusOr<SessionView> first = sessions->View({"", IdOf(0)});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bytes.host, 0u);
  EXPECT_GE(first->position, kText);
  const absl::Status status = Patiently([&] {
    return sessions.Turn({"", IdOf(0)}, "text", 4).status();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sessions->View({"", IdOf(0)})->position, first->position + 8);
}

// They would leave again after each of their turns, and the memory would still be short.
TEST(MemoryRoomTest, SessionsStayIfOthersThatNeverLeaveHoldTheMemory) {
  TenantSessions sessions({.tenants = {},
                           .has_store = true,
                           .host_bytes = kHostBytes,
                           .least_idle = absl::ZeroDuration()});
  const std::string text(kText, 't');
  for (uint64_t i = 1; sessions.host_memory().held_bytes() < kHostBytes / 8 * 7; ++i) {
    ASSERT_TRUE(sessions.Open("", IdOf(i), "m", std::nullopt, Durability::kMemory).ok());
    ASSERT_TRUE(sessions.Turn({"", IdOf(i)}, text, 4).ok());
  }
  ASSERT_TRUE(sessions.Open("", IdOf(0)).ok());
  ASSERT_TRUE(sessions.Turn({"", IdOf(0)}, "text", 4).ok());
  ASSERT_LT(sessions.host_memory().held_bytes(), kHostBytes / 16 * 15);
  absl::SleepFor(absl::Seconds(3));  // three looks of the manager
  EXPECT_EQ(EarlyReleases(sessions, "host_bytes"), 0);
}

TEST(MemoryRoomTest, OnlySessionsOfTheTenantLeaveForItsQuota) {
  TenantSessions sessions({.tenants = {{.name = "a", .quotas = {.session_bytes = kHostBytes}},
                                       {.name = "b", .quotas = {}}},
                           .has_store = true,
                           .least_idle = absl::ZeroDuration()});
  const std::string text(kText, 't');
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(sessions.Open("b", IdOf(i)).ok());
    ASSERT_TRUE(sessions.Turn({"b", IdOf(i)}, text, 4).ok());
  }
  for (uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(Patiently([&] { return sessions.Open("a", IdOf(i)).status(); }).ok());
    const absl::Status status = Patiently([&] {
      return sessions.Turn({"a", IdOf(i)}, text, 4).status();
    });
    ASSERT_TRUE(status.ok()) << i << ": " << status;
  }
  EXPECT_GT(EarlyReleases(sessions, "quota"), 0);
  EXPECT_EQ(EarlyReleases(sessions, "host_bytes"), 0);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_GT(sessions->View({"b", IdOf(i)})->bytes.host, kText);
}

}  // namespace
}  // namespace longstream
