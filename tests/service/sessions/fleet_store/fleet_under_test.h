// The leases and rows of a fleet, for tests that expect the same of each store that has them.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_UNDER_TEST_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_UNDER_TEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/sessions/fleet/transactions.h"
#include "service/sessions/session_key.h"

namespace longstream::fleet {

// Longer than any test takes. Tests let time pass in steps of minutes (Pass), so no result depends
// on the speed of a machine.
inline constexpr absl::Duration kLeaseTtl = absl::Hours(10);

struct Renewal {
  int64_t generation = 0;
  bool lapsed = false;
  std::vector<ReplicaName> others;

  friend bool operator==(const Renewal&, const Renewal&) = default;
};

// A test's errors, such as a store that cannot be reached, fail the test.
class FleetUnderTest {
 public:
  virtual ~FleetUnderTest() = default;

  virtual ReplicaName Join(const std::string& replica_id) = 0;
  // Absent: a later incarnation has the lease.
  virtual std::optional<Renewal> Renew(const ReplicaName& replica) = 0;
  virtual void Release(const ReplicaName& replica) = 0;

  // Lets time pass for leases and for claims.
  virtual void Pass(absl::Duration duration) = 0;
  // The database is started anew, and `noticed_by` is the first replica that renews its lease.
  virtual std::optional<Renewal> Restart(const ReplicaName& noticed_by) = 0;

  virtual void Open(const SessionKey& session, const ReplicaName& owner) = 0;
  virtual OwnedRow Read(const SessionKey& session, const std::optional<TurnId>& turn) = 0;
  // A kChange makes another turn the head, which no turn of the session is.
  virtual Outcome Apply(const Transaction& transaction) = 0;
};

// tests/fleet/model_store.h, the reference.
std::unique_ptr<FleetUnderTest> NewModelFleet();
// A database of its own.
std::unique_ptr<FleetUnderTest> NewPostgresFleet();

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_FLEET_STORE_FLEET_UNDER_TEST_H_
