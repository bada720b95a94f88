// Turns that run on a peer: reads their streams, and cancels them.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"

namespace longstream {
namespace {

// gRPC itself ends a call with this code and text if it reaches a server that is just ending. A
// turn that was cancelled has another text.
absl::Status FromPeer(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::CANCELLED && status.error_message() == "CANCELLED") {
    return absl::UnavailableError("the replica that runs the turn is ending");
  }
  return FromGrpc(status);
}

// The end of a call that the peer has not begun to answer. The client has done nothing wrong if the
// peer does not accept this replica, is older, or has too much to do: it should try again.
absl::Status WithoutAnAnswer(const absl::Status& status) {
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
          absl::StrCat("the replica that runs the turn does not answer: ", status.message()));
  }
}

class RelayFromPeer final : public HeldCall<grpc::ClientReadReactor<v1::GenerateResponse>>,
                            public RelayedStream {
 public:
  // A turn may take any time; the connection's pings and the peer's lease say that it lives.
  RelayFromPeer(PeerCore* core, const PeerLine& line, fleet::Number number, RelayRequest request)
      : HeldCall(core, line, number, absl::InfiniteDuration()), relay_(std::move(request)) {
    attach_.set_sender(line.self);
    *attach_.mutable_session() = ToProto(relay_.session);
    attach_.set_turn_id(relay_.turn.ToString());
    attach_.set_generate_request(std::move(relay_.request));
  }

  absl::Status Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    absl::Status status = Add(OpenCalls::Kind::kRelay, relay_.session);
    if (!status.ok()) return status;
    stub_->async()->Attach(&context_, &attach_, this);
    AddHold();
    limit_.Set(core_->limits().attach_timeout, [this, self = shared_from_this()](uint64_t wait) {
      absl::MutexLock locked(&mutex_);
      if (limit_.Is(wait)) StopFor(absl::UnavailableError("the owner does not answer"));
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
    StopFor(why);
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
    relay_.on_message(std::move(message));
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    core_->calls().Remove(key_);
    absl::Status end;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      end = why_.ok() ? FromPeer(status) : why_;
      if (!has_begun_) end = WithoutAnAnswer(end);
    }
    const auto self = std::move(self_);  // destroyed last
    const auto on_end = std::move(relay_.on_end);
    relay_.on_message = nullptr;
    on_end(end);
  }

 private:
  void StopFor(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!held_) return;
    why_ = why;
    Stop();
  }

  RelayRequest relay_;
  peer::v1::AttachRequest attach_;
  v1::GenerateResponse response_;
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;      // for Next
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;  // a message has come
  absl::Status why_ ABSL_GUARDED_BY(mutex_);        // why this replica has ended the call
};

class CancelOnPeer final : public OpenCall, public std::enable_shared_from_this<CancelOnPeer> {
 public:
  CancelOnPeer(PeerCore* core, const PeerLine& line, fleet::Number number,
               const SessionKey& session, const fleet::TurnId& turn, Relays::Cancelled cancelled)
      : core_(core),
        counted_(&core->count()),
        key_{line.peer, number},
        stub_(peer::v1::Peer::NewStub(line.channel)),
        cancelled_(std::move(cancelled)) {
    request_.set_sender(line.self);
    *request_.mutable_session() = ToProto(session);
    request_.set_turn_id(turn.ToString());
    PrepareCall(line, core->limits().cancel_timeout, &context_);
  }

  absl::Status Begin(const SessionKey& session) {
    absl::Status status =
        core_->calls().Add(key_, OpenCalls::Kind::kCancel, session, shared_from_this());
    if (!status.ok()) return status;
    stub_->async()->Cancel(
        &context_, &request_, &response_,
        [self = shared_from_this()](const grpc::Status& end) { self->OnDone(end); });
    return absl::OkStatus();
  }

  void End(const absl::Status& /*why*/) override { context_.TryCancel(); }

 private:
  void OnDone(const grpc::Status& end) {
    core_->calls().Remove(key_);
    if (end.ok()) return cancelled_(std::move(response_));
    // This replica cancels the call when the peer's lease is over, or when it shuts down itself.
    absl::Status status = WithoutAnAnswer(FromPeer(end));
    if (absl::IsCancelled(status)) status = absl::UnavailableError(status.message());
    cancelled_(status);
  }

  PeerCore* const core_;
  const CallCount::Call counted_;
  const OpenCalls::Key key_;
  const std::unique_ptr<peer::v1::Peer::Stub> stub_;
  const Relays::Cancelled cancelled_;
  grpc::ClientContext context_;
  peer::v1::CancelRequest request_;
  v1::Turn response_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<RelayedStream>> BeginRelay(PeerCore* core, const PeerLine& line,
                                                          fleet::Number number,
                                                          RelayRequest request) {
  const auto relay = std::make_shared<RelayFromPeer>(core, line, number, std::move(request));
  if (absl::Status status = relay->Begin(); !status.ok()) return status;
  return std::shared_ptr<RelayedStream>(relay);
}

absl::Status BeginCancel(PeerCore* core, const PeerLine& line, fleet::Number number,
                         const SessionKey& session, const fleet::TurnId& turn,
                         Relays::Cancelled cancelled) {
  return std::make_shared<CancelOnPeer>(core, line, number, session, turn, std::move(cancelled))
      ->Begin(session);
}

}  // namespace longstream
