// A database of a test's own, and stores in it.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_POSTGRES_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_POSTGRES_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "service/sessions/store/postgres/postgres_store.h"
#include "tests/processes/postgres_server.h"
#include "tests/service/sessions/store/store_fixture.h"

namespace longstream::store {

// Longer than a restart takes on a slow machine, so that no change is given up.
inline constexpr absl::Duration kLong = absl::Minutes(3);

inline absl::StatusOr<std::unique_ptr<PostgresStore>> OpenUrl(
    const std::string& url, absl::Duration commit_timeout = kLong) {
  return PostgresStore::Open({.url = url, .password = "", .commit_timeout = commit_timeout});
}

// The server that the tests of this program share. A test leaves it running, with its settings.
class PostgresStoreTest : public testing::Test {
 protected:
  static PostgresServer& Server() {
    static PostgresServer server;
    return server;
  }

  std::unique_ptr<PostgresStore> Open(absl::Duration commit_timeout = kLong) {
    auto store = OpenUrl(Server().Url(database_), commit_timeout);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  std::string Sql(const std::string& sql) { return Server().Sql(database_, sql); }
  // Makes a role that owns the database and has no other rights. Returns its name.
  std::string MakeOwner() {
    const std::string owner = "owner_of_" + database_;
    Sql("CREATE ROLE " + owner + " LOGIN");
    Sql("ALTER DATABASE " + database_ + " OWNER TO " + owner);
    return owner;
  }
  // The URL of the database for this role.
  std::string UrlAs(const std::string& role) {
    std::string url = Server().Url(database_);
    url.replace(url.find("longstream"), 10, role);
    return url;
  }

  const std::string database_ = Server().NewDatabase();
  const SessionKey key_ = NewSession(7).key;
};

// Threads that open sessions and commit turns, one after the other, while a test disturbs the
// database.
class Writers {
 public:
  explicit Writers(PostgresStore* store) : store_(store) {
    for (uint64_t i = 0; i < kThreads; ++i) threads_.emplace_back([this, i] { Write(i); });
  }
  ~Writers() { Stop(); }
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;

  void Stop() {
    stopping_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  // How many changes were acknowledged.
  uint64_t acknowledged() const { return acknowledged_; }
  // Each session has a version for each change that was acknowledged, and a chain of its turns.
  void ExpectAllThere(PostgresStore& store) {
    for (uint64_t i = 0; i < kThreads; ++i) {
      const auto row = store.Session(KeyOf(i));
      ASSERT_TRUE(row.ok()) << row.status();
      EXPECT_EQ(row->version, versions_[i]) << "a change is missing, or was made twice";
      uint64_t turns = 0;
      const absl::Status status = store.VisitLinks(row->head, [&](const TurnRow&) {
        ++turns;
        return true;
      });
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(turns, (static_cast<uint64_t>(versions_[i]) - 1) / 2);
    }
    const auto faults = store.Check(10);
    ASSERT_TRUE(faults.ok()) << faults.status();
    EXPECT_EQ(*faults, std::vector<std::string>());
  }

 private:
  static constexpr uint64_t kThreads = 4;

  static SessionKey KeyOf(uint64_t thread) { return NewSession(500 + thread).key; }

  void Write(uint64_t thread) {
    const SessionKey key = KeyOf(thread);
    if (!Make(thread, OpenSession{NewSession(500 + thread)}).ok()) return;
    for (uint64_t turn = 1; !stopping_; ++turn) {
      const auto started = Make(thread, StartTurn{{key, 1, versions_[thread]}, NewTurn(turn)});
      if (!started.ok()) return;
      const auto committed = Make(thread, CommitTurn{.fence = {key, 1, versions_[thread]},
                                                     .turn = started->turn,
                                                     .position = turn,
                                                     .result = "result",
                                                     .now = At(2)});
      if (!committed.ok()) return;
    }
  }
  absl::StatusOr<Applied> Make(uint64_t thread, Change change) {
    const absl::StatusOr<Applied> applied = ApplyOne(*store_, std::move(change));
    EXPECT_TRUE(applied.ok()) << applied.status();
    if (applied.ok()) {
      EXPECT_EQ(applied->version, versions_[thread] + 1);
      versions_[thread] = applied->version;
      ++acknowledged_;
    }
    return applied;
  }

  PostgresStore* const store_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> acknowledged_{0};
  int64_t versions_[kThreads] = {};  // of each thread's session; read when it has ended
  std::vector<std::thread> threads_;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_POSTGRES_FIXTURE_H_
