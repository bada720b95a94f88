// Checks the requests of peers.
#include "service/server/peer/peer_service.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/calls_of_peers.h"
#include "service/server/peer/peer_messages.h"
#include "service/server/transport/late_answer.h"
#include "service/wire/wire_decoder.h"

namespace longstream {
namespace {

// A call that ends before it has begun.
template <typename Response>
class EndedCall final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit EndedCall(const absl::Status& status) { this->Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

PeerService::PeerService(PeerCore* core, AttachTurn attach, CancelRunningTurn cancel,
                         RequestMemory* memory, Authorize authorize)
    : DecodingService(memory, std::move(authorize)),
      core_(core),
      attach_(std::move(attach)),
      cancel_(std::move(cancel)) {
  AddServerStream("/longstream.peer.v1.Peer/Fetch", &PeerService::Fetch);
  AddBidiStream("/longstream.peer.v1.Peer/Offer", &PeerService::Offer);
  AddServerStream("/longstream.peer.v1.Peer/Attach", &PeerService::Attach);
  AddUnary("/longstream.peer.v1.Peer/Cancel", &PeerService::Cancel);
  AddUnary("/longstream.peer.v1.Peer/Notify", &PeerService::Notify);
}

PeerService::FetchReactor* PeerService::Fetch(grpc::CallbackServerContext* context,
                                              const Caller& /*caller*/,
                                              Decoded<peer::v1::FetchRequest> request) {
  using Ended = EndedCall<peer::v1::FetchResponse>;
  const absl::StatusOr<fleet::ReplicaName> sender = SenderOf(request.message->sender());
  if (!sender.ok()) return new Ended(sender.status());
  const absl::StatusOr<fleet::Fetch> fetch = FromProto(*request.message);
  if (!fetch.ok()) return new Ended(fetch.status());
  return NewFetchCall(context, core_, *sender, *fetch);
}

PeerService::OfferReactor* PeerService::Offer(grpc::CallbackServerContext* context,
                                              const Caller& /*caller*/) {
  return NewOfferCall(context, core_, memory());
}

absl::StatusOr<AttachCall> PeerService::ReadAttach(Decoded<peer::v1::AttachRequest> request) {
  if (attach_ == nullptr) return absl::UnavailableError("the replica is starting");
  absl::StatusOr<fleet::ReplicaName> sender = SenderOf(request.message->sender());
  if (!sender.ok()) return sender.status();
  absl::StatusOr<SessionKey> session = FromProto(request.message->session());
  if (!session.ok()) return session.status();
  const absl::StatusOr<fleet::TurnId> turn =
      SessionId::Parse(request.message->turn_id(), "turn_id");
  if (!turn.ok()) return turn.status();
  Decoded<v1::GenerateRequest> generate{std::make_unique<v1::GenerateRequest>(),
                                        std::move(request.charge)};
  absl::Status status =
      DecodeMessage(request.message->generate_request(), &generate.charge, generate.message.get());
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat("generate_request: ", status.message()));
  }
  std::shared_ptr<void> counted = core_->TakeRelayPlace();
  if (counted == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("relays are open: ", core_->limits().max_relays, ", which is the limit"));
  }
  return AttachCall{*std::move(sender), *std::move(session), *turn, std::move(generate),
                    std::move(counted)};
}

PeerService::AttachReactor* PeerService::Attach(grpc::CallbackServerContext* context,
                                                const Caller& /*caller*/,
                                                Decoded<peer::v1::AttachRequest> request) {
  absl::StatusOr<AttachCall> call = ReadAttach(std::move(request));
  if (!call.ok()) return new EndedCall<v1::GenerateResponse>(call.status());
  return attach_(context, *std::move(call));
}

grpc::ServerUnaryReactor* PeerService::Cancel(grpc::CallbackServerContext* /*context*/,
                                              const Caller& /*caller*/,
                                              const peer::v1::CancelRequest& request,
                                              v1::Turn* response) {
  std::shared_ptr<void> counted = core_->TakeCancelPlace();
  const bool has_place = counted != nullptr;
  const auto call = LateAnswer<v1::Turn>::Make(std::move(counted), response);
  const auto take = [&]() -> absl::Status {
    if (!has_place) {
      return absl::ResourceExhaustedError(
          absl::StrCat("calls that cancel a turn are open: ", core_->limits().max_cancels,
                       ", which is the limit"));
    }
    if (cancel_ == nullptr) return absl::UnavailableError("the replica is starting");
    const absl::StatusOr<fleet::ReplicaName> sender = SenderOf(request.sender());
    if (!sender.ok()) return sender.status();
    const absl::StatusOr<SessionKey> session = FromProto(request.session());
    if (!session.ok()) return session.status();
    const absl::StatusOr<fleet::TurnId> turn = SessionId::Parse(request.turn_id(), "turn_id");
    if (!turn.ok()) return turn.status();
    cancel_(*session, *turn,
            [call](const absl::StatusOr<v1::Turn>& cancelled) { call->Answer(cancelled); });
    return absl::OkStatus();
  };
  if (absl::Status status = take(); !status.ok()) call->Answer(status);
  return call.get();
}

grpc::ServerUnaryReactor* PeerService::Notify(grpc::CallbackServerContext* context,
                                              const Caller& /*caller*/,
                                              const peer::v1::NotifyRequest& request,
                                              peer::v1::NotifyResponse* /*response*/) {
  const auto take = [&]() -> absl::Status {
    const absl::StatusOr<fleet::ReplicaName> sender = SenderOf(request.sender());
    if (!sender.ok()) return sender.status();
    if (!request.has_moved()) return absl::InvalidArgumentError("notice: expected moved");
    const absl::StatusOr<fleet::Moved> moved = FromProto(request.moved());
    if (!moved.ok()) return moved.status();
    if (!core_->HasEvents()) return absl::UnavailableError("the replica is starting");
    core_->Deliver(*sender, *moved);
    return absl::OkStatus();
  };
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(take()));
  return reactor;
}

}  // namespace longstream
