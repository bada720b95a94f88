// The database is started again, fails over, hangs, or loses an answer; rows are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/service/sessions/fleet_store/fleet_fixture.h"
#include "tests/service/sessions/postgres_store/commit_cutter.h"

namespace longstream::fleet {
namespace {

using store::ApplyOne;
using store::CommitCutter;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using FleetFaultsTest = PostgresFleetTest;

TEST_F(FleetFaultsTest, ARestartRaisesTheGenerationAndStopsClaims) {
  const auto a = Start("a"), b = Start("b");
  const SessionKey session = Open(a->name);
  const int64_t generation = b->Renew()->generation;
  EXPECT_TRUE(b->fleet.ReadRow(session, std::nullopt)->claims_allowed);
  EndLease(*a);
  database_.Disconnect();
  FleetDatabase::Server().Stop();
  FleetDatabase::Server().Start();

  // Nobody has noticed yet.
  const absl::StatusOr<OwnedRow> row = b->fleet.ReadRow(session, std::nullopt);
  ASSERT_TRUE(row.ok()) << row.status();
  EXPECT_FALSE(row->claims_allowed);
  EXPECT_FALSE(row->owner_lives);
  EXPECT_EQ(ApplyOne(*store_, Claim(session, b->name)).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(b->Renew()->generation, generation + 1);
  EXPECT_EQ(b->Renew()->generation, generation + 1) << "once";
  const absl::StatusOr<RenewedLease> of_a = a->TryToRenew();
  ASSERT_TRUE(of_a.ok()) << of_a.status();
  EXPECT_EQ(of_a->generation, generation + 1) << "also for others";
  EXPECT_TRUE(of_a->lapsed);
  EndLease(*a);
  EXPECT_EQ(ApplyOne(*store_, Claim(session, b->name)).status().code(),
            absl::StatusCode::kPermissionDenied);
  Run("UPDATE fleet SET claims_from = clock_timestamp()");
  EXPECT_TRUE(ApplyOne(*store_, Claim(session, b->name)).ok());
}

TEST_F(FleetFaultsTest, APromotedStandbyRaisesTheGeneration) {
  PostgresServer primary;
  const std::string database = primary.NewDatabase();
  const auto standby = PostgresServer::StandbyOf(primary);
  // postgresql://USER@HOST:PORT,HOST:PORT/DATABASE
  std::string url = primary.Url("");
  url.back() = ',';
  url += standby->Url(database).substr(std::string("postgresql://longstream@").size());
  const auto store =
      store::PostgresStore::Open({.url = url, .password = "", .commit_timeout = kLong});
  ASSERT_TRUE(store.ok()) << store.status();
  TestReplica a(url, "a");
  const int64_t generation = a.Renew()->generation;
  primary.Crash();
  standby->Promote();
  absl::StatusOr<RenewedLease> renewed = absl::UnknownError("");
  EXPECT_TRUE(WaitUntil([&] {
    renewed = a.TryToRenew();
    return renewed.ok();
  }));
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->generation, generation + 1);
  EXPECT_EQ(a.fleet.Join("a").value_or(""), "a/2") << "the standby had the first one";
}

// The answer that was lost may have said that the lease had lapsed.
TEST_F(FleetFaultsTest, AfterARenewalWithoutAnAnswerTheNextOneSaysThatTheLeaseLapsed) {
  TestReplica a(database_.url(), "a", absl::Seconds(1));
  const SessionKey session = Open(a.name);
  FleetDatabase::Server().Freeze();
  const absl::StatusOr<RenewedLease> lost = a.TryToRenew();
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnavailable) << lost.status();
  EXPECT_EQ(a.fleet.ReadRow(session, std::nullopt).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a.fleet.Join("b").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(a.fleet.Release(a.name).code(), absl::StatusCode::kUnavailable);
  FleetDatabase::Server().Thaw();
  absl::StatusOr<RenewedLease> renewed = absl::UnknownError("");
  EXPECT_TRUE(WaitUntil([&] {
    renewed = a.TryToRenew();
    return renewed.ok();
  }));
  EXPECT_TRUE(renewed.ok() && renewed->lapsed);
  EXPECT_TRUE(WaitUntil([&] {
    renewed = a.TryToRenew();
    return renewed.ok();
  }));
  EXPECT_TRUE(WaitUntil([&] { return a.fleet.ReadRow(session, std::nullopt).ok(); }));
}

// A collection or a large transaction holds the log's locks. Leases do not wait for it.
TEST_F(FleetFaultsTest, LeasesAndRowsDoNotWaitForTheLog) {
  const auto a = Start("a");
  const SessionKey session = Open(a->name);
  TestConnection log(database_.url());
  log.Run("BEGIN");
  log.Run("LOCK TABLE turns IN EXCLUSIVE MODE");
  log.Run("SELECT 1 FROM sessions FOR UPDATE");
  EXPECT_TRUE(a->Renew().has_value());
  EXPECT_TRUE(a->fleet.ReadRow(session, TurnId{1, 1}).ok());
  EXPECT_TRUE(a->fleet.Release(a->name).ok());
  log.Run("COMMIT");
}

// The connection is cut before the server gets the COMMIT of a claim, or before the answer arrives.
TEST_F(FleetFaultsTest, AClaimWhoseOutcomeIsUnknownIsMadeOnce) {
  const auto a = Start("a"), b = Start("b");
  CommitCutter proxy(FleetDatabase::Server().port());
  {
    std::atomic<int> unknown{0};
    const auto cut_store = store::PostgresStore::Open(
        {.url = absl::StrCat("postgresql://longstream@127.0.0.1:", proxy.port(), "/",
                             database_.name()),
         .password = PostgresServer::kPassword,
         .commit_timeout = kLong,
         .on_unknown = [&] { ++unknown; }});
    ASSERT_TRUE(cut_store.ok()) << cut_store.status();
    const std::vector<CommitCutter::Cut> cuts = {CommitCutter::Cut::kBefore,
                                                 CommitCutter::Cut::kAfter};
    std::vector<SessionKey> sessions;
    for (size_t i = 0; i < cuts.size(); ++i) sessions.push_back(Open(a->name));
    EndLease(*a);
    for (size_t i = 0; i < cuts.size(); ++i) {
      proxy.CutNext(cuts[i]);
      const auto claimed = ApplyOne(**cut_store, Claim(sessions[i], b->name));
      ASSERT_TRUE(claimed.ok()) << claimed.status();
      EXPECT_EQ(claimed->epoch, 2);
      EXPECT_EQ(claimed->version, 2);
      const absl::StatusOr<OwnedRow> row = b->fleet.ReadRow(sessions[i], std::nullopt);
      ASSERT_TRUE(row.ok()) << row.status();
      EXPECT_EQ(row->owner, b->name);
      EXPECT_EQ(row->epoch, 2);
    }
    EXPECT_EQ(unknown, 2);
  }
}

TEST_F(FleetFaultsTest, ADamagedRowIsDataLoss) {
  const auto a = Start("a"), b = Start("b");
  const SessionKey session = Open(a->name), other = Open(a->name);
  const TurnId turn = store::NewTurn(1).id;
  ASSERT_NE(store::CommitOne(*store_, session, 1, 10), store::kNoTurn);
  EndLease(*a);
  Run("UPDATE turns SET state = 1");
  EXPECT_EQ(b->fleet.ReadRow(session, turn).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(b->fleet.ReadRow(session, std::nullopt).ok());
  Run("UPDATE sessions SET owner = '" + b->name + "'");
  for (const SessionKey& key : {session, other}) {
    EXPECT_EQ(b->fleet.ReadRow(key, std::nullopt).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ApplyOne(*store_, Claim(key, b->name)).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(FleetFaultsTest, ALeaseThatWasForgottenHadLapsed) {
  const auto a = Start("a");
  Run("UPDATE leases SET lease_end = clock_timestamp() - interval '40 days'");
  const auto b = Start("b");
  EXPECT_EQ(Run("SELECT count(*) FROM leases"), "1");
  EXPECT_TRUE(a->Renew()->lapsed);
  const std::optional<RenewedLease> renewed = a->Renew();
  EXPECT_FALSE(renewed->lapsed);
  EXPECT_THAT(renewed->others, ElementsAre(Replica{b->name, "peer of " + b->name, "", false}));
}

TEST_F(FleetFaultsTest, NamesAreChecked) {
  store::PostgresFleet fleet({.url = database_.url(), .password = "", .timeout = kLong});
  EXPECT_EQ(fleet.Join("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(fleet.Join("\xff").status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"", "a", "a/", "/1", "a/0", "a/x", "a/-1"}) {
    EXPECT_EQ(fleet.Renew({name, "", "", false}, kLeaseTtl).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(fleet.Join("a/b'").value_or(""), "a/b'/1");
  EXPECT_TRUE(fleet.Renew({"a/b'/1", "", "", false}, kLeaseTtl).ok());
}

// The role that owns the database has no other rights.
TEST_F(FleetFaultsTest, TheOwnerOfTheDatabaseNeedsNoOtherRights) {
  FleetDatabase own;
  const std::string role = "owner_of_" + own.name();
  own.Run("CREATE ROLE " + role + " LOGIN");
  own.Run("ALTER DATABASE " + own.name() + " OWNER TO " + role);
  std::string url = own.url();
  url.replace(url.find("longstream"), 10, role);
  const auto store =
      store::PostgresStore::Open({.url = url, .password = "", .commit_timeout = kLong});
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(ApplyOne(**store, store::OpenSession{store::NewSession(1)}).ok());
  TestReplica a(url, "a");
  EXPECT_TRUE(ApplyOne(**store, Claim(store::NewSession(1).key, a.name)).ok());
  EXPECT_EQ(a.fleet.ReadRow(store::NewSession(1).key, std::nullopt)->owner, a.name);
}

TEST_F(FleetFaultsTest, CheckKnowsTheTables) {
  const auto a = Start("a"), b = Start("b");
  EXPECT_THAT(*store_->Check(10), IsEmpty());
  Run("UPDATE leases SET holder = 'a/7' WHERE replica = 'b'");
  EXPECT_THAT(*store_->Check(10), ElementsAre(HasSubstr("replica 'b' belongs to another")));
  Run("UPDATE leases SET holder = 'b/7', incarnation = 7 WHERE replica = 'b'");
  EXPECT_THAT(*store_->Check(10), ElementsAre(HasSubstr("'b' has incarnation 7")));
  Run("DELETE FROM fleet");
  EXPECT_THAT(*store_->Check(10), ElementsAre(HasSubstr("fleet has 0 rows")));
  EXPECT_EQ(a->TryToRenew().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(a->fleet.ReadRow(Open(""), std::nullopt)->claims_allowed);
}

TEST_F(FleetFaultsTest, AStoreOfVersion4GetsTheTables) {
  store_ = nullptr;
  Run("DROP TABLE notes");
  Run("DROP TABLE leases");
  Run("DROP TABLE fleet");
  Run("UPDATE store SET version = 4");
  const auto faults =
      store::PostgresStore::CheckExisting({.url = database_.url(), .password = ""}, 10);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_THAT(*faults, IsEmpty()) << "also before it is migrated";
  store_ = database_.OpenStore();
  EXPECT_EQ(Run("SELECT version FROM store"), "6");
  EXPECT_EQ(Run("SELECT min_reader FROM store"), "1");
  EXPECT_EQ(Start("a")->name, "a/1");
}

}  // namespace
}  // namespace longstream::fleet
