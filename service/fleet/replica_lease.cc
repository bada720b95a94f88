// The loop of renewals, and the timer that ends the lease if none is answered.
#include "service/fleet/replica_lease.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/clock/growing_pause.h"

namespace longstream::fleet {
namespace {

// Between two renewals of which the first one has failed. A database that restarts is away for
// about as long as a lease holds.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

// A clock of C++ cannot count an infinite time.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);

}  // namespace

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

ReplicaLease::~ReplicaLease() {
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
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

void ReplicaLease::BeginRelease() {
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    releasing_ = true;
  }
  wake_.notify_all();
}

absl::Status ReplicaLease::Release(MonotonicTime deadline) {
  BeginRelease();
  std::unique_lock<std::mutex> lock(wake_mutex_);
  const absl::Duration most = std::min(deadline - MonotonicTime::Now(), kLongestWait);
  if (wake_.wait_for(lock, absl::ToChronoNanoseconds(most),
                     [this] { return released_.has_value(); })) {
    return *released_;
  }
  return absl::DeadlineExceededError("the database has not answered in time");
}

absl::Duration ReplicaLease::TimeLeft() const {
  const absl::MutexLock lock(&mutex_);
  if (end_ == MonotonicTime::InfinitePast()) return absl::ZeroDuration();
  return std::max(end_ - options_.clock(), absl::ZeroDuration());
}

void ReplicaLease::Run() {
  RenewUntilStopped();
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    if (!releasing_) return;
  }
  const absl::Status released = store_->Release(options_.self.name);
  {
    const std::lock_guard<std::mutex> lock(wake_mutex_);
    released_ = released;
  }
  wake_.notify_all();
}

void ReplicaLease::RenewUntilStopped() {
  GrowingPause pause(kFirstPause, kLongestPause);
  for (;;) {
    const Renewal renewal = Renew();
    // A release of a lease that a later incarnation has changes nothing, and is answered.
    const bool waits = renewal != Renewal::kReplaced;
    absl::Duration next = options_.ttl / 3;
    if (renewal == Renewal::kRenewed) pause.Reset();
    if (renewal == Renewal::kFailed) next = std::min(next, pause.Next());
    std::unique_lock<std::mutex> lock(wake_mutex_);
    const auto is_woken = [this] { return stopping_ || releasing_ || renew_now_; };
    const auto ends = [this] { return stopping_ || releasing_; };
    if (waits) {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(next), is_woken);
    } else {
      wake_.wait(lock, ends);
    }
    renew_now_ = false;
    if (ends()) return;
  }
}

// The lease holds from a moment after `sent` on, so it holds at least until `sent` + ttl. The
// database's clock decides, and may run at another speed: the fence protects against that.
ReplicaLease::Renewal ReplicaLease::Renew() {
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
    return Renewal::kReplaced;
  }
  const MonotonicTime end = sent + options_.ttl;
  const absl::Duration left = end - options_.clock();
  // LeaseOver comes by the timer.
  if (!renewed.ok() || left <= absl::ZeroDuration()) return Renewal::kFailed;
  {
    const absl::MutexLock lock(&mutex_);
    end_ = end;
  }
  timers_.Set(MonotonicTime::Now() + left, [this, end] { CheckEnd(end); });
  events_->LeaseRenewed(*renewed);
  return Renewal::kRenewed;
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
