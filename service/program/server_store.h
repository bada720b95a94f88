// The store of a running server: opened, with its commit queue, its metrics, and its collection.
#ifndef LONGSTREAM_SERVICE_PROGRAM_SERVER_STORE_H_
#define LONGSTREAM_SERVICE_PROGRAM_SERVER_STORE_H_

#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/monotonic_time.h"
#include "service/config/server_config.h"
#include "service/metrics/json_log.h"
#include "service/metrics/store_metrics.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "service/sessions/store/sql/sql_store.h"

namespace longstream {

// Reads the key file that the configuration names; the keys are null if it names none. Errors are
// those of SealingKeys::Read.
absl::StatusOr<Sealing> SealingOf(const ServerConfig& config);

// Takes the options of a store in PostgreSQL from the configuration. Errors are those of ReadFiles,
// because only the owner of the file store.password_file may use it. INVALID_ARGUMENT: the file is
// empty.
absl::StatusOr<store::PostgresStore::Options> PostgresOptionsOf(const ServerConfig& config);

// A thread brings the metrics up to date once a second, logs each change of the store's state, and
// collects old turns once an hour and old segments once a minute.
class ServerStore {
 public:
  // Opens the store that config.store_url names. Errors are those of SealingOf and of
  // SqliteStore::Open or PostgresStore::Open. `log` and `registry` must outlive the store.
  static absl::StatusOr<std::unique_ptr<ServerStore>> Open(const ServerConfig& config,
                                                           const JsonLog* log,
                                                           prometheus::Registry* registry);
  // Waits until all changes have been made.
  ~ServerStore();
  ServerStore(const ServerStore&) = delete;
  ServerStore& operator=(const ServerStore&) = delete;

  store::SessionStore* store() { return store_.get(); }
  store::CommitQueue* commits() { return &commits_; }
  const Sealing& sealing() const { return sealing_; }

  // Calls `before`, and makes the last writes before the end. False: they have not ended by
  // `deadline`, because the disk hangs. Then a thread still uses the store and what `before` uses,
  // which must not be destroyed.
  bool Settle(std::function<void()> before, MonotonicTime deadline);

  // Tells `serving` at once, and then after each change, whether the store takes changes. A nullptr
  // ends that; after it has returned, `serving` is not called any more.
  using Serving = std::function<void(bool)>;
  void SetListener(Serving serving) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ServerStore(const ServerConfig& config, const JsonLog* log, prometheus::Registry* registry,
              Sealing sealing, std::unique_ptr<store::SqlStore> store);

  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);
  void UpdateMetrics() ABSL_LOCKS_EXCLUDED(mutex_);
  void Collect();
  void CollectSegments();

  const absl::Duration commit_timeout_;
  const absl::Duration keep_rewound_;
  const std::optional<uint64_t> snapshot_bytes_;  // absent: the store's own limit
  const JsonLog* const log_;
  StoreMetrics metrics_;
  const Sealing sealing_;
  const std::unique_ptr<store::SqlStore> store_;
  store::CommitQueue commits_;  // after the members that its callback uses
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  StoreStateMetric state_ ABSL_GUARDED_BY(mutex_) = StoreStateMetric::kOk;
  Serving serving_ ABSL_GUARDED_BY(mutex_);
  std::thread watch_;  // last, so that it starts after the other members
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_SERVER_STORE_H_
