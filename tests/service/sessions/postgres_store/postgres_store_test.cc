// The store in PostgreSQL: what it refuses, its versions, passwords, and servers that share it.
#include "service/sessions/store/postgres/postgres_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/sessions/store/sql/turn_path.h"
#include "tests/service/sessions/postgres_store/postgres_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(PostgresStoreTest, RefusesSettingsThatLoseChanges) {
  const auto open = [&](bool require_standby = false) {
    return PostgresStore::Open(
               {.url = Server().Url(database_), .password = "", .require_standby = require_standby})
        .status();
  };
  for (const std::string& setting : std::vector<std::string>{"off", "local", "remote_write"}) {
    Sql("ALTER DATABASE " + database_ + " SET synchronous_commit = " + setting);
    const absl::Status refused = open();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("synchronous_commit is '" + setting + "'"));
  }
  for (const std::string& setting : std::vector<std::string>{"remote_apply", "on"}) {
    Sql("ALTER DATABASE " + database_ + " SET synchronous_commit = " + setting);
    EXPECT_TRUE(open().ok()) << open();
  }
  EXPECT_EQ(open(true).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(open(true).message(), HasSubstr("synchronous_standby_names"));
}

TEST_F(PostgresStoreTest, NamesTheReasonWhenItIsRefused) {
  const auto why = [](const std::string& url) {
    const absl::Status refused = OpenUrl(url, absl::Seconds(5)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
    return std::string(refused.message());
  };
  EXPECT_THAT(why(Server().Url("nothing")), HasSubstr("database \"nothing\" does not exist"));
  const std::string limited = "limited_" + database_;
  Sql("CREATE ROLE " + limited + " LOGIN CONNECTION LIMIT 0");
  EXPECT_THAT(why(UrlAs(limited)), HasSubstr("too many connections for role"));
  Sql("ALTER DATABASE " + database_ + " SET default_transaction_read_only = on");
  EXPECT_THAT(why(Server().Url(database_)), HasSubstr("read-only"));
}

TEST_F(PostgresStoreTest, NeverRepeatsAPassword) {
  const std::string secret = "hunter2hunter";
  const absl::Status wrong = OpenUrl(Server().TcpUrl(database_, secret), absl::Seconds(5)).status();
  EXPECT_THAT(wrong.message(), HasSubstr("password authentication failed"));
  EXPECT_THAT(wrong.message(), HasSubstr("127.0.0.1"));
  EXPECT_THAT(wrong.message(), Not(HasSubstr(secret)));
  const PostgresStore::Options with_password = {.url = Server().TcpUrl(database_, secret),
                                                .password = PostgresServer::kPassword};
  EXPECT_TRUE(PostgresStore::Open(with_password).ok()) << "it takes the place of the URL's";
  EXPECT_EQ(*PublicName("postgresql://me:" + secret + "@host:5/db?password=" + secret),
            "postgresql://me@host:5/db");
  EXPECT_EQ(*PublicName("postgresql://me@a:1,b:2/db"), "postgresql://me@a,b:1,2/db");
  for (const std::string& url : std::vector<std::string>{
           "postgresql://me:a%zz" + secret + "@h/db", "postgresql://me:a@" + secret + "@h/db",
           "postgresql://me:a/" + secret + "@h/db", "postgresql://me:" + secret + "#@h:5x/db",
           "postgresql://me@h/db?passwort=" + secret}) {
    const absl::Status refused = OpenUrl(url).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(refused.message(), Not(HasSubstr("hunter"))) << url;
  }
}

TEST_F(PostgresStoreTest, AStoreOfANewerProgramIsRefusedIfItSaysSo) {
  const std::string id = *Open()->Id();
  Sql("UPDATE longstream.store SET version = 9");
  EXPECT_EQ(*Open()->Id(), id);
  Sql("UPDATE longstream.store SET min_reader = 9");
  const absl::Status refused = OpenUrl(Server().Url(database_)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("min_reader is 9"));
  EXPECT_THAT(refused.message(), HasSubstr("/" + database_));
}

TEST_F(PostgresStoreTest, ACopyOnOtherServersGetsAnotherId) {
  const std::string id = *Open()->Id();
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(*Open()->Id(), id);
  Sql("UPDATE longstream.store SET system_identifier = '1'");
  const std::string other = *Open()->Id();
  EXPECT_NE(other, id);
  EXPECT_EQ(*Open()->Id(), other);
}

TEST_F(PostgresStoreTest, TheOwnerOfTheDatabaseNeedsNoOtherRights) {
  const std::string url = UrlAs(MakeOwner());
  for (int round = 0; round < 2; ++round) {
    const auto store = OpenUrl(url);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(ApplyOne(**store, OpenSession{NewSession(7)}).ok(), round == 0);
    EXPECT_TRUE((*store)->CollectSegments({.now = At(0)}).ok());
    EXPECT_THAT(*(*store)->Check(10), IsEmpty());
  }
}

TEST_F(PostgresStoreTest, InspectMakesNothing) {
  const PostgresStore::Options options = {.url = Server().Url(database_), .password = ""};
  EXPECT_EQ(*PostgresStore::Inspect(options), "its tables will be made");
  EXPECT_EQ(PostgresStore::OpenExisting(options).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(*PostgresStore::Inspect(options), "its tables will be made");
  ASSERT_TRUE(ApplyOne(*Open(), OpenSession{NewSession(7)}).ok());
  EXPECT_EQ(*PostgresStore::Inspect(options), "it has 1 sessions");
}

TEST_F(PostgresStoreTest, CheckExistingMakesNothing) {
  const PostgresStore::Options options = {.url = Server().Url(database_), .password = ""};
  EXPECT_EQ(PostgresStore::CheckExisting(options, 10).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(*PostgresStore::Inspect(options), "its tables will be made");
  const std::string id = *Open()->Id();
  Sql("INSERT INTO longstream.sessions SELECT 1, '', 'id', '', '', 1, 1, NULL, 0, 0, 0, NULL, NULL,"
      " '', 0, NULL");
  // As on other servers, where Open draws another id.
  Sql("UPDATE longstream.store SET system_identifier = '1', version = 3");
  const auto faults = PostgresStore::CheckExisting(options, 10);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_EQ(faults->size(), 1u) << "the session has a wrong checksum";
  EXPECT_EQ(Sql("SELECT system_identifier || version || encode(id, 'hex') FROM longstream.store"),
            "13" + id);
  EXPECT_EQ(Sql("SELECT count(*) FROM longstream.writers"), "1");
}

// Without their directory, each file would seem to be lost.
TEST_F(PostgresStoreTest, CheckExistingAsksForTheDirectoryOfFiles) {
  PostgresStore::Options options = {.url = Server().Url(database_), .password = ""};
  ASSERT_NE(Open(), nullptr);
  EXPECT_TRUE(PostgresStore::CheckExisting(options, 10)->empty());
  Sql("INSERT INTO longstream.segments"
      "(number, tenant, key, kind, begin_token, end_token, bytes, data_checksum, file, checksum)"
      " SELECT 1, 't', '\\x01', 0, 0, 9, 9, 0, 'a-file', 0");
  const auto asked = PostgresStore::CheckExisting(options, 10);
  EXPECT_EQ(asked.status().code(), absl::StatusCode::kFailedPrecondition) << asked.status();
  EXPECT_NE(asked.status().message().find("1 segments are in files"), std::string::npos)
      << asked.status();
  const TemporaryDirectory directory;
  options.segments = directory.string();
  const auto faults = PostgresStore::CheckExisting(options, 10);
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_FALSE(faults->empty());
}

TEST_F(PostgresStoreTest, ManyServersMakeTheTablesOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_NE(Open(), nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Sql("SELECT count(*) FROM longstream.store"), "1");
}

TEST_F(PostgresStoreTest, AChangeThatPostgresRefusesFailsAlone) {
  const auto store = Open();
  std::vector<Change> changes;
  for (uint64_t i = 0; i < 20; ++i) changes.push_back(OpenSession{NewSession(100 + i)});
  changes.push_back(OpenSession{NewSession(200, "\xff")});
  changes.push_back(OpenSession{NewSession(100)});
  changes.push_back(StartTurn{{NewSession(101).key, 1, 9}, NewTurn(1)});
  const auto results = store->Apply(changes);
  for (size_t i = 0; i < 20; ++i) EXPECT_TRUE(results[i].ok()) << results[i].status();
  EXPECT_EQ(results[20].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(results[21].status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(results[22].status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store->CountSessions()->at(""), 20u);
  EXPECT_THAT(*store->Check(10), IsEmpty());
}

// The batch is refused because of its first change, and the second one waits for a lock in vain.
TEST_F(PostgresStoreTest, BehindAChangeThatTimesOutNoOtherIsTried) {
  const auto store = Open(absl::Seconds(1));
  Sql("CREATE SEQUENCE longstream.tries;"
      "CREATE FUNCTION longstream.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
      " IF new.tenant = 'refused' THEN RAISE SQLSTATE '22000'; END IF;"
      " IF new.tenant = 'locked' THEN RAISE SQLSTATE '55P03'; END IF;"
      " PERFORM nextval('longstream.tries'); RETURN new; END $$;"
      "CREATE TRIGGER refuse BEFORE INSERT ON longstream.sessions FOR EACH ROW"
      " EXECUTE FUNCTION longstream.refuse()");
  const auto results = store->Apply(std::vector<Change>{OpenSession{NewSession(1, "refused")},
                                                        OpenSession{NewSession(2, "locked")},
                                                        OpenSession{NewSession(3)}});
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].status().code(), absl::StatusCode::kInvalidArgument) << results[0].status();
  EXPECT_EQ(results[1].status().code(), absl::StatusCode::kUnavailable) << results[1].status();
  EXPECT_EQ(results[2].status().code(), absl::StatusCode::kUnavailable) << results[2].status();
  EXPECT_EQ(Sql("SELECT is_called FROM longstream.tries"), "f") << "the third was tried";
}

// Two servers commit turns of the same session. The fence lets one of them win each version.
TEST_F(PostgresStoreTest, TwoServersShareASession) {
  constexpr int kTurns = 30;
  const std::vector<std::unique_ptr<PostgresStore>> stores = [&] {
    std::vector<std::unique_ptr<PostgresStore>> two;
    for (int i = 0; i < 2; ++i) two.push_back(Open());
    return two;
  }();
  ASSERT_TRUE(ApplyOne(*stores[0], OpenSession{NewSession(7)}).ok());
  std::atomic<int> committed{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < stores.size(); ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t turn = i; committed < kTurns; turn += 2) {
        if (CommitOne(*stores[i], key_, turn, turn) != kNoTurn) ++committed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SessionRow row = *stores[0]->Session(key_);
  int turns = 0;
  TurnNumber younger = INT64_MAX;
  EXPECT_TRUE(stores[1]
                  ->VisitPath(row.head,
                              [&](const TurnRow& turn) {
                                EXPECT_LT(turn.number, younger);
                                younger = turn.number;
                                return ++turns > 0;
                              })
                  .ok());
  EXPECT_EQ(turns, committed);
  EXPECT_THAT(*stores[0]->Check(10), IsEmpty());
}

TEST_F(PostgresStoreTest, AChangedRowIsDataLossAndTheOthersServe) {
  const auto store = Open();
  for (const uint64_t id : {7u, 8u}) {
    ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(id)}).ok());
  }
  Sql("UPDATE longstream.sessions SET position = 11 WHERE number = 1");
  EXPECT_EQ(store->Session(key_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ApplyOne(*store, MoveHead{{key_, 1, 1}, kNoTurn, At(1)}).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_TRUE(store->Session(NewSession(8).key).ok());
  EXPECT_EQ(store->Sessions("", {}, 1, "")->size(), 1u) << "damaged rows do not count";
  EXPECT_EQ(store->Check(10)->size(), 1u);
}

TEST_F(PostgresStoreTest, TheTurnsBeforeADamagedOneAreVisited) {
  const auto store = Open();
  std::vector<TurnRow> turns;
  for (uint64_t i = 1; i <= 100; ++i) turns.push_back(NewTurn(i));
  ASSERT_TRUE(ApplyOne(*store, ImportSession{NewSession(7), turns, nullptr}).ok());
  const TurnNumber head = store->Session(key_)->head;
  const auto visits_until = [&](uint64_t last) {
    uint64_t seen = 0;
    const absl::Status status = store->VisitPath(head, [&](const TurnRow& turn) {
      seen = turn.id.low;
      return seen > last;
    });
    return std::make_pair(status.code(), seen);
  };
  EXPECT_EQ(visits_until(1), std::make_pair(absl::StatusCode::kOk, uint64_t{1}));
  const std::string damaged = " WHERE number = " + std::to_string(head - 50);
  Sql("UPDATE longstream.turns SET result = 'x'" + damaged);
  EXPECT_EQ(visits_until(1), std::make_pair(absl::StatusCode::kDataLoss, uint64_t{51}));
  EXPECT_EQ(visits_until(51), std::make_pair(absl::StatusCode::kOk, uint64_t{51}));
  Sql("UPDATE longstream.turns SET parent = " + std::to_string(head) + damaged);
  EXPECT_EQ(visits_until(1), std::make_pair(absl::StatusCode::kDataLoss, uint64_t{51}));
}

// Restoring a session takes few round trips.
TEST_F(PostgresStoreTest, OneQueryReadsManyTurns) {
  const auto store = Open();
  std::vector<TurnRow> turns;
  for (uint64_t i = 1; i <= 200; ++i) turns.push_back(NewTurn(i, std::string(10'000, 'x')));
  turns.push_back(NewTurn(201, std::string(5 << 20, 'x')));
  ASSERT_TRUE(ApplyOne(*store, ImportSession{NewSession(7), turns, nullptr}).ok());
  const TurnNumber head = store->Session(key_)->head;
  ReconnectGate gate;
  PostgresReader reader({.url = Server().Url(database_), .password = "", .timeout = kLong}, &gate);
  const TurnPage all = ReadTurnPage(reader, head - 1, TurnContents::kRead, 256);
  EXPECT_TRUE(all.error.ok()) << all.error;
  EXPECT_EQ(all.turns.size(), 200u);
  EXPECT_EQ(ReadTurnPage(reader, head, TurnContents::kRead, 256).turns.size(), 1u)
      << "it has more bytes than a page";
  EXPECT_EQ(ReadTurnPage(reader, head, TurnContents::kLeaveOut, 256).turns.size(), 201u);
  EXPECT_EQ(ReadTurnPage(reader, head, TurnContents::kLeaveOut, 16).turns.size(), 16u);
  EXPECT_EQ(ReadTurnPage(reader, head + 1, TurnContents::kRead, 16).error.code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PostgresStoreTest, WithoutADirectoryOnlyShortSegmentsAreKept) {
  const auto store = Open();
  ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(7)}).ok());
  const TurnNumber turn = CommitOne(*store, key_, 1, 10);
  EXPECT_TRUE(AddOne(*store, turn, 1, {}, {{NewFixed(1, 10), 60'000}}).ok());
  EXPECT_EQ(*ReadAll(*store, "", NewKey(1)), SegmentBytes(NewKey(1), 60'000));
  EXPECT_EQ(AddOne(*store, turn, 2, {}, {{NewFixed(2, 10), 70'000}}).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store->Health().state, StoreState::kOk);
}

}  // namespace
}  // namespace longstream::store
