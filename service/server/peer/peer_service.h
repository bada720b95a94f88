// The gRPC service of peers. It hands their messages on to fleet::PeerEvents.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "longstream/peer/v1/peer.pb.h"
#include "longstream/v1/longstream.pb.h"
#include "service/server/peer/peer_core.h"
#include "service/server/transport/decoding_service.h"
#include "service/sessions/fleet/peer_messages.h"

namespace longstream {

// A peer reads the stream of a turn for a client of its own.
struct AttachCall {
  fleet::ReplicaName from;
  SessionKey session;
  fleet::TurnId turn;
  Decoded<v1::GenerateRequest> request;  // as the client has sent it to the peer
  std::shared_ptr<void> counted;         // counts the call while it exists
};
// Makes the reactor of the call, which deletes itself. It attaches to a turn that runs on this
// replica; it never fetches the session and never relays. It ends with OK only if the turn was
// committed. `context` outlives the reactor.
using AttachTurn = std::function<grpc::ServerWriteReactor<v1::GenerateResponse>*(
    grpc::CallbackServerContext* context, AttachCall call)>;

// Cancels a turn that runs on this replica, for a client of a peer; it never fetches the session.
// `cancelled` is called once, as for SessionManager::CancelRunning.
using CancelRunningTurn =
    std::function<void(const SessionKey& session, const fleet::TurnId& turn,
                       std::function<void(const absl::StatusOr<v1::Turn>& turn)> cancelled)>;

// Thread-safe. Must outlive its calls.
class PeerService final : public DecodingService {
 public:
  // The pointers must outlive the calls. `attach`, `cancel`: empty: no turn is relayed.
  PeerService(PeerCore* core, AttachTurn attach, CancelRunningTurn cancel, RequestMemory* memory,
              Authorize authorize);

 private:
  using FetchReactor = grpc::ServerWriteReactor<peer::v1::FetchResponse>;
  using OfferReactor =
      grpc::ServerBidiReactor<RawRequest<peer::v1::OfferRequest>, peer::v1::OfferResponse>;
  using AttachReactor = grpc::ServerWriteReactor<v1::GenerateResponse>;

  FetchReactor* Fetch(grpc::CallbackServerContext* context, const Caller& caller,
                      Decoded<peer::v1::FetchRequest> request);
  OfferReactor* Offer(grpc::CallbackServerContext* context, const Caller& caller);
  AttachReactor* Attach(grpc::CallbackServerContext* context, const Caller& caller,
                        Decoded<peer::v1::AttachRequest> request);
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context, const Caller& caller,
                                   const peer::v1::CancelRequest& request, v1::Turn* response);
  grpc::ServerUnaryReactor* Notify(grpc::CallbackServerContext* context, const Caller& caller,
                                   const peer::v1::NotifyRequest& request,
                                   peer::v1::NotifyResponse* response);
  absl::StatusOr<AttachCall> ReadAttach(Decoded<peer::v1::AttachRequest> request);

  PeerCore* const core_;
  const AttachTurn attach_;
  const CancelRunningTurn cancel_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_SERVICE_H_
