// A fleet in one process: drivers with threads of their own, a database, a network and clients.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_FLEET_WORLD_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_FLEET_WORLD_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/fleet_driver.h"
#include "service/fleet/replica_lease.h"
#include "tests/service/fleet/database.h"
#include "tests/service/fleet/fake_sessions.h"
#include "tests/service/fleet/network.h"

namespace longstream::fleet {

// One incarnation of a replica.
class WorldReplica {
 public:
  WorldReplica(const std::string& id, absl::Duration lease_ttl, bool redirect, Database* database,
               Network* network, Dice* dice, Timers* timers, FakeSessions::RelayTo relay);
  ~WorldReplica() { Stop(); }
  // As a crash: nothing is released. Calls end with UNAVAILABLE.
  void Stop();

  const ReplicaName& name() const { return name_; }
  FakeSessions& sessions() { return *sessions_; }
  const std::shared_ptr<FakeSessions>& shared_sessions() { return sessions_; }
  FleetDriver& driver() { return *driver_; }
  ReplicaLease& lease() { return *lease_; }
  DatabaseLink& link() { return link_; }
  // The driver has called on_exit.
  bool exited() const { return exited_; }

 private:
  Network& network_;
  DatabaseLink link_;
  const ReplicaName name_;
  std::atomic<bool> exited_{false};
  std::shared_ptr<FakeSessions> sessions_;
  std::unique_ptr<store::CommitQueue> commits_;
  NetworkPeers peers_;
  std::shared_ptr<FleetDriver> driver_;
  std::unique_ptr<ReplicaLease> lease_;
};

class FleetWorld {
 public:
  static constexpr absl::Duration kLeaseTtl = absl::Milliseconds(600);

  FleetWorld(size_t replicas, uint64_t seed, bool redirect = false);
  ~FleetWorld();

  Dice& dice() { return dice_; }
  Database& database() { return database_; }
  size_t size() const { return ids_.size(); }

  void SetFaulty(bool faulty) ABSL_LOCKS_EXCLUDED(mutex_);
  // Absent: it is down.
  std::shared_ptr<WorldReplica> At(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartReplica(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the replica without a release of its lease.
  void Crash(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  // SIGTERM: waits until the replica has nothing left to do.
  void Drain(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  void Open(const SessionKey& session, size_t index) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Dice dice_;
  Database database_;
  Network network_;
  Timers timers_;
  const bool redirect_;
  const std::vector<std::string> ids_;
  absl::Mutex mutex_;
  bool faulty_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<WorldReplica>> replicas_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_FLEET_WORLD_H_
