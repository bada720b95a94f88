// Reads the stream of a turn that runs on a peer.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "longstream/peer/v1/peer.grpc.pb.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"
#include "service/server/peer/time_limit.h"

namespace longstream {
namespace {

absl::Status FromGrpc(const grpc::Status& status) {
  return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
}

// How a stream ends of which nothing has come. The client has done nothing wrong if the peer does
// not accept this replica, is older, or has too much to do: it should try again.
absl::Status BeforeTheFirstMessage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return status;
    default:
      return absl::UnavailableError(
          absl::StrCat("the replica that runs the turn does not stream it: ", status.message()));
  }
}

class RelayFromPeer final : public grpc::ClientReadReactor<v1::GenerateResponse>,
                            public OpenCall,
                            public RelayedStream,
                            public std::enable_shared_from_this<RelayFromPeer> {
 public:
  RelayFromPeer(PeerCore* core, const PeerLine& line, fleet::Number number, RelayRequest request)
      : core_(core),
        counted_(&core->count()),
        key_{line.peer, number},
        wanted_(std::move(request)),
        limit_(&core->timers()) {
    attach_.set_sender(line.self);
    *attach_.mutable_session() = ToProto(wanted_.session);
    attach_.set_turn_id(wanted_.turn.ToString());
    attach_.set_generate_request(std::move(wanted_.request));
    // A turn may take any time; the connection's pings and the peer's lease say that it lives.
    PrepareCall(line, absl::InfiniteDuration(), &context_);
  }

  absl::Status Begin(const std::shared_ptr<grpc::Channel>& channel) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    absl::Status status =
        core_->calls().Add(key_, OpenCalls::Kind::kRelay, wanted_.session, shared_from_this());
    if (!status.ok()) return status;
    self_ = shared_from_this();
    stub_ = peer::v1::Peer::NewStub(channel);
    stub_->async()->Attach(&context_, &attach_, this);
    AddHold();
    limit_.Set(core_->limits().attach_timeout, [self = shared_from_this()](uint64_t wait) {
      absl::MutexLock locked(&self->mutex_);
      if (self->limit_.Is(wait)) self->Stop(absl::UnavailableError("the owner does not answer"));
    });
    StartRead(&response_);
    StartCall();
    return absl::OkStatus();
  }

  void Next() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!held_ || !std::exchange(waits_, false)) return;
    StartRead(&response_);
  }
  void Cancel() override { End(absl::CancelledError("the client has gone")); }
  void End(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    Stop(why);
  }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    v1::GenerateResponse message;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      if (!ok || !held_) return LetGo();
      message = std::move(response_);
      has_begun_ = true;
      waits_ = true;
    }
    wanted_.on_message(std::move(message));
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    core_->calls().Remove(key_);
    absl::Status end;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      end = why_.ok() ? FromGrpc(status) : why_;
      if (!has_begun_) end = BeforeTheFirstMessage(end);
    }
    const std::shared_ptr<RelayFromPeer> self = std::move(self_);  // destroyed last
    const auto on_end = std::move(wanted_.on_end);
    wanted_.on_message = nullptr;
    on_end(end);
  }

 private:
  void Stop(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!held_) return;
    why_ = why;
    context_.TryCancel();
    LetGo();
  }
  // No operation begins any more.
  void LetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    limit_.Clear();
    if (std::exchange(held_, false)) RemoveHold();
  }

  PeerCore* const core_;
  const CallCount::Call counted_;
  const OpenCalls::Key key_;
  RelayRequest wanted_;
  grpc::ClientContext context_;
  std::unique_ptr<peer::v1::Peer::Stub> stub_;
  peer::v1::AttachRequest attach_;
  v1::GenerateResponse response_;
  absl::Mutex mutex_;
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;      // for Next
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;  // a message has come
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // why this replica has ended the call
  TimeLimit limit_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RelayFromPeer> self_;  // keeps this object alive until OnDone
};

}  // namespace

absl::StatusOr<std::shared_ptr<RelayedStream>> BeginRelay(PeerCore* core, const PeerLine& line,
                                                          fleet::Number number,
                                                          RelayRequest request) {
  const auto relay = std::make_shared<RelayFromPeer>(core, line, number, std::move(request));
  if (absl::Status status = relay->Begin(line.channel); !status.ok()) return status;
  return std::shared_ptr<RelayedStream>(relay);
}

}  // namespace longstream
