// The list of drivers, and a fixture, for the tests of the contract that every store must keep.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_SESSION_STORE_SUITE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_SESSION_STORE_SUITE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/sessions/store/postgres/postgres_store.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/processes/postgres_server.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {

// The server for the tests of this program.
inline PostgresServer& SharedPostgres() {
  static PostgresServer server;
  return server;
}

// A store in a database that belongs to the directory.
inline absl::StatusOr<std::unique_ptr<SessionStore>> OpenPostgres(const std::string& directory) {
  static std::map<std::string, std::string> databases;
  std::string& name = databases[directory];
  if (name.empty()) name = SharedPostgres().NewDatabase();
  return PostgresStore::Open(
      {.url = SharedPostgres().Url(name), .password = "", .segments = directory + "-segments"});
}

struct Driver {
  const char* name;
  std::function<absl::StatusOr<std::unique_ptr<SessionStore>>(const std::string& directory)> open;
};

// A new driver adds itself here.
inline auto AllDrivers() {
  return testing::Values(
      Driver{"Sqlite",
             [](const std::string& directory) -> absl::StatusOr<std::unique_ptr<SessionStore>> {
               return SqliteStore::Open(directory, {});
             }},
      Driver{"Postgres", OpenPostgres});
}

inline std::string NameOfDriver(const testing::TestParamInfo<Driver>& test) {
  return test.param.name;
}

class SessionStoreSuite : public testing::TestWithParam<Driver> {
 protected:
  SessionStoreSuite() { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = GetParam().open(directory_.string() + "/store");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  absl::StatusCode CodeOf(Change change) {
    return ApplyOne(*store_, std::move(change)).status().code();
  }
  void Open(const SessionRow& row) {
    const auto opened = ApplyOne(*store_, OpenSession{row});
    ASSERT_TRUE(opened.ok()) << opened.status();
  }
  std::vector<TurnNumber> Path(TurnNumber head) {
    std::vector<TurnNumber> path;
    const absl::Status status = store_->VisitPath(head, [&](const TurnRow& turn) {
      path.push_back(turn.number);
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
    return path;
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<SessionStore> store_;
  const SessionKey key_ = NewSession(7).key;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_SESSION_STORE_SUITE_H_
