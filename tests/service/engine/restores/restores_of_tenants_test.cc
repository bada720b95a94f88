// Turns whose caches are read from the store, and the queues and quotas of their tenants.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/service/engine/restores/restores_fixture.h"

namespace longstream {
namespace {

class EngineRestoresOfTenants : public EngineRestoresWithoutRoom {
 protected:
  EngineRestoresOfTenants()
      : EngineRestoresWithoutRoom({{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}}) {}

  // Turns of tenant b take every place of the queue that they may; tenant a still has its part.
  void ExpectAnEmptyQueue() {
    std::vector<std::shared_ptr<SessionTurn>> flood;
    absl::Status status;
    while (status.ok() && flood.size() < 1000) {
      flood.push_back(std::make_shared<SessionTurn>(
          Generate(engine_.Open(tenants_.all()[1]), "endless", 2000)));
      status = engine_.Start(flood.back());
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    flood.pop_back();
    EXPECT_GE(flood.size(), kMostWaiting);
    const auto turn = NewTurn(engine_.Open(tenants_.all()[0]), kFirst);
    EXPECT_TRUE(engine_.Start(turn).ok()) << "nothing of tenant a waits";
    for (const auto& other : flood) other->Cancel();
    turn->Cancel();
    engine_->Wake();
    for (const auto& other : flood) ReadToEnd(*other);
    ReadToEnd(*turn);
  }
};

TEST_F(EngineRestoresOfTenants, WaitAgainAndAreAdmitted) {
  const auto turn = StartAndLowerTheBudget();
  stored_->Done(absl::OkStatus());
  ASSERT_NO_FATAL_FAILURE(WaitUntilItWaits());
  EndHolder();
  EXPECT_EQ(ReadToEnd(*turn).tokens, expected_);
  SetBudget(kBudget);
  ExpectAnEmptyQueue();
}

TEST_F(EngineRestoresOfTenants, WaitAgainAndAreCancelled) {
  const auto turn = StartAndLowerTheBudget();
  stored_->Done(absl::OkStatus());
  ASSERT_NO_FATAL_FAILURE(WaitUntilItWaits());
  Cancel(turn);
  EndHolder();
  SetBudget(kBudget);
  ExpectAnEmptyQueue();
}

class EngineRestoresInAQuota : public EngineRestoresWithCaches {
 protected:
  EngineRestoresInAQuota()
      : EngineRestoresWithCaches({{.name = "a", .quotas = {.session_bytes = kQuota}}}) {}

  Tenant& tenant() { return *tenants_.all()[0]; }
  // The bytes of the turn in the quota, without the caches that the session has.
  uint64_t TurnBytes() {
    return TurnDemand::Held(info(), session_->View().position + kSecond.size() + 20);
  }
  void ExpectRestores(SessionTurn& turn, CacheFill& fill) {
    EXPECT_TRUE(fill.Write(bytes()).ok());
    stored_->Done(absl::OkStatus());
    const Outcome outcome = ReadToEnd(turn);
    EXPECT_EQ(outcome.tokens, expected_);
    EXPECT_EQ(outcome.end.usage.restored_tokens, position_);
    EXPECT_LE(tenant().use().cache_bytes, TurnBytes()) << "the snapshot has taken their place";
  }

  static constexpr uint64_t kQuota = uint64_t{1} << 30;
};

TEST_F(EngineRestoresInAQuota, CountTheCachesBesideTheSnapshot) {
  const uint64_t own = tenant().use().cache_bytes;
  EXPECT_GT(own, 0u);
  const uint64_t needed = TurnBytes();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  EXPECT_EQ(tenant().use().cache_bytes, needed + own);
  ExpectRestores(*turn, *fill);
}

TEST_F(EngineRestoresInAQuota, GiveTheCachesUpIfItHasNoRoomForBoth) {
  const uint64_t needed = TurnBytes();
  HostCharge other(tenant().host_memory());
  ASSERT_TRUE(other.Add(kQuota - needed).ok());
  const uint64_t reserved = Reserved();
  const auto turn = Start();
  const auto fill = stored_->WaitForFill();
  EXPECT_EQ(tenant().use().cache_bytes, needed);
  EXPECT_LT(Reserved(), reserved + TurnDemand::CacheBytes(info(), position_));
  ExpectRestores(*turn, *fill);
}

}  // namespace
}  // namespace longstream
