// Tells a peer what needs no answer.
#include <memory>
#include <utility>

#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"

namespace longstream {
namespace {

struct Notice {
  explicit Notice(PeerCore* core) : counted(&core->count()) {}

  const CallCount::Call counted;
  std::shared_ptr<void> place;
  grpc::ClientContext context;
  std::unique_ptr<peer::v1::Peer::Stub> stub;
  peer::v1::NotifyRequest request;
  peer::v1::NotifyResponse response;
};

}  // namespace

void BeginNotify(PeerCore* core, const PeerLine& line, const fleet::Moved& moved) {
  const auto notice = std::make_shared<Notice>(core);
  notice->place = core->TakeNoticePlace();
  if (notice->place == nullptr) return;  // it is lost
  notice->request.set_sender(line.self);
  *notice->request.mutable_moved() = ToProto(moved);
  PrepareCall(line, core->limits().notice_timeout, &notice->context);
  notice->stub = peer::v1::Peer::NewStub(line.channel);
  notice->stub->async()->Notify(&notice->context, &notice->request, &notice->response,
                                [notice](const grpc::Status& /*status*/) {});
}

}  // namespace longstream
