// The shared parts of all calls between this replica and its peers.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_CORE_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_CORE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"
#include "service/fleet/peers.h"
#include "service/server/peer/caches/cache_threads.h"
#include "service/server/peer/open_calls.h"
#include "service/server/peer/peer_limits.h"
#include "service/server/transport/call_count.h"

namespace longstream {

// Thread-safe. Outlives all calls.
class PeerCore {
 public:
  explicit PeerCore(const PeerLimits& limits)
      : limits_(limits), calls_(limits), threads_(limits.cache_threads) {}

  const PeerLimits& limits() const { return limits_; }
  OpenCalls& calls() { return calls_; }
  Timers& timers() { return timers_; }
  CacheThreads& threads() { return threads_; }
  CallCount& count() { return count_; }

  void SetEvents(fleet::PeerEvents* events) { events_.store(events); }
  bool HasEvents() const { return events_.load() != nullptr; }
  void Deliver(const fleet::ReplicaName& from, fleet::PeerMessage message) {
    fleet::PeerEvents* const events = events_.load();
    if (events != nullptr) events->MessageArrived(from, std::move(message));
  }
  void TellBroken(const OpenCalls::Key& key) {
    fleet::PeerEvents* const events = events_.load();
    if (events != nullptr) events->GivingBroken(key.peer, key.number);
  }
  // Tells an error that another try would meet again.
  void TellRefused(const OpenCalls::Key& key, const absl::Status& status) {
    const bool is_refusal = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
                            absl::IsUnimplemented(status);
    fleet::PeerEvents* const events = events_.load();
    if (events != nullptr && is_refusal) events->CallRefused(key.peer, key.number, status);
  }
  void TellBrokenLater(const OpenCalls::Key& key) {
    timers_.Set(MonotonicTime::Now(), [this, key] { TellBroken(key); });
  }
  // The same as Deliver, when the caller has returned.
  void DeliverLater(const fleet::ReplicaName& from, const fleet::PeerMessage& message) {
    timers_.Set(MonotonicTime::Now(), [this, from, message] { Deliver(from, message); });
  }

  // A place for a relayed turn that runs here; it is free when the object is destroyed. Null: all
  // are taken.
  std::shared_ptr<void> TakeRelayPlace() { return Take(&relays_, limits_.max_relays); }
  std::shared_ptr<void> TakeCancelPlace() { return Take(&cancels_, limits_.max_cancels); }
  // The same for an Offer whose first message has not come: nobody knows yet whose it is.
  std::shared_ptr<void> TakeNamelessPlace() { return Take(&nameless_, limits_.max_calls_of_peers); }

 private:
  static std::shared_ptr<void> Take(std::atomic<size_t>* taken, size_t most) {
    if (taken->fetch_add(1) >= most) {
      taken->fetch_sub(1);
      return nullptr;
    }
    return {taken, [](std::atomic<size_t>* count) { count->fetch_sub(1); }};
  }

  const PeerLimits limits_;
  std::atomic<fleet::PeerEvents*> events_ = nullptr;
  std::atomic<size_t> relays_ = 0;
  std::atomic<size_t> cancels_ = 0;
  std::atomic<size_t> nameless_ = 0;
  CallCount count_;
  OpenCalls calls_;
  Timers timers_;
  CacheThreads threads_;  // ends first: its work uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_CORE_H_
