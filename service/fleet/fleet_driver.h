// Drives the ownership of sessions of this replica: feeds the state machine with events, and runs
// its actions against the database, the peers and the sessions in memory.
#ifndef LONGSTREAM_SERVICE_FLEET_FLEET_DRIVER_H_
#define LONGSTREAM_SERVICE_FLEET_FLEET_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/fleet/fleet_store.h"
#include "service/fleet/peers.h"
#include "service/fleet/replica_lease.h"
#include "service/fleet/session_copies.h"
#include "service/fleet/session_gate.h"
#include "service/metrics/fleet_metrics.h"
#include "service/sessions/fleet/ownership.h"
#include "service/sessions/store/commit_queue.h"

namespace longstream::fleet {

// How long the replica waits. `giving` is longer than `caches` and a transaction.
struct FleetTimes {
  absl::Duration peer_answer = absl::Seconds(3);  // to Fetch
  absl::Duration caches = absl::Seconds(60);      // for the caches of a session to arrive
  absl::Duration giving = absl::Seconds(75);      // for the receiver of a session to have it
  absl::Duration broken = absl::Seconds(1);       // the same when its Fetch has broken off
  absl::Duration commit = absl::Seconds(30);      // store.commit_timeout
  absl::Duration retry = absl::Milliseconds(500);
  absl::Duration residency = absl::Seconds(5);  // fleet.min_residency
  absl::Duration entry = absl::Seconds(90);     // for the answer of the gate, whatever happens
};

// A session that moves without its caches.
struct LostCaches {
  enum class Where : uint8_t {
    kSent,      // this replica gives the session
    kReceived,  // this replica takes it
    kArrived,   // the same, and the caches had come
  };

  Where where = Where::kSent;
  SessionKey session{};
  ReplicaName peer{};  // empty: not known any more
  absl::Status why{};
  // The labels of the metric (docs/metrics.md). The driver sets them.
  const char* op = "";
  const char* reason = "";
};

struct FleetDriverOptions {
  ReplicaName self{};
  bool redirect = false;  // fleet.foreign: redirect
  int max_offers = 4;     // sessions that a drain offers at once
  FleetTimes times{};
  int read_threads = 4;
  size_t max_reads = 1024;          // that wait for a thread
  FleetMetrics* metrics = nullptr;  // may be null; else it must outlive the driver
  // The replica has nothing left to do, or has lost its lease to a later incarnation: the program
  // exits. Called at most once, on the driver's thread. `release_lease`: call
  // ReplicaLease::Release.
  std::function<void(bool release_lease)> on_exit{};
  // As PeerEvents::CallRefused. Called on the driver's thread. May be empty.
  std::function<void(const ReplicaName& peer, const absl::Status& why)> on_refused{};
  // A session goes, or has gone, from replica to replica without its caches. Called on the driver's
  // thread. May be empty.
  std::function<void(const LostCaches& lost)> on_lost_caches{};
};

// Counts of the driver.
struct FleetCounts {
  size_t sessions = 0;  // that are in memory here or in work
  DrainProgress drain;
  uint64_t handed_over = 0;  // sessions that other replicas have taken from this one
  bool exited = false;
};

class DriverCore;

// Thread-safe. No function blocks but Stop and the destructor.
class FleetDriver : public SessionGate, public PeerEvents, public LeaseEvents {
 public:
  // `store` and `commits` must outlive the driver.
  FleetDriver(FleetDriverOptions options, FleetStore* store, store::CommitQueue* commits);
  ~FleetDriver() override;
  FleetDriver(const FleetDriver&) = delete;
  FleetDriver& operator=(const FleetDriver&) = delete;

  // Before any other function. Both must live until Stop.
  void Start(SessionCopies* copies, Peers* peers);
  // Answers all calls with UNAVAILABLE, and calls neither copies nor peers any more. The uses may
  // outlive the driver; they have no effect any more. Not to be called by on_exit.
  void Stop();

  // SessionGate.
  void EnterTurn(const SessionKey& session, const TurnId& turn, Entered entered) override;
  void AttachRunning(const SessionKey& session, const TurnId& turn, Entered entered) override;
  void EnterChange(const SessionKey& session, Entered entered) override;
  void EnterChangeHere(const SessionKey& session, Entered entered) override;
  void EnterClose(const SessionKey& session, Entered entered) override;
  void RelayEnded(uint64_t relay, const absl::Status& outcome) override;
  void Opened(const SessionKey& session, int64_t epoch, int64_t version) override;
  void Evicted(const SessionKey& session) override;
  void CachesLost(const SessionKey& session, const absl::Status& why) override;
  bool Lives(const ReplicaName& other) const override;
  bool IsFirst() const override;

  // PeerEvents.
  void MessageArrived(const ReplicaName& from, PeerMessage message) override;
  void GivingBroken(const ReplicaName& peer, Number request) override;
  void CallRefused(const ReplicaName& peer, Number request, const absl::Status& why) override;

  // LeaseEvents.
  void LeaseRenewed(const RenewedLease& renewed) override;
  void LeaseOver() override;
  void LeaseReplaced() override;

  // SIGTERM: new calls are refused, and idle sessions offered to peers. Call
  // ReplicaLease::BeginDrain too.
  void BeginDrain();
  // Running turns have had their time: they are stopped.
  void GraceOver();
  // So have handovers: on_exit follows.
  void DrainOver();

  FleetCounts Counts() const;

 private:
  const std::shared_ptr<DriverCore> core_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_FLEET_DRIVER_H_
