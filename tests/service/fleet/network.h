// A network between the replicas of one process that loses, delays and repeats messages.
#ifndef LONGSTREAM_TESTS_SERVICE_FLEET_NETWORK_H_
#define LONGSTREAM_TESTS_SERVICE_FLEET_NETWORK_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/clock/timers.h"
#include "service/fleet/peers.h"
#include "tests/service/fleet/database.h"

namespace longstream::fleet {

class Network {
 public:
  explicit Network(Dice* dice) : dice_(*dice) {}

  void SetFaulty(bool faulty) { faulty_ = faulty; }
  void Join(const ReplicaName& name, PeerEvents* events) ABSL_LOCKS_EXCLUDED(mutex_);
  // No message arrives there any more.
  void Leave(const ReplicaName& name) ABSL_LOCKS_EXCLUDED(mutex_);

  void Send(const ReplicaName& from, const ReplicaName& to, const PeerMessage& message);
  void SendCaches(const ReplicaName& from, const ReplicaName& to, Number request,
                  std::shared_ptr<CacheReader> caches) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReceiveCaches(const ReplicaName& from, const ReplicaName& to, Number request,
                     Peers::BeginCaches begin, std::function<void(const absl::Status&)> arrived)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Later, unless it is lost.
  void Deliver(std::function<void()> message);

 private:
  using Stream = std::tuple<ReplicaName, ReplicaName, Number>;
  struct Receiver {
    Peers::BeginCaches begin;
    std::function<void(const absl::Status&)> arrived;
  };

  void MayBreak(const ReplicaName& from, const ReplicaName& to, const PeerMessage& message)
      ABSL_LOCKS_EXCLUDED(mutex_);
  static void Copy(const std::shared_ptr<CacheReader>& caches, const Receiver& receiver);

  Dice& dice_;
  std::atomic<bool> faulty_{false};
  absl::Mutex mutex_;
  std::map<ReplicaName, PeerEvents*> replicas_ ABSL_GUARDED_BY(mutex_);
  std::map<Stream, std::shared_ptr<CacheReader>> sent_ ABSL_GUARDED_BY(mutex_);
  std::map<Stream, Receiver> receivers_ ABSL_GUARDED_BY(mutex_);
  Timers timers_;
};

// The peers of one replica.
class NetworkPeers : public Peers {
 public:
  NetworkPeers(Network* network, ReplicaName self) : network_(*network), self_(std::move(self)) {}

  void SetReplicas(const std::vector<Replica>& /*replicas*/) override {}
  void Send(const ReplicaName& to, const PeerMessage& message) override {
    network_.Send(self_, to, message);
  }
  void SendCaches(const ReplicaName& to, Number request,
                  std::shared_ptr<CacheReader> caches) override {
    network_.SendCaches(self_, to, request, std::move(caches));
  }
  void ReceiveCaches(const ReplicaName& from, Number request, BeginCaches begin,
                     std::function<void(const absl::Status&)> arrived) override {
    network_.ReceiveCaches(from, self_, request, std::move(begin), std::move(arrived));
  }
  void Forget(const ReplicaName& /*peer*/, Number /*request*/) override {}

 private:
  Network& network_;
  const ReplicaName self_;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_SERVICE_FLEET_NETWORK_H_
