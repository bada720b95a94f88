// The calls of longstream.peer.v1 that peers make to this replica.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_CALLS_OF_PEERS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_CALLS_OF_PEERS_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "longstream/peer/v1/peer.pb.h"
#include "service/server/peer/peer_core.h"
#include "service/server/transport/raw_request.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/wire/request_memory.h"

namespace longstream {

// Each function makes a reactor that deletes itself when its call is done. `context`, `core` and
// `memory` outlive it.
grpc::ServerWriteReactor<peer::v1::FetchResponse>* NewFetchCall(
    grpc::CallbackServerContext* context, PeerCore* core, const fleet::ReplicaName& from,
    const fleet::Fetch& fetch);
grpc::ServerBidiReactor<RawRequest<peer::v1::OfferRequest>, peer::v1::OfferResponse>* NewOfferCall(
    grpc::CallbackServerContext* context, PeerCore* core, RequestMemory* memory);

// Ends the call with this status, past what it has written and the peer has not read. Its
// operations end with `ok` = false, and then the reactor must finish.
inline void CancelInCore(grpc::CallbackServerContext* context, const absl::Status& why) {
  grpc_call_cancel_with_status(context->c_call(), static_cast<grpc_status_code>(why.code()),
                               std::string(why.message()).c_str(), nullptr);
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_CALLS_OF_PEERS_H_
