// The messages between this replica and its peers, over gRPC, in both directions.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_CLIENT_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_CLIENT_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/peers.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_channels.h"
#include "service/server/peer/peer_core.h"
#include "service/server/peer/relayed_stream.h"

namespace longstream {

// A message that asks for something, Fetch or Offer, begins a call. An answer goes the way back on
// the call that has brought the request, and so do the caches. PeerServer receives the calls of
// peers, and keeps them in core().
//
// Thread-safe. No function but the destructor blocks, and none calls back: the functions of
// PeerEvents, BeginCaches, `arrived` and those of a RelayRequest are called on other threads.
class PeerClient final : public fleet::Peers, public Relays {
 public:
  struct Options {
    PeerChannels::Options channels;
    PeerLimits limits;
  };

  explicit PeerClient(Options options);
  // Ends all calls and waits for them. REQUIRES: its PeerServer has shut down.
  ~PeerClient() override;

  // Until both were called nothing is sent, and peers get UNAVAILABLE. `events` outlives this
  // object.
  void SetSelf(const fleet::ReplicaName& self) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetEvents(fleet::PeerEvents* events) { core_.SetEvents(events); }

  // Calls to replicas that have gone end.
  void SetReplicas(const std::vector<fleet::Replica>& replicas) override;
  void Send(const fleet::ReplicaName& to, const fleet::PeerMessage& message) override;
  void SendCaches(const fleet::ReplicaName& to, fleet::Number request,
                  std::shared_ptr<fleet::CacheReader> caches) override;
  void ReceiveCaches(const fleet::ReplicaName& from, fleet::Number request, BeginCaches begin,
                     std::function<void(const absl::Status&)> arrived) override;
  void Forget(const fleet::ReplicaName& peer, fleet::Number request) override;

  std::shared_ptr<RelayedStream> Relay(RelayRequest request) override;
  void CancelTurn(const fleet::ReplicaName& peer, const SessionKey& session,
                  const fleet::TurnId& turn, Cancelled cancelled) override;

  PeerCore* core() { return &core_; }

 private:
  // Without a channel if the peer is not known.
  PeerLine LineTo(const fleet::ReplicaName& peer) const ABSL_LOCKS_EXCLUDED(mutex_);
  void SendTo(const fleet::ReplicaName& to, const fleet::Fetch& fetch);
  void SendTo(const fleet::ReplicaName& to, const fleet::Given& given);
  void SendTo(const fleet::ReplicaName& to, const fleet::Refused& refused);
  void SendTo(const fleet::ReplicaName& to, const fleet::Offer& offer);
  void SendTo(const fleet::ReplicaName& to, const fleet::Moved& moved);
  // A RelayedStream is the call for these.
  void SendTo(const fleet::ReplicaName& /*to*/, const fleet::Attach& /*attach*/) {}
  void SendTo(const fleet::ReplicaName& /*to*/, const fleet::Attached& /*attached*/) {}

  mutable absl::Mutex mutex_;
  fleet::ReplicaName self_ ABSL_GUARDED_BY(mutex_);
  std::atomic<fleet::Number> last_other_ = 0;  // number without kOther
  PeerChannels channels_;
  PeerCore core_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_CLIENT_H_
