// The thread that reads the store's aliases.
#include "service/serving/models/alias_follower.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"

namespace longstream {

AliasFollower::AliasFollower(store::SessionStore* store, AliasAdmin* aliases, Told told,
                             absl::Duration every)
    : store_(store), aliases_(aliases), told_(std::move(told)), every_(every), thread_([this] {
        Run();
      }) {}

AliasFollower::~AliasFollower() {
  Stop();
  thread_.join();
}

void AliasFollower::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void AliasFollower::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), every_)) return;
    }
    const absl::StatusOr<std::optional<AliasAdmin::Followed>> followed = aliases_->Follow(store_);
    if (followed.ok() && followed->has_value()) told_(**followed);
  }
}

}  // namespace longstream
