// The sessions in memory, as the fleet sees them.
#ifndef LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_
#define LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/fleet/session_copies.h"
#include "service/serving/engines/served_sessions.h"
#include "service/serving/fleet/peer_caches.h"

namespace longstream {

// Caches that have arrived wait until their session is used here, or is restored into memory
// because this replica has taken it: so many, and so long. Their model cannot evict them for a
// turn, so this is less than an idle session gets.
inline constexpr size_t kMostArrivedCaches = 256;
inline constexpr absl::Duration kArrivedCachesWait = absl::Minutes(2);

// Thread-safe. No function blocks.
class ServedCopies final : public fleet::SessionCopies {
 public:
  // The service that the sessions are part of.
  struct Service {
    std::function<absl::StatusOr<std::shared_ptr<Engine>>(const std::string& model)> find_model;
    std::function<absl::StatusOr<std::shared_ptr<Tenant>>(const std::string& name)> find_tenant;
    // Takes a session out of memory, without touching the store.
    std::function<void(const ServedSession& served)> remove;
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
  bool HasCaches(const fleet::Fence& at) const override;
  void ReadCaches(const fleet::Fence& at,
                  std::function<void(std::shared_ptr<fleet::CacheReader>)> ready) override;
  void TakeCaches(
      const SessionKey& session, const std::string& header, const fleet::Fence& at,
      std::function<void(absl::StatusOr<std::shared_ptr<fleet::CacheWriter>>)> ready) override;

  // The session is used now, at this epoch and version, on this engine: returns the caches that
  // have arrived for it. Not valid: there are none.
  ArrivedCaches TakeArrived(const fleet::Fence& at, const Engine& engine);
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
    bool ended ABSL_GUARDED_BY(mutex) = false;
  };

  // Absent: it is not in memory, or lives there alone.
  std::optional<ServedSession> Find(const SessionKey& session) const;
  // As Find. Absent also if it has another version.
  std::optional<ServedSession> FindAt(const fleet::Fence& at) const;

  const ServedSessions* const sessions_;
  const Service service_;
  const std::shared_ptr<Arrived> arrived_ = std::make_shared<Arrived>();
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FLEET_SERVED_COPIES_H_
