// The table of sessions, and the lease of a session's turn.
#include "service/sessions/session_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/security/tenants/tenants.h"
#include "service/sessions/turn_lease.h"

namespace longstream {
namespace {

// A session that has been opened and whose turn is free.
std::shared_ptr<Session> NewSession(uint64_t low, const char* model = "m",
                                    absl::Duration timeout = absl::Hours(1)) {
  return TurnLease::OfNewSession(SessionId{0, low}, model, 100, timeout).session();
}

absl::StatusCode CodeOf(const absl::StatusOr<TurnLease>& lease) { return lease.status().code(); }

TEST(TurnLease, ANewSessionIsLeasedUntilItIsOpened) {
  TurnLease lease = TurnLease::OfNewSession(SessionId{0, 1}, "m", 100, absl::Seconds(10));
  const std::shared_ptr<Session> session = lease.session();
  EXPECT_TRUE(session->View().turn_running);
  EXPECT_EQ(CodeOf(TurnLease::Take(session)), absl::StatusCode::kAborted);
  EXPECT_FALSE(session->Expired(MonotonicTime::Now() + absl::Hours(1)));
  lease.Drop();
  EXPECT_TRUE(TurnLease::Take(session).ok());
}

TEST(TurnLease, OneAtATime) {
  const auto session = NewSession(1);
  {
    const absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
    EXPECT_TRUE(lease.ok());
    EXPECT_TRUE(session->View().turn_running);
    EXPECT_EQ(CodeOf(TurnLease::Take(session)), absl::StatusCode::kAborted);
  }
  EXPECT_FALSE(session->View().turn_running);
  EXPECT_TRUE(TurnLease::Take(session).ok());
}

// Readers do not refuse each other, or a turn. A turn refuses them, because it changes the tokens.
TEST(SessionTest, TokensAreCopiedWithoutTheLease) {
  const auto session = NewSession(1);
  TurnLease::Take(session)->state().tokens = {4, 5, 6};
  const absl::StatusOr<std::vector<int32_t>> first = session->CopyTokens();
  const absl::StatusOr<std::vector<int32_t>> second = session->CopyTokens();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, (std::vector<int32_t>{4, 5, 6}));
  EXPECT_EQ(*second, *first);
  EXPECT_FALSE(session->View().turn_running);
  {
    const absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
    ASSERT_TRUE(lease.ok());
    EXPECT_EQ(session->CopyTokens().status().code(), absl::StatusCode::kAborted);
  }
  EXPECT_TRUE(session->CopyTokens().ok());
  session->Close();
  EXPECT_EQ(session->CopyTokens().status().code(), absl::StatusCode::kNotFound);
}

TEST(TurnLease, AMovedLeaseIsGivenBackOnce) {
  const auto session = NewSession(1);
  TurnLease first = *TurnLease::Take(session);
  TurnLease second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(second);
  first.Drop();
  EXPECT_TRUE(session->View().turn_running);
  const auto other = NewSession(2);
  second = *TurnLease::Take(other);
  EXPECT_FALSE(session->View().turn_running) << "assigning a lease gives its earlier session back";
  EXPECT_TRUE(other->View().turn_running);
}

TEST(TurnLease, ExpectedPositionIsChecked) {
  const auto session = NewSession(1);
  {
    TurnLease lease = *TurnLease::Take(session, 0);
    lease.state().tokens = {1, 2, 3};
    lease.Publish();
  }
  const absl::Status status = TurnLease::Take(session, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("at position 3, the request expects 0"), std::string::npos);
  EXPECT_FALSE(session->View().turn_running) << "a refused turn holds its session";
  EXPECT_TRUE(TurnLease::Take(session, 3).ok());
}

TEST(TurnLease, AnExpectedPositionGivesNoSecondTurn) {
  const auto session = NewSession(1);
  const TurnLease lease = *TurnLease::Take(session, 0);
  EXPECT_EQ(CodeOf(TurnLease::Take(session, 0)), absl::StatusCode::kAborted);
}

TEST(TurnLease, ExactlyOneOfManyWritersWins) {
  const auto session = NewSession(1);
  std::atomic<int> inside = 0;
  std::atomic<int> won = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
        if (!lease.ok()) continue;
        EXPECT_EQ(inside.fetch_add(1), 0);
        lease->state().tokens.push_back(i);
        won.fetch_add(1);
        lease->Publish();
        inside.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session->View().position, static_cast<uint64_t>(won.load()));
  EXPECT_GT(won.load(), 0);
}

