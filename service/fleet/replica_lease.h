// The lease of this replica: joins the fleet, renews, and releases.
#ifndef LONGSTREAM_SERVICE_FLEET_REPLICA_LEASE_H_
#define LONGSTREAM_SERVICE_FLEET_REPLICA_LEASE_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"
#include "service/fleet/fleet_store.h"

namespace longstream::fleet {

// Gets news of the replica's lease. The functions must not block. They are called one after the
// other.
class LeaseEvents {
 public:
  virtual ~LeaseEvents() = default;
  virtual void LeaseRenewed(const RenewedLease& renewed) = 0;
  // No renewal was answered for the time of the lease, by the clock of this replica.
  virtual void LeaseOver() = 0;
  // A later incarnation of this replica has the lease. Nothing follows.
  virtual void LeaseReplaced() = 0;
};

// A thread renews the lease three times in its time, and tries again soon if the database does not
// answer. Thread-safe; only Join, Release and the destructor block.
class ReplicaLease {
 public:
  struct Options {
    Replica self{};  // with the name that Join has returned
    absl::Duration ttl = absl::Seconds(15);
    MonotonicClock clock = MonotonicTime::Now;  // when the lease is over
  };

  // Draws the name of this replica: tries until the database answers, at most for `patience`.
  // `replica_id`: fleet.replica_id.
  static absl::StatusOr<ReplicaName> Join(FleetStore* store, const std::string& replica_id,
                                          absl::Duration patience);

  // Begins to renew at once. `store` and `events` must outlive the object.
  ReplicaLease(FleetStore* store, LeaseEvents* events, Options options);
  // Calls nothing any more. Does not release the lease.
  ~ReplicaLease();
  ReplicaLease(const ReplicaLease&) = delete;
  ReplicaLease& operator=(const ReplicaLease&) = delete;

  // The others see with the next renewal, which is made at once, that this replica takes no
  // sessions any more.
  void BeginDrain() ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the lease instead of renewing it: others may claim what is left at once.
  void BeginRelease();
  // The same, and waits for that, at most until `deadline`. An error says that it was not ended: it
  // ends by itself. Blocks.
  absl::Status Release(MonotonicTime deadline = MonotonicTime::InfiniteFuture());

  // How long the lease holds, by the clock of this replica. 0: it is over.
  absl::Duration TimeLeft() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class Renewal {
    kRenewed,
    kFailed,
    kReplaced,  // a later incarnation has the lease
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Renews until that has no use any more.
  void RenewUntilStopped() ABSL_LOCKS_EXCLUDED(mutex_);
  Renewal Renew() ABSL_LOCKS_EXCLUDED(mutex_);
  void CheckEnd(MonotonicTime end) ABSL_LOCKS_EXCLUDED(mutex_);

  FleetStore* const store_;
  LeaseEvents* const events_;
  const Options options_;
  absl::Mutex events_mutex_;  // held while `events_` is called, so that the order is that of time
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(events_mutex_);
  MonotonicTime end_ ABSL_GUARDED_BY(mutex_) = MonotonicTime::InfinitePast();
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // absl::Mutex waits by the wall clock, which may be set back.
  std::mutex wake_mutex_;  // guards the next four
  bool renew_now_ = false;
  bool releasing_ = false;
  bool stopping_ = false;
  std::optional<absl::Status> released_;  // how the release has ended
  std::condition_variable wake_;
  Timers timers_;
  std::thread thread_;  // last, so that it starts after the other members
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_REPLICA_LEASE_H_
