// PostgreSQL is started again, crashes, hangs, loses connections in a COMMIT, and fails over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "service/sessions/store/postgres/url.h"
#include "tests/processes/dropping_proxy.h"
#include "tests/processes/free_port.h"
#include "tests/service/sessions/postgres_store/commit_cutter.h"
#include "tests/service/sessions/postgres_store/postgres_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using PostgresFaultsTest = PostgresStoreTest;

void WaitForChanges(const Writers& writers, uint64_t more) {
  const uint64_t until = writers.acknowledged() + more;
  EXPECT_TRUE(WaitUntil([&] { return writers.acknowledged() >= until; }));
}

// A store waits for the lock of its row in `writers`.
bool WaitsForARow(const PostgresServer& server) {
  return server.Sql("postgres",
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND"
                    " application_name LIKE 'longstream-writer%'") != "0";
}

TEST_F(PostgresFaultsTest, NothingIsLostWhenTheServerIsStartedAgain) {
  const auto store = Open();
  Writers writers(store.get());
  for (const bool crash : {false, true, true}) {
    WaitForChanges(writers, 20);
    if (crash) {
      Server().Crash();
    } else {
      Server().Stop();
    }
    Server().Start();
  }
  WaitForChanges(writers, 20);
  writers.Stop();
  writers.ExpectAllThere(*store);
  EXPECT_EQ(store->Health().state, StoreState::kOk);
}

// The connection is cut before the server gets the COMMIT, or before the client gets the answer.
TEST_F(PostgresFaultsTest, ALostCommitIsSettled) {
  CommitCutter proxy(Server().port());
  {
    std::atomic<int> unknown{0};
    auto store = PostgresStore::Open({.url = "postgresql://longstream@127.0.0.1:" +
                                             std::to_string(proxy.port()) + "/" + database_,
                                      .password = PostgresServer::kPassword,
                                      .commit_timeout = kLong,
                                      .on_unknown = [&] { ++unknown; }});
    ASSERT_TRUE(store.ok()) << store.status();
    int64_t version = 1;
    ASSERT_TRUE(ApplyOne(**store, OpenSession{NewSession(7)}).ok());
    for (const auto cut :
         {CommitCutter::Cut::kBefore, CommitCutter::Cut::kAfter, CommitCutter::Cut::kBefore}) {
      proxy.CutNext(cut);
      const auto started =
          ApplyOne(**store, StartTurn{{key_, 1, version}, NewTurn(static_cast<uint64_t>(version))});
      ASSERT_TRUE(started.ok()) << started.status();
      EXPECT_EQ(started->version, ++version);
      EXPECT_TRUE((*store)->Turn(started->turn).ok());
    }
    EXPECT_EQ(unknown, 3);
    EXPECT_EQ((*store)->TurnNumbers(key_, 0, 100)->size(), 3u);
  }
}