TEST(Session, NoTurnAfterClose) {
  const auto session = NewSession(1);
  EXPECT_TRUE(session->Close());
  EXPECT_FALSE(session->Close());
  EXPECT_EQ(CodeOf(TurnLease::Take(session)), absl::StatusCode::kNotFound);
}

TEST(Session, ExpiresOnlyWhenIdle) {
  const auto session = NewSession(1, "m", absl::Seconds(10));
  const MonotonicTime now = MonotonicTime::Now();
  EXPECT_FALSE(session->Expired(now));
  EXPECT_TRUE(session->Expired(now + absl::Seconds(11)));
  TurnLease lease = *TurnLease::Take(session);
  EXPECT_FALSE(session->CloseIfExpired(now + absl::Seconds(11)));
  lease.Drop();
  EXPECT_TRUE(session->CloseIfExpired(now + absl::Seconds(60)));
  EXPECT_FALSE(session->CloseIfExpired(now + absl::Seconds(60))) << "a session expires only once";
}

// The idle time counts from the end of the last turn, however long the turn ran.
TEST(Session, ATurnIsUse) {
  const auto session = NewSession(1, "m", absl::Milliseconds(50));
  const absl::Time opened = session->View().last_use_time;
  absl::SleepFor(absl::Milliseconds(2));
  TurnLease lease = *TurnLease::Take(session);
  const absl::Time begun = session->View().last_use_time;
  EXPECT_GT(begun, opened);
  absl::SleepFor(absl::Milliseconds(60));
  const MonotonicTime before_end = MonotonicTime::Now();
  lease.Drop();
  const MonotonicTime after_end = MonotonicTime::Now();
  EXPECT_GE(session->View().last_use_time - begun, absl::Milliseconds(50));
  EXPECT_FALSE(session->Expired(before_end + absl::Milliseconds(50)));
  EXPECT_TRUE(session->Expired(after_end + absl::Milliseconds(51)));
}

