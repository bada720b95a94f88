// The loop of renewals, and the timer that ends the lease if none is answered.
#include "service/fleet/replica_lease.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/clock/growing_pause.h"

namespace longstream::fleet {

absl::StatusOr<ReplicaName> ReplicaLease::Join(FleetStore* store, const std::string& replica_id,
                                               absl::Duration patience) {
  const MonotonicTime give_up = MonotonicTime::Now() + patience;
  GrowingPause pause(absl::Milliseconds(100), absl::Seconds(2));
  while (true) {
    absl::StatusOr<ReplicaName> name = store->Join(replica_id);
    if (name.ok() || !absl::IsUnavailable(name.status()) || MonotonicTime::Now() >= give_up) {
      return name;
    }
    absl::SleepFor(std::min(pause.Next(), give_up - MonotonicTime::Now()));
  }
}

ReplicaLease::ReplicaLease(FleetStore* store, LeaseEvents* events, Options options)
    : store_(store), events_(events), options_(std::move(options)), thread_([this] { Run(); }) {}

ReplicaLease::~ReplicaLease() { StopThread(); }

void ReplicaLease::StopThread() {
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  const absl::MutexLock lock(&join_mutex_);
  if (thread_.joinable()) thread_.join();
}

void ReplicaLease::BeginDrain() {
  {
    const absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    renew_now_ = true;
  }
  wake_.notify_all();
}

absl::Status ReplicaLease::Release() {
  StopThread();
  return store_->Release(options_.self.name);
}

absl::Duration ReplicaLease::TimeLeft() const {
  const absl::MutexLock lock(&mutex_);
  if (end_ == MonotonicTime::InfinitePast()) return absl::ZeroDuration();
  return std::max(end_ - options_.clock(), absl::ZeroDuration());
}

void ReplicaLease::Run() {
  while (Renew()) {
    std::unique_lock<std::mutex> lock(wake_mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(options_.ttl / 3),
                   [this] { return stopping_ || renew_now_; });
    renew_now_ = false;
    if (stopping_) return;
  }
}

// The lease holds from a moment after `sent` on, so it holds at least until `sent` + ttl. The
// database's clock decides, and may run at another speed: the fence protects against that.
bool ReplicaLease::Renew() {
  Replica self = options_.self;
  {
    const absl::MutexLock lock(&mutex_);
    self.draining = draining_;
  }
  const MonotonicTime sent = options_.clock();
  const absl::StatusOr<RenewedLease> renewed = store_->Renew(self, options_.ttl);
  const absl::MutexLock events_lock(&events_mutex_);
  if (absl::IsFailedPrecondition(renewed.status())) {
    {
      const absl::MutexLock lock(&mutex_);
      end_ = MonotonicTime::InfinitePast();
    }
    events_->LeaseReplaced();
    return false;
  }
  const MonotonicTime end = sent + options_.ttl;
  const absl::Duration left = end - options_.clock();
  if (!renewed.ok() || left <= absl::ZeroDuration()) return true;  // LeaseOver comes by the timer
  {
    const absl::MutexLock lock(&mutex_);
    end_ = end;
  }
  timers_.Set(MonotonicTime::Now() + left, [this, end] { CheckEnd(end); });
  events_->LeaseRenewed(*renewed);
  return true;
}

void ReplicaLease::CheckEnd(MonotonicTime end) {
  const absl::MutexLock events_lock(&events_mutex_);
  {
    const absl::MutexLock lock(&mutex_);
    if (end_ != end) return;  // it was renewed
    end_ = MonotonicTime::InfinitePast();
  }
  events_->LeaseOver();
}

}  // namespace longstream::fleet
