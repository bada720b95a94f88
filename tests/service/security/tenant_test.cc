// The quotas of a tenant, also when many callers use them at once.
#include "service/security/tenants/tenant.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "service/errors/retry_after.h"
#include "service/security/tenants/tenants.h"

namespace longstream {
namespace {

constexpr int kCallers = 64;

struct Fixture {
  explicit Fixture(const TenantQuotas& quotas)
      : tenants({{.name = "acme", .weight = 2, .quotas = quotas}, {.name = "other", .quotas = {}}},
                all, [this] { return now; }),
        tenant(*tenants.Find("acme")) {}

  std::shared_ptr<HostMemory> all = std::make_shared<HostMemory>(10000);
  MonotonicTime now = MonotonicTime::Now();  // no time passes but what a test adds
  Tenants tenants;
  std::shared_ptr<Tenant> tenant;
};

// Runs `call` on kCallers threads at once, and returns how often it was true.
int CountOfCallers(const std::function<bool()>& call) {
  std::atomic<int> ready = 0, succeeded = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      ++ready;
      while (ready < kCallers) std::this_thread::yield();
      if (call()) ++succeeded;
    });
  }
  for (std::thread& caller : callers) caller.join();
  return succeeded;
}

void ExpectRefusal(const absl::Status& status, const std::string& text, absl::Duration after) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  EXPECT_EQ(RetryAfterOf(status), after);
}

TEST(Tenants, AreFoundByTheirNames) {
  const Fixture fixture({});
  EXPECT_TRUE(fixture.tenants.are_configured());
  EXPECT_EQ(fixture.tenant->weight(), 2u);
  EXPECT_EQ((*fixture.tenants.Find("other"))->index(), 1u);
  for (const char* unknown : {"", "acm", "acme2", "ACME"}) {
    EXPECT_EQ(fixture.tenants.Find(unknown).status().code(), absl::StatusCode::kPermissionDenied);
  }
}

TEST(Tenants, WithoutAConfigurationThereIsOneThatCountsNothing) {
  const auto all = std::make_shared<HostMemory>(0);
  const Tenants tenants({}, all);
  EXPECT_FALSE(tenants.are_configured());
  const std::shared_ptr<Tenant> tenant = *tenants.Find("");
  EXPECT_FALSE(tenants.Find("acme").ok());
  EXPECT_EQ(tenant->host_memory(), all.get());
  EXPECT_TRUE(tenant->TakeSession().ok());
  TurnAllowance turn = *tenant->BeginTurn(10);
  turn.Count(5);
  CacheCharge charge(tenant);
  EXPECT_TRUE(charge.TryGrow(1000));
  const TenantUse use = tenant->use();
  EXPECT_EQ(use.sessions + use.turns + use.tokens + use.cache_bytes, 0u);
}

TEST(Tenant, TransfersAreExactUnderManyCallers) {
  const Fixture fixture({.transfers = 5});
  EXPECT_EQ(CountOfCallers([&] { return fixture.tenant->TakeTransfer().ok(); }), 5);
  ExpectRefusal(fixture.tenant->TakeTransfer(),
                "quota transfers: the tenant has 5 exports and imports that run, its limit",
                absl::Seconds(1));
  EXPECT_EQ(fixture.tenant->use().transfers, 5u);
  fixture.tenant->ReturnTransfer();
  EXPECT_TRUE(fixture.tenant->TakeTransfer().ok());
}

TEST(Tenant, SessionsAreExactUnderManyCallers) {
  const Fixture fixture({.sessions = 17});
  EXPECT_EQ(CountOfCallers([&] { return fixture.tenant->TakeSession().ok(); }), 17);
  EXPECT_EQ(fixture.tenant->use().sessions, 17u);
  EXPECT_EQ(fixture.tenant->use().refusals[static_cast<size_t>(Quota::kSessions)], 64u - 17);
  ExpectRefusal(fixture.tenant->TakeSession(), "quota sessions: the tenant has 17 open sessions",
                absl::InfiniteDuration());
  fixture.tenant->ReturnSession();
  EXPECT_EQ(CountOfCallers([&] { return fixture.tenant->TakeSession().ok(); }), 1);
}

