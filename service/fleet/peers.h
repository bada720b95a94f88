// The messages between replicas: what goes out, and what comes in.
#ifndef LONGSTREAM_SERVICE_FLEET_PEERS_H_
#define LONGSTREAM_SERVICE_FLEET_PEERS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/fleet/fleet_store.h"
#include "service/fleet/session_copies.h"
#include "service/sessions/fleet/peer_messages.h"

namespace longstream::fleet {

// Gets the messages of peers. The functions are called on any thread, and must not block.
class PeerEvents {
 public:
  virtual ~PeerEvents() = default;
  // `from` is what the peer says of itself: it has the role peer, and is believed.
  virtual void MessageArrived(const ReplicaName& from, PeerMessage message) = 0;
  // The call that carried this Given or Offer of this replica has broken off, or there was none any
  // more: the peer is dead or cut off, or wants no more of the caches. It may make its transaction
  // nevertheless.
  virtual void GivingBroken(const ReplicaName& /*peer*/, Number /*request*/) {}
  // The peer has refused the call of this Fetch or Offer: the credential, the certificate, or the
  // method. An operator must mend it. Comes before the message that ends the wait.
  virtual void CallRefused(const ReplicaName& /*peer*/, Number /*request*/,
                           const absl::Status& /*why*/) {}
};

// Sends messages, and answers to those that have arrived. Thread-safe. No function blocks; what
// cannot be sent is lost.
//
// One call of longstream.peer.v1 carries Fetch, its answer (Given or Refused) and the caches. So
// does one for Offer. Moved is a call of its own, and the answer to Offer if that still waits.
class Peers {
 public:
  virtual ~Peers() = default;

  // The replicas whose leases are not over. Others get no messages.
  virtual void SetReplicas(const std::vector<Replica>& replicas) = 0;
  virtual void Send(const ReplicaName& to, const PeerMessage& message) = 0;

  // Streams the caches of the session, which follow the Given or Offer with this number. nullptr:
  // there are none after all.
  virtual void SendCaches(const ReplicaName& to, Number request,
                          std::shared_ptr<CacheReader> caches) = 0;
  // Takes the caches that follow the Given or Offer with this number. `begin` is called with the
  // header of their reader, and gives the writer; `arrived` once, when all bytes are written
  // (CacheWriter::Finish was called) or cannot come any more.
  using BeginCaches =
      std::function<void(const std::string& header,
                         std::function<void(absl::StatusOr<std::shared_ptr<CacheWriter>>)> writer)>;
  virtual void ReceiveCaches(const ReplicaName& from, Number request, BeginCaches begin,
                             std::function<void(const absl::Status&)> arrived) = 0;
  // The call that carried this request is of no use any more: ends it.
  virtual void Forget(const ReplicaName& peer, Number request) = 0;
};

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_FLEET_PEERS_H_
