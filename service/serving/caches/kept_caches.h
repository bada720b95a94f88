// The caches of one session in the store.
#ifndef LONGSTREAM_SERVICE_SERVING_CACHES_KEPT_CACHES_H_
#define LONGSTREAM_SERVICE_SERVING_CACHES_KEPT_CACHES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/engine.h"
#include "service/host_memory/host_memory.h"
#include "service/serving/caches/cache_keys.h"
#include "service/sessions/session.h"
#include "service/sessions/session_state.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/stored_caches.h"

namespace longstream {

class CacheKeeper;

// Knows the snapshots of the turns of the session's history. Thread-safe.
class KeptCaches final : public StoredCaches, public std::enable_shared_from_this<KeptCaches> {
 public:
  // The turn at which the session stands.
  struct Turn {
    store::TurnNumber number = store::kNoTurn;
    uint64_t position = 0;  // tokens of the session at its end
  };
  // Absent: the session does not stand at the end of a turn.
  using PresentTurn = std::function<std::optional<Turn>()>;

  KeptCaches(std::shared_ptr<CacheKeeper> keeper, const std::shared_ptr<Session>& session,
             std::string tenant, std::shared_ptr<Engine> engine, PresentTurn present_turn);

  std::vector<StoredPlace> Find(const SessionState& state, uint64_t unchanged) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Reload(int64_t turn) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Follow(StoredCaches& source, int64_t turn) override ABSL_LOCKS_EXCLUDED(mutex_);
  void CopyKeys(const StoredCaches& source) override ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t LastPosition() const override ABSL_LOCKS_EXCLUDED(mutex_);
  void Fill(const StoredPlace& place, std::shared_ptr<CacheFill> fill, FillDone done) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Reject(const StoredPlace& place) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool BeginSave() override;
  void Save(SavedCaches saved) override ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelSave() override;
  void SkipSave() override;

  const std::string& tenant() const { return tenant_; }
  Engine& engine() const { return *engine_; }
  uint32_t grid() const;
  HostMemory* host_memory() const { return host_charge_.memory(); }

  // For the keeper.
  //
  // Lets the engine save the caches. False: the session is gone.
  bool RequestSave();
  // Whether the next snapshot must not rely on segments that the store has.
  bool writes_all() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The snapshot is in the store, and the others are not.
  void Saved(const store::SnapshotRow& row, const std::vector<store::TurnNumber>& dropped)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A snapshot of the session's history is in the store, which another session has written.
  void Learn(const store::SnapshotRow& row) ABSL_LOCKS_EXCLUDED(mutex_);
  // The snapshot, whose span began at `from`, is not in the store.
  void NotSaved(uint64_t from);
  // The snapshot could not be read. It is not tried again, and the next one has all its segments
  // anew.
  void Forget(const store::SnapshotRow& row) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A fork that waits for the snapshot of the turn at which it begins.
  struct Fork {
    std::weak_ptr<KeptCaches> caches;
    store::TurnNumber turn = store::kNoTurn;
  };

  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The row takes the place of one of the same turn and cache.
  void Add(const store::SnapshotRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<store::SnapshotRow> RowOf(const StoredPlace& place) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The forks that wait for this snapshot, and have not been closed.
  std::vector<std::shared_ptr<KeptCaches>> TakeForks(store::TurnNumber turn)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CacheKeeper> keeper_;  // shared with the sessions and the manager
  const std::weak_ptr<Session> session_;
  const std::string tenant_;
  // Shared, because a thread of the keeper may use it when the model was unloaded. Engine::Stop
  // breaks the cycle: the engine has the open sessions, and they have their caches.
  const std::shared_ptr<Engine> engine_;
  const PresentTurn present_turn_;
  mutable absl::Mutex mutex_;
  std::vector<store::SnapshotRow> known_ ABSL_GUARDED_BY(mutex_);  // their positions ascending
  // That were added while Reload reads the store, which may not have them yet.
  std::vector<store::SnapshotRow> added_ ABSL_GUARDED_BY(mutex_);
  int num_reloads_ ABSL_GUARDED_BY(mutex_) = 0;                      // that are reading the store
  std::map<std::string, GrowingKeys> keys_ ABSL_GUARDED_BY(mutex_);  // by the names of caches
  std::vector<Fork> forks_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_position_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writes_all_ ABSL_GUARDED_BY(mutex_) = false;
  HostCharge host_charge_;  // for known_
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_CACHES_KEPT_CACHES_H_
