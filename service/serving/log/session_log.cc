// Sends one change at a time.
#include "service/serving/log/session_log.h"

#include <utility>

namespace longstream {

void SessionLog::SetVersion(int64_t epoch, int64_t version) {
  absl::MutexLock lock(&mutex_);
  now_.epoch = epoch;
  now_.version = version;
}

void SessionLog::Submit(Make make, Done done) {
  {
    absl::MutexLock lock(&mutex_);
    waiting_.push_back({std::move(make), std::move(done)});
    if (waiting_.size() > 1) return;
  }
  Send();
}

void SessionLog::Send() {
  Make make;
  store::Fence fence;
  {
    absl::MutexLock lock(&mutex_);
    make = waiting_.front().make;
    fence = {key_, now_.epoch, now_.version};
  }
  absl::StatusOr<store::Change> change = make(fence);
  if (!change.ok()) return Answer(change.status());
  commits_->Submit(*std::move(change),
                   [self = shared_from_this()](absl::StatusOr<store::Applied> applied) {
                     self->Answer(std::move(applied));
                   });
}

void SessionLog::Answer(absl::StatusOr<store::Applied> applied) {
  Done done;
  {
    absl::MutexLock lock(&mutex_);
    if (applied.ok()) now_ = *applied;
    done = std::move(waiting_.front().done);
  }
  // The change counts as being made until its caller knows the result, because the next change may
  // depend on what the caller has learned.
  done(std::move(applied));
  {
    absl::MutexLock lock(&mutex_);
    waiting_.pop_front();
    if (waiting_.empty()) return;
  }
  Send();
}

}  // namespace longstream
