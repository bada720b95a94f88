// Takes over the aliases that operators change at other replicas.
#ifndef LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_FOLLOWER_H_
#define LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_FOLLOWER_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/serving/models/alias_admin.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// A thread reads the store's aliases now and then.
class AliasFollower {
 public:
  static constexpr absl::Duration kEvery = absl::Seconds(5);

  // Called by the thread after each time that it has compared the aliases with the store's. Errors
  // of the store are known elsewhere (StoreHealth).
  using Told = std::function<void(const AliasAdmin::Followed& followed)>;

  // `store` and `aliases` outlive the object.
  AliasFollower(store::SessionStore* store, AliasAdmin* aliases, Told told,
                absl::Duration every = kEvery);
  ~AliasFollower();
  AliasFollower(const AliasFollower&) = delete;
  AliasFollower& operator=(const AliasFollower&) = delete;

  // No further read begins. Does not wait for one that runs, because the database may hang; the
  // destructor does.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  store::SessionStore* const store_;
  AliasAdmin* const aliases_;
  const Told told_;
  const absl::Duration every_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, so that it starts after the other members
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_MODELS_ALIAS_FOLLOWER_H_
