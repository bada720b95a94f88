// The sessions in memory, as the fleet sees them.
#ifndef LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_
#define LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"
#include "service/fleet/session_copies.h"
#include "service/serving/engines/served_sessions.h"
#include "service/serving/fleet/peer_caches.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Caches that have arrived wait until their session is used here, or is restored into memory
// because this replica has taken it: so many, and so long. Their model cannot evict them for a
// turn, so this is less than an idle session gets.
inline constexpr size_t kMostArrivedCaches = 256;
inline constexpr absl::Duration kArrivedCachesWait = absl::Minutes(2);
// How long a reader of caches waits for the lease of their session. The peer waits longer for them
// (PeerLimits::answer_timeout).
inline constexpr absl::Duration kReadPatience = absl::Seconds(5);

// Thread-safe. No function blocks.
// The owner calls StopReading before it stops the engines and the threads of Service::restore.
class ServedCopies final : public fleet::SessionCopies {
 public:
  // The service that the sessions are part of.
  struct Service {
    std::function<absl::StatusOr<std::shared_ptr<Engine>>(const std::string& model)> find_model;
    std::function<absl::StatusOr<std::shared_ptr<Tenant>>(const std::string& name)> find_tenant;
    // Takes a session out of memory, without touching the store.
    std::function<void(const ServedSession& served)> remove;
    // Restores the session into memory, with the caches that have arrived for it, on another
    // thread. `done`: an error says why the session will not have them.
    std::function<void(const fleet::Fence& at, std::function<void(const absl::Status&)> done)>
        restore;
    // Caches that had arrived are freed, and the session goes on without them.
    std::function<void(const SessionKey& session, const absl::Status& why)> lost;
  };
  // `sessions` outlives the object.
  ServedCopies(const ServedSessions* sessions, Service service)
      : sessions_(sessions), service_(std::move(service)) {}
  // Frees the caches that wait. Writers may exist for longer.
  ~ServedCopies() override;
  ServedCopies(const ServedCopies&) = delete;
  ServedCopies& operator=(const ServedCopies&) = delete;

  void Drop(const SessionKey& session) override;
  void Stop(const SessionKey& session, const absl::Status& why) override;
  void Keep(const fleet::Fence& from, const fleet::Fence& to) override;
  absl::Status FindCaches(const fleet::Fence& at) const override;
  void ReadCaches(const fleet::Fence& at, std::function<void(Reading)> ready) override;
  // Answers all calls of ReadCaches that wait, and all later ones, with UNAVAILABLE.
  void StopReading() ABSL_LOCKS_EXCLUDED(reading_mutex_);
  void TakeCaches(
      const SessionKey& session, const std::string& header, const fleet::Fence& at,
      std::function<void(absl::StatusOr<std::shared_ptr<fleet::CacheWriter>>)> ready) override;

  // The session is used now, at this epoch and version, on this engine: returns the caches that
  // have arrived for it. Not valid: there are none. Until they are freed, or the session has them,
  // ArrivedFor names them. REQUIRES: until then, the caller has the place of at.key in
  // AloneSessions.
  ArrivedCaches TakeArrived(const fleet::Fence& at, const Engine& engine);
  // The epoch and version of caches that wait for this session, or are being given to it.
  std::optional<fleet::Fence> ArrivedFor(const SessionKey& session) const;
  // As ArrivedFor, for caches that no call has taken yet.
  std::optional<fleet::Fence> WaitingFor(const SessionKey& session) const;
  // Whether these are the epoch and version of ArrivedFor.
  bool HasArrived(const fleet::Fence& at) const;
  // The epochs and versions of caches that have arrived and wait.
  std::vector<fleet::Fence> Waiting() const;
  // Frees caches that have waited for too long, or whose model goes. Returns their sessions.
  std::vector<SessionKey> FreeLate(MonotonicTime now);

  // Takes a copy out of memory that is not at the version of the row. Its turn ends with ABORTED.
  void RemoveStale(const ServedSession& served) const;

 private:
  // Shared with the writers, which may outlive this object.
  struct Arrived {
    struct Waiting {
      fleet::Fence at;
      ArrivedCaches caches;
      MonotonicTime until;
    };
    absl::Mutex mutex;
    std::map<SessionKey, Waiting> waiting ABSL_GUARDED_BY(mutex);
    // Caches that were taken, and that their session does not have yet.
    std::map<SessionKey, fleet::Fence> taken ABSL_GUARDED_BY(mutex);
    bool ended ABSL_GUARDED_BY(mutex) = false;
  };
  // A call of ReadCaches.
  struct Reader {
    const fleet::Fence at;
    std::function<void(Reading)> ready;  // guarded by reading_mutex_; nullptr: it was taken
    const MonotonicTime until;
    absl::Duration period;   // until the next try
    bool has_asked = false;  // that the session is restored with the caches that wait for it
  };

  // Absent: it is not in memory, or lives there alone.
  std::optional<ServedSession> Find(const SessionKey& session) const;
  // As Find. Absent also if it has another version.
  std::optional<ServedSession> FindAt(const fleet::Fence& at) const;
  void TryToRead(const std::shared_ptr<Reader>& reader) ABSL_LOCKS_EXCLUDED(reading_mutex_);
  // The function that the reader waits for; nullptr: it has been answered, or will be.
  std::function<void(Reading)> TakeReady(const std::shared_ptr<Reader>& reader)
      ABSL_LOCKS_EXCLUDED(reading_mutex_);
  void Refuse(const std::shared_ptr<Reader>& reader, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(reading_mutex_);
  static void BeginToRead(const ServedSession& served, TurnLease lease,
                          std::function<void(Reading)> ready);
  // Returns the caches if they are at this epoch and version, and of this engine.
  ArrivedCaches CheckArrived(Arrived::Waiting taken, const fleet::Fence& at, const Engine& engine);

  const ServedSessions* const sessions_;
  const Service service_;
  const std::shared_ptr<Arrived> arrived_ = std::make_shared<Arrived>();
  mutable absl::Mutex reading_mutex_;
  std::set<std::shared_ptr<Reader>> readers_ ABSL_GUARDED_BY(reading_mutex_);  // that wait
  bool reads_ended_ ABSL_GUARDED_BY(reading_mutex_) = false;
  Timers timers_;  // last: its calls use the other members
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_