// Another server may have made the session that is closed here, or close one that was made here.
TEST(Tenant, StoredSessionsOfOtherServersAreCountedFromTheStore) {
  const Fixture fixture({.sessions = 2});
  Tenant& tenant = *fixture.tenant;
  ASSERT_TRUE(tenant.TakeSession().ok());  // in memory
  tenant.ReturnStored();
  EXPECT_EQ(tenant.use().sessions, 1u);
  ASSERT_TRUE(tenant.TakeSession().ok());
  tenant.MoveSessionToStore();
  EXPECT_FALSE(tenant.TakeSession().ok());
  tenant.CountStored(0);
  EXPECT_EQ(tenant.use().sessions, 1u);
  ASSERT_TRUE(tenant.TakeSession().ok());
  tenant.ReturnSession();
  tenant.ReturnSession();
  EXPECT_EQ(tenant.use().sessions, 0u);
}

TEST(Tenant, TurnsAreExactUnderManyCallers) {
  const Fixture fixture({.turns = 9});
  absl::Mutex mutex;
  std::vector<TurnAllowance> running;
  const auto begin = [&] {
    absl::StatusOr<TurnAllowance> turn = fixture.tenant->BeginTurn(5);
    if (!turn.ok()) return false;
    absl::MutexLock lock(&mutex);
    running.push_back(*std::move(turn));
    return true;
  };
  EXPECT_EQ(CountOfCallers(begin), 9);
  EXPECT_EQ(fixture.tenant->use().turns, 9u);
  ExpectRefusal(fixture.tenant->BeginTurn(5).status(), "quota turns: the tenant has 9 turns",
                absl::Seconds(1));
  running.pop_back();
  running.front().GiveBack();
  running.front().GiveBack();  // once is enough
  EXPECT_EQ(CountOfCallers(begin), 2);
  running.clear();
  EXPECT_EQ(fixture.tenant->use().turns, 0u);
}

TEST(Tenant, TokensAreExactUnderManyCallers) {
  const Fixture fixture({.tokens_per_minute = 1000});
  absl::Mutex mutex;
  std::vector<TurnAllowance> running;
  EXPECT_EQ(CountOfCallers([&] {
              absl::StatusOr<TurnAllowance> turn = fixture.tenant->BeginTurn(30);
              if (!turn.ok()) return false;
              absl::MutexLock lock(&mutex);
              running.push_back(*std::move(turn));
              return true;
            }),
            33);
  ExpectRefusal(
      fixture.tenant->BeginTurn(30).status(),
      "the turn may take 30 tokens, and the tenant has 10 left; the limit is 1000 a minute",
      absl::Seconds(1.2));
  running[0].Count(20);
  running[0].GiveBack();  // 10 were not used
  EXPECT_EQ(fixture.tenant->use().tokens, 20u);
  EXPECT_TRUE(fixture.tenant->BeginTurn(20).ok());
}

TEST(Tenant, TokensBeyondTheDemandAreTakenWhenTheyAreThere) {
  Fixture fixture({.tokens_per_minute = 1000});
  TurnAllowance turn = *fixture.tenant->BeginTurn(10);
  turn.Count(1500);  // it is never cut
  const absl::Status refused = fixture.tenant->BeginTurn(1).status();
  ExpectRefusal(refused, "has -500 left", absl::Seconds(30.06));
  fixture.now = fixture.now + absl::Seconds(30);
  EXPECT_FALSE(fixture.tenant->BeginTurn(1).ok());
  fixture.now = fixture.now + absl::Milliseconds(61);
  EXPECT_TRUE(fixture.tenant->BeginTurn(1).ok());
}

