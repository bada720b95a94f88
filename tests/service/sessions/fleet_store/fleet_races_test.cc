// Claims and renewals that wait for each other, and replicas that claim at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/service/sessions/fleet_store/fleet_fixture.h"

namespace longstream::fleet {
namespace {

using store::ApplyOne;
using testing::HasSubstr;

using FleetRacesTest = PostgresFleetTest;

// The steps of a claim before it asks for the time.
constexpr const char* kLockLeases = "SELECT 1 FROM leases FOR SHARE";

// The lease ends while a claim looks at it and the renewal waits. Then the claim may have been
// made, so the renewal must say so.
TEST_F(FleetRacesTest, ARenewalThatWaitsForAClaimUntilTheLeaseIsOverSaysSo) {
  const auto a = Start("a");
  TestConnection claim(database_.url());
  Run("UPDATE leases SET lease_end = clock_timestamp() + interval '1 second'");
  claim.Run("BEGIN");
  claim.Run(kLockLeases);
  std::optional<RenewedLease> renewed;
  std::thread renewal([&] { renewed = a->Renew(); });
  EXPECT_TRUE(WaitForLocks(kLeases));
  EXPECT_TRUE(
      WaitUntil([&] { return Run("SELECT lease_end < clock_timestamp() FROM leases") == "t"; }));
  claim.Run("COMMIT");
  renewal.join();
  ASSERT_TRUE(renewed.has_value());
  EXPECT_TRUE(renewed->lapsed);
  EXPECT_EQ(Run("SELECT lease_end > clock_timestamp() + interval '9 hours' FROM leases"), "t");
  EXPECT_FALSE(a->Renew()->lapsed);
}

// Another transaction has ended the lease, such as a release whose answer was lost.
TEST_F(FleetRacesTest, ARenewalThatWaitsForAReleaseSaysSo) {
  const auto a = Start("a");
  TestConnection release(database_.url());
  release.Run("BEGIN");
  release.Run("UPDATE leases SET lease_end = clock_timestamp()");
  std::optional<RenewedLease> renewed;
  std::thread renewal([&] { renewed = a->Renew(); });
  EXPECT_TRUE(WaitForLocks(kLeases));
  release.Run("COMMIT");
  renewal.join();
  ASSERT_TRUE(renewed.has_value());
  EXPECT_TRUE(renewed->lapsed);
  EXPECT_EQ(Run("SELECT lease_end > clock_timestamp() + interval '9 hours' FROM leases"), "t");
}

// A later incarnation renews for the first time, and the earlier one waits for that.
TEST_F(FleetRacesTest, ARenewalThatWaitsForALaterIncarnationIsRefused) {
  const auto a = Start("a");
  const auto joined = a->fleet.Join("a");
  ASSERT_TRUE(joined.ok());
  TestConnection later(database_.url());
  later.Run("BEGIN");
  later.Run("UPDATE leases SET incarnation = 2, holder = '" + *joined + "'");
  absl::StatusOr<RenewedLease> renewed = absl::UnknownError("");
  std::thread renewal([&] { renewed = a->TryToRenew(); });
  EXPECT_TRUE(WaitForLocks(kLeases));
  later.Run("COMMIT");
  renewal.join();
  EXPECT_EQ(renewed.status().code(), absl::StatusCode::kFailedPrecondition) << renewed.status();
  EXPECT_THAT(renewed.status().message(), HasSubstr("replica 'a'"));
}

// The lease is over when the claim begins, and a renewal is made before the claim can look.
TEST_F(FleetRacesTest, AClaimThatWaitsForARenewalIsRefused) {
  for (const bool is_made : {true, false}) {
    const auto a = Start("a"), b = Start("b");
    const SessionKey session = Open(a->name);
    EndLease(*a);
    TestConnection renewal(database_.url());
    renewal.Run("BEGIN");
    renewal.Run(
        "UPDATE leases SET lease_end = clock_timestamp() + interval '1 hour'"
        " WHERE replica = 'a'");
    absl::StatusOr<store::Applied> claimed = absl::UnknownError("");
    std::thread claim([&] { claimed = ApplyOne(*store_, Claim(session, b->name)); });
    EXPECT_TRUE(WaitForLocks(kWriter));
    renewal.Run(is_made ? "COMMIT" : "ROLLBACK");
    claim.join();
    EXPECT_EQ(claimed.status().code(),
              is_made ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kOk)
        << claimed.status();
    EXPECT_THAT(claimed.status().message(), HasSubstr(is_made ? "a/1 is not over" : ""));
  }
}

// The claimer's own lease is released before the claim can look.
TEST_F(FleetRacesTest, AClaimThatWaitsForTheEndOfItsOwnLeaseIsRefused) {
  const auto a = Start("a"), b = Start("b");
  const SessionKey session = Open(a->name);
  EndLease(*a);
  TestConnection release(database_.url());
  release.Run("BEGIN");
  release.Run("UPDATE leases SET lease_end = clock_timestamp() WHERE replica = 'b'");
  absl::StatusOr<store::Applied> claimed = absl::UnknownError("");
  std::thread claim([&] { claimed = ApplyOne(*store_, Claim(session, b->name)); });
  EXPECT_TRUE(WaitForLocks(kWriter));
  release.Run("COMMIT");
  claim.join();
  EXPECT_EQ(claimed.status().code(), absl::StatusCode::kPermissionDenied) << claimed.status();
  EXPECT_THAT(claimed.status().message(), HasSubstr("lease of b/2 is over"));
}

// A replica notices that the database was started again, before the claim can look.
TEST_F(FleetRacesTest, AClaimThatWaitsForTheNoticeOfARestartIsRefused) {
  const auto a = Start("a"), b = Start("b");
  const SessionKey session = Open(a->name);
  EndLease(*a);
  TestConnection notice(database_.url());
  notice.Run("BEGIN");
  notice.Run("UPDATE fleet SET claims_from = clock_timestamp() + interval '1 hour'");
  absl::StatusOr<store::Applied> claimed = absl::UnknownError("");
  std::thread claim([&] { claimed = ApplyOne(*store_, Claim(session, b->name)); });
  EXPECT_TRUE(WaitForLocks(kWriter));
  notice.Run("COMMIT");
  claim.join();
  EXPECT_EQ(claimed.status().code(), absl::StatusCode::kPermissionDenied) << claimed.status();
  EXPECT_THAT(claimed.status().message(), HasSubstr("no claims are allowed yet"));
}

// Otherwise many replicas that take sessions of one, as when it drains, could hold up its renewal
// for so long that it loses its lease.
TEST_F(FleetRacesTest, ATransferDoesNotTouchTheLeaseOfTheOwnerBefore) {
  const auto a = Start("a"), b = Start("b");
  const SessionKey session = Open(a->name);
  TestConnection renewal(database_.url());
  renewal.Run("BEGIN");
  renewal.Run("UPDATE leases SET lease_end = lease_end WHERE replica = 'a'");
  const absl::StatusOr<store::Applied> taken = ApplyOne(
      *store_, store::ChangeOwner{{session, 1, 1}, b->name, store::OwnerCondition::kTransfer});
  EXPECT_TRUE(taken.ok()) << taken.status();
  renewal.Run("COMMIT");
}

// Each of two replicas has locked a session, if it locks them in the order of its changes, and
// waits for the next one.
TEST_F(FleetRacesTest, ReplicasThatClaimTheSameSessionsDoNotWaitInACircle) {
  Run("ALTER DATABASE " + database_.name() + " SET deadlock_timeout = '10min'");
  const std::unique_ptr<store::PostgresStore> stores[] = {database_.OpenStore(),
                                                          database_.OpenStore()};
  const auto lost = Start("lost"), b = Start("b");
  std::vector<store::Change> changes;
  for (int i = 0; i < 3; ++i) changes.emplace_back(Claim(Open(lost->name), b->name));
  EndLease(*lost);
  TestConnection middle(database_.url());
  middle.Run("BEGIN");
  middle.Run("SELECT 1 FROM sessions WHERE number = 2 FOR UPDATE");
  std::atomic<int> ended{0}, made{0};
  std::vector<std::thread> claims;
  for (const auto& store : stores) {
    claims.emplace_back([&ended, &made, &store, changes] {
      for (const auto& result : store->Apply(changes)) made += result.ok() ? 1 : 0;
      ++ended;
    });
    std::ranges::reverse(changes);
  }
  EXPECT_TRUE(WaitForLocks(kWriter, 2));
  middle.Run("COMMIT");
  EXPECT_TRUE(WaitUntil([&] { return ended == 2; }));
  for (std::thread& claim : claims) claim.join();
  EXPECT_EQ(made, 3);
}

// Two replicas claim the sessions of a third one, each all of them in one transaction, in other
// orders, while they renew their leases.
TEST_F(FleetRacesTest, OfTwoReplicasThatClaimOneWins) {
  constexpr size_t kSessions = 40;
  const auto lost = Start("lost"), b = Start("b"), c = Start("c");
  const auto other_store = database_.OpenStore();
  std::vector<SessionKey> sessions;
  for (size_t i = 0; i < kSessions; ++i) sessions.push_back(Open(lost->name));
  EndLease(*lost);
  std::atomic<bool> ends{false};
  std::vector<std::thread> renewals;
  for (TestReplica* const replica : {b.get(), c.get()}) {
    renewals.emplace_back([&ends, replica] {
      while (!ends) EXPECT_FALSE(replica->Renew()->lapsed);
    });
  }
  const auto claim_all = [&](store::PostgresStore& store, const ReplicaName& owner, bool reversed) {
    std::vector<store::Change> changes;
    for (const SessionKey& session : sessions) changes.emplace_back(Claim(session, owner));
    if (reversed) std::ranges::reverse(changes);
    auto results = store.Apply(changes);
    if (reversed) std::ranges::reverse(results);
    return results;
  };
  std::vector<absl::StatusOr<store::Applied>> of_b, of_c;
  std::thread other([&] { of_c = claim_all(*other_store, c->name, /*reversed=*/true); });
  of_b = claim_all(*store_, b->name, /*reversed=*/false);
  other.join();
  ends = true;
  for (std::thread& renewal : renewals) renewal.join();
  for (size_t i = 0; i < kSessions; ++i) {
    EXPECT_NE(of_b[i].ok(), of_c[i].ok()) << of_b[i].status() << " " << of_c[i].status();
    const absl::Status& refused = of_b[i].ok() ? of_c[i].status() : of_b[i].status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
    const absl::StatusOr<OwnedRow> row = b->fleet.ReadRow(sessions[i], std::nullopt);
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ(*row, (OwnedRow{.open = true,
                              .owner = of_b[i].ok() ? b->name : c->name,
                              .epoch = 2,
                              .version = 2,
                              .owner_lives = true}));
  }
}

TEST_F(FleetRacesTest, ManyReplicasThatJoinAtOnceHaveDifferentNames) {
  std::vector<std::thread> threads;
  std::vector<std::string> names(12);
  for (size_t i = 0; i < names.size(); ++i) {
    threads.emplace_back(
        [&, i] { names[i] = TestReplica(database_.url(), std::to_string(i % 6)).name; });
    if (i % 6 == 5) {
      for (std::thread& thread : threads) thread.join();
      threads.clear();
    }
  }
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace
}  // namespace longstream::fleet
