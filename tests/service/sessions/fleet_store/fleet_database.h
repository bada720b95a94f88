// A database of a test's own for a fleet, and statements that a test makes in it.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_DATABASE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_DATABASE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "service/clock/monotonic_time.h"
#include "service/sessions/store/postgres/connection.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "tests/processes/postgres_server.h"

namespace longstream::fleet {

// Longer than a slow machine needs for a statement.
inline constexpr absl::Duration kLong = absl::Minutes(3);

// A connection of the test itself. Its errors fail the test.
class TestConnection {
 public:
  explicit TestConnection(const std::string& url) {
    auto connection = store::Connection::Open({.url = url, .password = "", .timeout = kLong});
    EXPECT_TRUE(connection.ok()) << connection.status();
    if (connection.ok()) connection_ = *std::move(connection);
  }
  // Makes one statement. Returns the first column of its first row.
  std::string Run(const std::string& sql) {
    if (connection_ == nullptr) return "";
    const auto result = connection_->Query(sql, {}, MonotonicTime::Now() + kLong, "test");
    EXPECT_TRUE(result.ok()) << result.status() << " in: " << sql;
    if (!result.ok() || PQntuples(result->get()) == 0) return "";
    return PQgetvalue(result->get(), 0, 0);
  }

 private:
  std::unique_ptr<store::Connection> connection_;
};

class FleetDatabase {
 public:
  // The server that the tests of this program share. A test leaves it running.
  static PostgresServer& Server() {
    static PostgresServer server;
    return server;
  }

  std::string url() const { return Server().Url(name_); }
  const std::string& name() const { return name_; }
  std::unique_ptr<store::PostgresStore> OpenStore() const {
    auto store =
        store::PostgresStore::Open({.url = url(), .password = "", .commit_timeout = kLong});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // On a connection that ends with the next restart of the server.
  std::string Run(const std::string& sql) {
    if (connection_ == nullptr) connection_ = std::make_unique<TestConnection>(url());
    return connection_->Run(sql);
  }
  void Disconnect() { connection_ = nullptr; }

 private:
  const std::string name_ = Server().NewDatabase();
  std::unique_ptr<TestConnection> connection_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_DATABASE_H_