// Commits wait for a standby that does not exist. So the server's process is in the middle of the
// COMMIT when it is killed, or when the client gives up.
TEST_F(PostgresFaultsTest, ACommitThatHangsOrIsKilledIsAnsweredWhenItsOutcomeIsDurable) {
  for (const bool kill_process : {true, false}) {
    SessionRow row;  // of the last session that was opened
    std::atomic<bool> is_unknown{false}, is_answered{false};
    auto store = PostgresStore::Open({.url = Server().Url(database_),
                                      .password = "",
                                      .commit_timeout = kill_process ? kLong : absl::Seconds(1),
                                      .on_unknown = [&] { is_unknown = true; }});
    ASSERT_TRUE(store.ok()) << store.status();
    Server().Set("synchronous_standby_names", "nobody");
    absl::StatusOr<Applied> applied = absl::UnknownError("");
    // A moment passes until PostgreSQL's processes know the setting. Until then commits do not
    // wait.
    std::thread change([&] {
      for (uint64_t id = kill_process ? 1000 : 100'000; !is_unknown; ++id) {
        row = NewSession(id);
        applied = ApplyOne(**store, OpenSession{row});
      }
      is_answered = true;
    });
    if (kill_process) {
      std::string pid;
      EXPECT_TRUE(WaitUntil([&] {
        pid = Server().Sql("postgres",
                           "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND"
                           " application_name LIKE 'longstream-writer%'");
        return !pid.empty();
      }));
      if (pid.empty()) is_unknown = true;  // the test has failed; the thread ends
      if (!pid.empty()) kill(static_cast<pid_t>(std::stol(pid)), SIGKILL);
    }
    EXPECT_TRUE(WaitUntil([&] { return is_unknown.load(); }));
    EXPECT_FALSE(is_answered) << "the standby does not have it";
    if (!kill_process) {
      EXPECT_TRUE(WaitUntil([&] { return WaitsForARow(Server()); }))
          << "until the COMMIT has ended";
      EXPECT_EQ(Sql("SELECT count(*) FROM longstream.sessions WHERE id = '\\x" +
                    absl::BytesToHexString(row.key.id.Bytes()) + "'"),
                "0")
          << "others must not see what the standby does not have";
    }
    // After a SIGKILL, PostgreSQL restarts all of its processes.
    EXPECT_TRUE(WaitUntil([&] {
      try {
        Server().Set("synchronous_standby_names", "");
        return true;
      } catch (const std::runtime_error&) {
        return false;
      }
    }));
    change.join();
    ASSERT_TRUE(applied.ok()) << applied.status();
    EXPECT_EQ(applied->version, 1);
    EXPECT_TRUE((*store)->Session(row.key).ok());
  }
}

TEST_F(PostgresFaultsTest, AServerThatHangsIsGivenUpAndComesBack) {
  const auto store = Open(absl::Seconds(1));
  ASSERT_TRUE(ApplyOne(*store, OpenSession{NewSession(7)}).ok());
  Server().Freeze();
  const auto refused = ApplyOne(*store, OpenSession{NewSession(8)});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr("nothing was changed"));
  EXPECT_EQ(store->Health().state, StoreState::kUnreachable);
  EXPECT_EQ(store->Session(key_).status().code(), absl::StatusCode::kUnavailable);
  Server().Thaw();
  EXPECT_TRUE(WaitUntil([&] { return store->Health().state == StoreState::kOk; }))
      << "also without changes";
  EXPECT_TRUE(WaitUntil([&] { return store->Session(key_).ok(); }));
  EXPECT_EQ(store->Session(NewSession(8).key).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(WaitUntil([&] { return ApplyOne(*store, OpenSession{NewSession(9)}).ok(); }));
}

TEST_F(PostgresFaultsTest, AServerThatStopsIsMissedWithoutChangesAndReads) {
  const auto store = Open(absl::Seconds(1));
  Server().Stop();
  EXPECT_TRUE(WaitUntil([&] { return store->Health().state == StoreState::kUnreachable; }));
  EXPECT_THAT(store->Health().reason, HasSubstr("connect"));
  Server().Start();
  EXPECT_TRUE(WaitUntil([&] { return store->Health().state == StoreState::kOk; }));
  EXPECT_TRUE(ApplyOne(*store, OpenSession{NewSession(7)}).ok());
}

