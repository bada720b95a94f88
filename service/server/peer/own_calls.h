// The calls that this replica makes to its peers.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_OWN_CALLS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_OWN_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "service/server/peer/peer_core.h"
#include "service/server/peer/relayed_stream.h"
#include "service/sessions/fleet/peer_messages.h"

namespace longstream {

// How to call a peer.
struct PeerLine {
  fleet::ReplicaName self;
  fleet::ReplicaName peer;
  std::shared_ptr<grpc::Channel> channel;
  std::string token;  // empty: the certificate says who calls
};

// Each function begins a call, which keeps itself alive until it has ended, and does not block.
// `core` outlives the call. Errors are those of OpenCalls::Add; then there is no call.
//
// The answer goes to core->Deliver. If a Fetch ends without an answer, Refused with kNotYet goes
// there, unless the call was ended by End.
absl::Status BeginFetch(PeerCore* core, const PeerLine& line, const fleet::Fetch& fetch);
// If the peer has not looked at the offer, Refused with kNotTaken goes to core->Deliver.
absl::Status BeginOffer(PeerCore* core, const PeerLine& line, const fleet::Offer& offer);
// `number`: drawn for the notice, the cancelling or the relay, with the bit kOther.
void BeginNotify(PeerCore* core, const PeerLine& line, fleet::Number number,
                 const fleet::Moved& moved);
// `cancelled` as for Relays::CancelTurn.
absl::Status BeginCancel(PeerCore* core, const PeerLine& line, fleet::Number number,
                         const SessionKey& session, const fleet::TurnId& turn,
                         Relays::Cancelled cancelled);
absl::StatusOr<std::shared_ptr<RelayedStream>> BeginRelay(PeerCore* core, const PeerLine& line,
                                                          fleet::Number number,
                                                          RelayRequest request);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_OWN_CALLS_H_
