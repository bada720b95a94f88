// The database of a fleet in memory, with faults: the model store behind the interfaces of the
// driver, in real time.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_DATABASE_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/timers.h"
#include "service/fleet/fleet_store.h"
#include "tests/fleet/model_store.h"
#include "tests/service/fleet/stub_session_store.h"

namespace longstream::fleet {

// Random numbers for several threads.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  bool Chance(double probability) ABSL_LOCKS_EXCLUDED(mutex_);
  // From 0 to `most` - 1.
  uint64_t Draw(uint64_t most) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration Time(absl::Duration most) {
    return absl::Microseconds(Draw(static_cast<uint64_t>(absl::ToInt64Microseconds(most)) + 1));
  }

 private:
  absl::Mutex mutex_;
  std::mt19937_64 engine_ ABSL_GUARDED_BY(mutex_);
};

class Database {
 public:
  Database(absl::Duration lease_ttl, Dice* dice) : dice_(*dice), model_(lease_ttl / kMicrosecond) {}

  // While true, some reads and changes fail, and some changes are made late or never.
  void SetFaulty(bool faulty) { faulty_ = faulty; }

  // A change of the log as a transaction of the model. `by`: the replica.
  absl::StatusOr<store::Applied> Apply(const store::Change& change, const ReplicaName& by)
      ABSL_LOCKS_EXCLUDED(mutex_);
  ReplicaName Join(const std::string& replica_id) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<RenewedLease> Renew(const Replica& self) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(const ReplicaName& self) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<OwnedRow> ReadRow(const SessionKey& session, const std::optional<TurnId>& turn)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The model, for tests: checks what calls are told.
  template <typename Use>
  auto WithModel(const Use& use) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return use(model_);
  }

 private:
  static constexpr absl::Duration kMicrosecond = absl::Microseconds(1);
  static Micros Now() { return (MonotonicTime::Now() - MonotonicTime()) / kMicrosecond; }

  Dice& dice_;
  std::atomic<bool> faulty_{false};
  absl::Mutex mutex_;
  ModelStore model_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> incarnations_ ABSL_GUARDED_BY(mutex_);
  std::map<ReplicaName, Replica> replicas_ ABSL_GUARDED_BY(mutex_);
  Timers timers_;  // of changes that are made late
};

// How one replica reaches the database.
class DatabaseLink : public FleetStore, public store::StubSessionStore {
 public:
  DatabaseLink(Database* database, Dice* dice) : database_(*database), dice_(*dice) {}

  // Before changes are made.
  void SetName(const ReplicaName& name) { name_ = name; }
  // Renewals fail: the lease ends while the replica goes on.
  void SetRenews(bool renews) { renews_ = renews; }

  absl::StatusOr<ReplicaName> Join(const std::string& replica_id) override {
    return database_.Join(replica_id);
  }
  absl::StatusOr<RenewedLease> Renew(const Replica& self, absl::Duration ttl) override;
  absl::Status Release(const ReplicaName& self) override;
  absl::StatusOr<OwnedRow> ReadRow(const SessionKey& session,
                                   const std::optional<TurnId>& turn) override;
  std::vector<absl::StatusOr<store::Applied>> Apply(
      absl::Span<const store::Change> changes) override;

 private:
  Database& database_;
  Dice& dice_;
  ReplicaName name_;
  std::atomic<bool> renews_{true};
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_DATABASE_H_