TEST_F(PostgresFaultsTest, WithoutAServerChangesAndReadsFailInTime) {
  const auto store = Open(absl::Seconds(1));
  Server().Stop();
  EXPECT_EQ(ApplyOne(*store, OpenSession{NewSession(8)}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->Session(key_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->Collect(At(0)).status().code(), absl::StatusCode::kUnavailable);
  Server().Start();
  EXPECT_TRUE(WaitUntil([&] { return ApplyOne(*store, OpenSession{NewSession(8)}).ok(); }));
}

TEST_F(PostgresFaultsTest, AStandbyTakesOverWithAllThatWasAcknowledged) {
  PostgresServer primary;
  const std::string database = primary.NewDatabase();
  const auto standby = PostgresServer::StandbyOf(primary);
  // postgresql://USER@HOST:PORT,HOST:PORT/DATABASE
  std::string url = primary.Url("");
  url.back() = ',';
  url += standby->Url(database).substr(std::string("postgresql://longstream@").size());
  std::atomic<bool> other_timeline{false};
  const auto store = PostgresStore::Open(
      {.url = url,
       .password = "",
       .commit_timeout = kLong,
       .require_standby = false,
       .on_other_server = [&](const ServerIdentity& before, const ServerIdentity& now) {
         EXPECT_EQ(before.system_identifier, now.system_identifier);
         other_timeline = before.timeline < now.timeline;
       }});
  ASSERT_TRUE(store.ok()) << store.status();
  Writers writers(store->get());
  WaitForChanges(writers, 50);
  primary.Crash();
  standby->Promote();
  WaitForChanges(writers, 50);
  writers.Stop();
  EXPECT_TRUE(other_timeline);
  writers.ExpectAllThere(**store);
}

// So does a proxy whose primary is gone: it takes the connection and closes it.
TEST_F(PostgresFaultsTest, AHostThatClosesConnectionsIsPassedOver) {
  DroppingProxy closing(FreePort());
  const std::string host = "127.0.0.1:" + std::to_string(closing.port());
  std::string url = Server().TcpUrl(database_);
  url.insert(url.find('@') + 1, host + ",");
  const auto store = OpenUrl(url, absl::Seconds(5));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE(ApplyOne(**store, OpenSession{NewSession(8)}).ok());
}

// libpq's default port is that of PGPORT.
TEST_F(PostgresFaultsTest, SeveralHostsNeedNoPort) {
  setenv("PGPORT", std::to_string(Server().port()).c_str(), 1);
  std::string url = Server().TcpUrl(database_);
  const std::string port = ":" + std::to_string(Server().port());
  url.erase(url.find(port + "/"), port.size());
  for (const char* const other : {"127.0.0.1,", "127.0.0.1:1,"}) {
    std::string both = url;
    both.insert(both.find('@') + 1, other);
    const auto store = OpenUrl(both, absl::Seconds(5));
    EXPECT_TRUE(store.ok()) << store.status();
  }
  unsetenv("PGPORT");
}

TEST(PostgresHostsTest, EachHostHasItsPort) {
  const auto hosts = [](const std::string& url) {
    std::vector<std::string> result;
    const auto found = HostsOf(url);
    EXPECT_TRUE(found.ok()) << found.status();
    for (const PostgresParameters& host : *found) {
      std::map<std::string, std::string> values(host.begin(), host.end());
      EXPECT_EQ(values["user"], "u");
      EXPECT_EQ(values["dbname"], "d");
      result.push_back(values["host"] + "|" + values["hostaddr"] + "|" + values["port"]);
    }
    return result;
  };
  EXPECT_THAT(hosts("postgresql://u@a:1,b:2/d"), ElementsAre("a||1", "b||2"));
  EXPECT_THAT(hosts("postgresql://u@a,b/d?port=7"), ElementsAre("a||7", "b||7"));
  EXPECT_THAT(hosts("postgresql://u@a,b/d"), ElementsAre("a||", "b||"));
  EXPECT_THAT(hosts("postgresql://u@a,b:2/d?hostaddr=1.1.1.1,2.2.2.2"),
              ElementsAre("a|1.1.1.1|", "b|2.2.2.2|2"));
  EXPECT_THAT(hosts("postgresql://u@a,b,c/d?port=1,2"), ElementsAre("a,b,c||1,2"));
  EXPECT_THAT(hosts("postgresql://u@a:1/d"), ElementsAre("a||1"));
  EXPECT_FALSE(HostsOf("postgresql://%").ok());
}

}  // namespace
}  // namespace longstream::store
