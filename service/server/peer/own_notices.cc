// Tells a peer what needs no answer.
#include <memory>
#include <utility>

#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"

namespace longstream {
namespace {

class Notice final : public OpenCall, public std::enable_shared_from_this<Notice> {
 public:
  Notice(PeerCore* core, const PeerLine& line, fleet::Number number, const fleet::Moved& moved)
      : core_(core), counted_(&core->count()), key_{line.peer, number} {
    request_.set_sender(line.self);
    *request_.mutable_moved() = ToProto(moved);
    PrepareCall(line, core->limits().notice_timeout, &context_);
  }

  // The notice is lost if there are too many.
  void Begin(const std::shared_ptr<grpc::Channel>& channel) {
    const absl::Status status =
        core_->calls().Add(key_, OpenCalls::Kind::kNotice, SessionKey(), shared_from_this());
    if (!status.ok()) return;
    stub_ = peer::v1::Peer::NewStub(channel);
    stub_->async()->Notify(&context_, &request_, &response_,
                           [self = shared_from_this()](const grpc::Status& /*status*/) {
                             self->core_->calls().Remove(self->key_);
                           });
  }

  void End(const absl::Status& /*why*/) override { context_.TryCancel(); }

 private:
  PeerCore* const core_;
  const CallCount::Call counted_;
  const OpenCalls::Key key_;
  grpc::ClientContext context_;
  std::unique_ptr<peer::v1::Peer::Stub> stub_;
  peer::v1::NotifyRequest request_;
  peer::v1::NotifyResponse response_;
};

}  // namespace

void BeginNotify(PeerCore* core, const PeerLine& line, fleet::Number number,
                 const fleet::Moved& moved) {
  std::make_shared<Notice>(core, line, number, moved)->Begin(line.channel);
}

}  // namespace longstream