TEST(SessionTable, IdsAreUniqueAndFound) {
  SessionTable table(0);
  EXPECT_TRUE(table.Insert(NewSession(1)).ok());
  EXPECT_EQ(table.Insert(NewSession(1)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(table.Find({"", SessionId{0, 1}}).ok());
  EXPECT_EQ(table.Find({"", SessionId{0, 2}}).status().code(), absl::StatusCode::kNotFound);
}

// A late Remove must not remove a newer session with the same id.
TEST(SessionTable, RemovesThisSessionAndNoOther) {
  SessionTable table(0);
  const auto session = NewSession(1);
  const auto successor = NewSession(1);
  ASSERT_TRUE(table.Insert(session).ok());
  table.Remove(*session);
  EXPECT_EQ(table.size(), 0u);
  ASSERT_TRUE(table.Insert(successor).ok());
  table.Remove(*session);
  EXPECT_EQ(*table.Find({"", SessionId{0, 1}}), successor);
}

TEST(SessionTable, LimitIsResourceExhausted) {
  SessionTable table(2);
  EXPECT_TRUE(table.Insert(NewSession(1)).ok());
  EXPECT_TRUE(table.Insert(NewSession(2)).ok());
  EXPECT_EQ(table.Insert(NewSession(3)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(table.Insert(NewSession(2)).code(), absl::StatusCode::kAlreadyExists);
}

TEST(SessionTable, PagesFollowEachOther) {
  SessionTable table(0);
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(table.Insert(NewSession(i, i % 2 == 0 ? "even" : "odd")).ok());
  }
  std::vector<uint64_t> seen;
  std::optional<SessionId> after;
  while (true) {
    const auto page = table.List("", after, 2, {.model = "even", .alias = ""});
    if (page.empty()) break;
    for (const auto& session : page) seen.push_back(session->id().low);
    after = page.back()->id();
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(table.List("", std::nullopt, 100, {}).size(), 10u);
}

class TenantsOfTable : public testing::Test {
 protected:
  std::shared_ptr<Session> Insert(const std::string& tenant, uint64_t low,
                                  const char* model = "m") {
    std::shared_ptr<Session> session =
        TurnLease::OfNewSession(SessionId{0, low}, model, 100, absl::Hours(1),
                                /*host_memory=*/nullptr, *tenants_.Find(tenant))
            .session();
    EXPECT_TRUE(table_.Insert(session).ok());
    return session;
  }
  std::vector<uint64_t> Listed(const std::string& tenant, std::optional<SessionId> after,
                               size_t limit, const char* model = "") {
    std::vector<uint64_t> ids;
    for (const auto& session : table_.List(tenant, after, limit, {model, ""})) {
      ids.push_back(session->id().low);
    }
    return ids;
  }

  const Tenants tenants_{
      {{.name = "a", .quotas = {}}, {.name = "b", .quotas = {}}, {.name = "c", .quotas = {}}},
      std::make_shared<HostMemory>(0)};
  SessionTable table_{0};
};

TEST_F(TenantsOfTable, OneIdNamesASessionOfEach) {
  const auto of_a = Insert("a", 1);
  const auto of_b = Insert("b", 1);
  EXPECT_NE(of_a, of_b);
  EXPECT_EQ(*table_.Find({"a", SessionId{0, 1}}), of_a);
  EXPECT_EQ(*table_.Find({"b", SessionId{0, 1}}), of_b);
  table_.Remove(*of_a);
  const absl::Status foreign = table_.Find({"a", SessionId{0, 1}}).status();
  EXPECT_EQ(foreign, NoSession(SessionId{0, 1})) << "as for an id that nobody uses";
  EXPECT_EQ(table_.Find({"c", SessionId{0, 1}}).status(), foreign);
  EXPECT_EQ(*table_.Find({"b", SessionId{0, 1}}), of_b);
}

TEST_F(TenantsOfTable, PagesHaveTheSessionsOfOne) {
  for (const uint64_t low : {1, 3, 5}) Insert("a", low);
  for (const uint64_t low : {2, 3, 4, 6}) Insert("b", low, low == 4 ? "n" : "m");
  using Ids = std::vector<uint64_t>;
  EXPECT_EQ(Listed("a", std::nullopt, 10), (Ids{1, 3, 5}));
  EXPECT_EQ(Listed("b", std::nullopt, 2), (Ids{2, 3}));
  EXPECT_EQ(Listed("b", SessionId{0, 3}, 10), (Ids{4, 6}));
  EXPECT_EQ(Listed("b", SessionId{0, 3}, 10, "m"), (Ids{6}));
  EXPECT_EQ(Listed("a", SessionId{0, 5}, 10), Ids{}) << "the page does not go on with tenant b";
  EXPECT_EQ(Listed("c", std::nullopt, 10), Ids{});
}

TEST(SessionPlaces, AreGivenBackOnce) {
  const Tenants tenants({{.name = "a", .quotas = {.sessions = 2}}},
                        std::make_shared<HostMemory>(0));
  const std::shared_ptr<Tenant> tenant = *tenants.Find("a");
  const auto make = [&] {
    return TurnLease::OfNewSession(SessionId::Random(), "m", 100, absl::Hours(1), nullptr, tenant);
  };
  {
    const TurnLease first = make(), second = make(), third = make();
    EXPECT_TRUE(first.session()->TakePlace().ok());
    EXPECT_TRUE(second.session()->TakePlace().ok());
    EXPECT_FALSE(third.session()->TakePlace().ok());
    EXPECT_EQ(tenant->use().sessions, 2u);
    first.session()->GivePlaceBack();
    first.session()->GivePlaceBack();
    EXPECT_EQ(tenant->use().sessions, 1u);
    EXPECT_TRUE(third.session()->TakePlace().ok());
    third.session()->LeavePlaceToStore();
  }
  EXPECT_EQ(tenant->use().sessions, 1u) << "the store has one";
}

}  // namespace
}  // namespace longstream