// The input of 64 turns that have begun with no token.
TEST(Tenant, TokensOfInputAreTakenBeforeTheyAreComputed) {
  Fixture fixture({.tokens_per_minute = 1000});
  std::vector<TurnAllowance> turns;
  for (int i = 0; i < kCallers; ++i) turns.push_back(*fixture.tenant->BeginTurn(0));
  std::atomic<size_t> next = 0;
  EXPECT_EQ(CountOfCallers([&] { return turns[next++].Take(30).ok(); }), 33);
  TurnAllowance turn = *fixture.tenant->BeginTurn(5);
  EXPECT_TRUE(turn.Take(0).ok());
  // Time for the whole turn, which begins anew.
  ExpectRefusal(turn.Take(20), "the turn may take 25 tokens, and the tenant has 5 left",
                absl::Seconds(1.2));
  turns.clear();
  EXPECT_TRUE(turn.Take(20).ok()) << "what was not computed is in the quota again";
  turn.Count(25);
  turn.GiveBack();
  EXPECT_TRUE(turn.Take(5000).ok()) << "the turn has ended";
  EXPECT_EQ(fixture.tenant->use().tokens, 25u);
  EXPECT_TRUE(fixture.tenant->BeginTurn(975).ok());
}

TEST(Tenant, BytesOfHostAndCachesAreExactUnderManyCallers) {
  const Fixture fixture({.session_bytes = 5000});
  HostCharge host(fixture.tenant->host_memory());
  ASSERT_TRUE(host.Add(400).ok());
  EXPECT_EQ(fixture.all->held_bytes(), 400u) << "it counts for all tenants too";
  absl::Mutex mutex;
  std::vector<std::unique_ptr<CacheCharge>> charges;
  EXPECT_EQ(CountOfCallers([&] {
              auto charge = std::make_unique<CacheCharge>(fixture.tenant);
              if (!charge->TryGrow(100)) return false;
              absl::MutexLock lock(&mutex);
              charges.push_back(std::move(charge));
              return true;
            }),
            46);
  EXPECT_EQ(fixture.tenant->use().cache_bytes, 4600u);
  EXPECT_TRUE(fixture.tenant->WouldFit(100, 100));
  EXPECT_FALSE(fixture.tenant->WouldFit(100, 99));
  ExpectRefusal(fixture.tenant->RefuseCaches(100),
                "hold 5000 bytes, of which 400 are on the host, and this needs 100 more for caches",
                absl::Seconds(1));
  ASSERT_TRUE(host.Add(500).ok()) << "caches go for it";
  EXPECT_TRUE(fixture.tenant->OverBytes());
  for (int i = 0; i < 5; ++i) charges.pop_back();
  EXPECT_FALSE(fixture.tenant->OverBytes());
  charges.clear();
  EXPECT_EQ(fixture.tenant->use().cache_bytes, 0u);
}

TEST(Tenant, TheHostsPartHasTheTenantsLimitAndThatOfAll) {
  const Fixture fixture({.session_bytes = 5000});
  HostCharge mine(fixture.tenant->host_memory());
  ASSERT_TRUE(mine.Add(4900).ok());
  ExpectRefusal(mine.Add(200), "hold 4900 bytes of the host's memory, and this needs 200 more",
                absl::Seconds(1));
  ASSERT_FALSE(fixture.tenant->host_memory()->CheckRoom(200).ok());
  const std::shared_ptr<Tenant> other = *fixture.tenants.Find("other");
  HostCharge theirs(other->host_memory());
  ASSERT_TRUE(theirs.Add(5000).ok()) << "this tenant has no quota";
  EXPECT_FALSE(theirs.Add(200).ok()) << "the limit of all is 10000";
  EXPECT_EQ(other->use().host_bytes, 5000u) << "a refusal counts nothing";
  EXPECT_TRUE(theirs.Add(100).ok());
  mine.Set(0);
  EXPECT_EQ(fixture.all->held_bytes(), 5100u);
  EXPECT_EQ(fixture.tenant->use().host_bytes, 0u);
}

TEST(RetryAfter, IsAPartOfTheStatus) {
  EXPECT_EQ(RetryAfterOf(absl::ResourceExhaustedError("x")), std::nullopt);
  const absl::Status status =
      WithRetryAfter(absl::ResourceExhaustedError("x"), absl::Milliseconds(1500));
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(1500));
  EXPECT_EQ(status.message(), "x");
}

}  // namespace
}  // namespace longstream
