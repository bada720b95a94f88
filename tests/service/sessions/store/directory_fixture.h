// A store in a directory, for tests that look at its rows or damage them.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_DIRECTORY_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_DIRECTORY_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/sessions/store/sqlite/database.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "service/sessions/store/sqlite/store_files.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream::store {

class DirectoryTest : public testing::Test {
 protected:
  std::unique_ptr<SqliteStore> Open() {
    absl::StatusOr<std::unique_ptr<SqliteStore>> store = SqliteStore::Open(path_, {});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // REQUIRES: no store is open.
  void Sql(const char* sql) {
    const auto database = SqliteDatabase::Open(path_ + "/log.db", "");
    ASSERT_TRUE(database.ok()) << database.status();
    const absl::Status status = (*database)->Execute(sql);
    ASSERT_TRUE(status.ok()) << status;
  }
  std::vector<std::string> Check() {
    const auto faults = CheckStore(path_, 10);
    EXPECT_TRUE(faults.ok()) << faults.status();
    return *faults;
  }

  const TemporaryDirectory directory_;
  const std::string path_ = directory_.string() + "/store";
  const SessionKey key_ = NewSession(7).key;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_DIRECTORY_FIXTURE_H_
