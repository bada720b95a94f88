// Replicas that share a database of PostgreSQL, each with connections of its own.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/postgres/postgres_fleet.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "tests/service/sessions/fleet_store/fleet_database.h"
#include "tests/service/sessions/fleet_store/fleet_under_test.h"
#include "tests/service/sessions/store/store_fixture.h"
#include "tests/service/wait_until.h"

namespace longstream::fleet {

// A replica with a lease.
struct TestReplica {
  explicit TestReplica(const std::string& url, const std::string& replica_id,
                       absl::Duration timeout = kLong)
      : fleet({.url = url, .password = "", .timeout = timeout}) {
    const auto joined = fleet.Join(replica_id);
    EXPECT_TRUE(joined.ok()) << joined.status();
    name = joined.value_or("");
    EXPECT_TRUE(Renew().has_value());
  }
  absl::StatusOr<RenewedLease> TryToRenew() {
    return fleet.Renew({name, "peer of " + name, "", false}, kLeaseTtl);
  }
  // Absent: an error, which fails the test.
  std::optional<RenewedLease> Renew() {
    absl::StatusOr<RenewedLease> renewed = TryToRenew();
    EXPECT_TRUE(renewed.ok()) << renewed.status();
    if (!renewed.ok()) return std::nullopt;
    return *std::move(renewed);
  }

  store::PostgresFleet fleet;
  ReplicaName name;
};

class PostgresFleetTest : public testing::Test {
 protected:
  std::unique_ptr<TestReplica> Start(const std::string& replica_id) {
    return std::make_unique<TestReplica>(database_.url(), replica_id);
  }
  // Another session of this owner.
  SessionKey Open(const ReplicaName& owner) {
    store::SessionRow row = store::NewSession(++num_sessions_);
    row.owner = owner;
    const auto opened = store::ApplyOne(*store_, store::OpenSession{row});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return row.key;
  }
  static store::ChangeOwner Claim(const SessionKey& session, const ReplicaName& owner) {
    return {{session, 1, 1}, owner, store::OwnerCondition::kClaim};
  }
  std::string Run(const std::string& sql) { return database_.Run(sql); }
  void EndLease(const TestReplica& replica) {
    Run("UPDATE leases SET lease_end = clock_timestamp() - interval '1 second' WHERE holder = '" +
        replica.name + "'");
  }
  // Until so many connections with this name wait for a lock.
  bool WaitForLocks(const std::string& application_name, int connections = 1) {
    return WaitUntil([&] {
      return Run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                 " AND datname = '" +
                 database_.name() + "' AND application_name LIKE '" + application_name + "%'") ==
             std::to_string(connections);
    });
  }

  static constexpr const char* kWriter = "longstream-writer";
  static constexpr const char* kLeases = "longstream-fleet";

  FleetDatabase database_;
  std::unique_ptr<store::PostgresStore> store_ = database_.OpenStore();
  uint64_t num_sessions_ = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_FIXTURE_H_
