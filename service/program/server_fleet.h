// This server as a replica of a fleet: its lease, its port for other replicas, and the driver that
// decides which sessions it has.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_FLEET_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_FLEET_H_

#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"
#include "service/config/server_config.h"
#include "service/fleet/fleet_driver.h"
#include "service/fleet/replica_lease.h"
#include "service/metrics/connection_metrics.h"
#include "service/metrics/fleet_metrics.h"
#include "service/metrics/json_log.h"
#include "service/metrics/line_limit.h"
#include "service/metrics/session_metrics.h"
#include "service/program/server_security.h"
#include "service/program/server_store.h"
#include "service/server/grpc_server.h"
#include "service/server/peer/peer_client.h"
#include "service/server/peer/peer_server.h"
#include "service/server/text_threads.h"
#include "service/server/transport/call_count.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/postgres/postgres_fleet.h"

namespace longstream {

// Outlives the sessions. The functions are called in their order, on the thread of the program.
class ServerFleet : private fleet::LeaseEvents {
 public:
  // Draws the name of this replica. nullptr: the configuration wants no fleet. `store`: in
  // PostgreSQL. `security`, `store`, `log` and `registry` outlive the object. Errors are those of
  // ReplicaLease::Join.
  static absl::StatusOr<std::unique_ptr<ServerFleet>> Join(const ServerConfig& config,
                                                           const ServerSecurity& security,
                                                           ServerStore* store, const JsonLog* log,
                                                           prometheus::Registry* registry);
  ~ServerFleet() override;
  ServerFleet(const ServerFleet&) = delete;
  ServerFleet& operator=(const ServerFleet&) = delete;

  // Calls of clients pass the gate. The metrics of the options outlive Stop.
  void AddTo(SessionManager::Options* options);
  // The gate may be used from now on, so this comes before the server listens for clients. It
  // answers with UNAVAILABLE until there is a lease. `sessions` outlives Stop.
  void Drive(SessionManager* sessions);
  Relays* relays() { return &client_; }

  // Listens for peers and takes the lease. `server` outlives Stop. Errors are those of
  // PeerServer::Start. REQUIRES: Drive was called.
  absl::Status Start(const GrpcServer& server, const GrpcServer::Options& options);
  int port() const { return server_ == nullptr ? 0 : server_->port(); }

  // The end begins. The process is over after config.grace and config.drain_timeout together,
  // whatever it still waits for: the database may hang, or a client. Nothing that was acknowledged
  // is lost.
  void LimitEnd();
  // Turns end, and sessions go to other replicas. Returns when calls must have delivered their last
  // messages: clients then have `goodbye`, or less, to close their connections. REQUIRES: LimitEnd
  // was called.
  MonotonicTime Drain(SessionManager& sessions, absl::Duration goodbye);
  // Ends all calls with peers. Nothing calls the sessions any more.
  void Stop();

  // Whether a later incarnation of this replica has taken its place. Then the process has got
  // SIGTERM.
  bool replaced() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ServerFleet(const ServerConfig& config, const ServerSecurity& security, ServerStore* store,
              const JsonLog* log, prometheus::Registry* registry,
              std::unique_ptr<store::PostgresFleet> fleet, const fleet::ReplicaName& name);

  fleet::FleetDriverOptions DriverOptions(const fleet::ReplicaName& name);
  // The server drains: no call gets a session any more, and idle ones are offered to peers. Waits
  // for a moment until the others know, at most until `deadline`.
  void BeginDrain(MonotonicTime deadline);
  // Waits until peers have the sessions, and tells the log once a second how many are left. Then
  // ends the lease, which may have ended before, and all calls that wait for sessions. All that
  // takes until `deadline` at most: what is left then is claimed when the lease ends by itself.
  void HandOver(MonotonicTime deadline);
  // LeaseEvents: passed on to the driver.
  void LeaseRenewed(const fleet::RenewedLease& renewed) override ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaseOver() override ABSL_LOCKS_EXCLUDED(mutex_);
  void LeaseReplaced() override { driver_.LeaseReplaced(); }
  // Each renewal brings them up to date, and each second of a drain.
  void UpdateMetrics();
  void OnExit(bool release_lease) ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitForExit(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  const ServerConfig& config_;
  const JsonLog* const log_;
  const fleet::ReplicaName name_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool renewed_ ABSL_GUARDED_BY(mutex_) = false;    // since the drain began
  bool releasing_ ABSL_GUARDED_BY(mutex_) = false;  // the lease ends, because the server wants it
  bool lease_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool exited_ ABSL_GUARDED_BY(mutex_) = false;    // the driver has nothing to do any more
  bool replaced_ ABSL_GUARDED_BY(mutex_) = false;  // by a later incarnation
  MonotonicTime end_;                              // of the process
  Timers exit_;  // ends the process; uses what is above, and outlives what is below
  SessionManager* sessions_ = nullptr;
  LineLimit refusals_{/*lines_per_minute=*/6, /*max_bytes=*/500};      // of the driver's thread
  LineLimit lost_caches_{/*lines_per_minute=*/20, /*max_bytes=*/500};  // the same
  FleetMetrics metrics_;
  SessionMetrics* restores_ = nullptr;  // counts caches that do not come
  ConnectionMetrics connections_;
  const std::unique_ptr<store::PostgresFleet> store_;
  fleet::FleetDriver driver_;  // outlives the client, which tells it messages
  PeerClient client_;
  CallCount calls_;                     // that peers relay
  std::optional<TextThreads> threads_;  // for their texts
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<fleet::ReplicaLease> lease_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_FLEET_H_
