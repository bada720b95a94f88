// A peer offers a session to this replica. The state machine takes or refuses it.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/calls_of_peers.h"
#include "service/server/peer/peer_messages.h"
#include "service/server/peer/time_limit.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

// Until the end of the caches, a message is read while the sink takes the piece before it. The
// answer may come at any time after the offer.
class OfferCall final
    : public grpc::ServerBidiReactor<RawRequest<peer::v1::OfferRequest>, peer::v1::OfferResponse>,
      public OpenCall,
      public std::enable_shared_from_this<OfferCall> {
 public:
  OfferCall(grpc::CallbackServerContext* context, PeerCore* core, RequestMemory* memory)
      : core_(core),
        counted_(&core->count()),
        context_(context),
        memory_(memory),
        whole_(&core->timers()),
        limit_(&core->timers()) {}

  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    self_ = shared_from_this();
    absl::MutexLock lock(&mutex_);
    nameless_ = core_->TakeNamelessPlace();
    if (nameless_ == nullptr) {
      return FinishOnce(absl::ResourceExhaustedError(
          absl::StrCat("calls without a message are open: ", core_->limits().max_calls_of_peers,
                       ", which is the limit")));
    }
    Limit(&whole_, core_->limits().call_timeout, "the call has taken too long");
    ReadNext();
  }

  bool Answer(const fleet::PeerMessage& message) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (finished_) return false;
    if (const auto* const moved = std::get_if<fleet::Moved>(&message)) {
      response_.mutable_taken()->set_epoch(moved->epoch);
    } else if (const auto* const refused = std::get_if<fleet::Refused>(&message)) {
      *response_.mutable_refused() = ToProto(*refused);
    } else {
      return false;
    }
    finished_ = true;
    Limit(&limit_, core_->limits().piece_timeout, "the peer does not read");
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    return true;
  }

  bool ReceiveCaches(const std::shared_ptr<PieceSink>& sink) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (finished_ || !has_caches_ || sink_ != nullptr) return false;
    sink_ = sink;
    ReadNext();
    return true;
  }

  void End(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    FinishOnce(why);
  }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<fleet::Offer> offer;
    {
      absl::MutexLock lock(&mutex_);
      if (finished_ || has_failed_) return;
      if (!ok) return OnLastMessage();
      if (taking_) return WaitForSink();
      const absl::Status status = TakeMessage(&offer);
      if (!status.ok()) return FinishOnce(status);
    }
    if (offer.has_value()) core_->Deliver(key_.peer, *std::move(offer));
  }

  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    FinishOnce(absl::CancelledError("the peer does not need the call any more"));
  }
  void OnDone() override ABSL_LOCKS_EXCLUDED(mutex_) {
    bool added = false;
    std::shared_ptr<PieceSink> sink;
    {
      absl::MutexLock lock(&mutex_);
      whole_.Clear();
      limit_.Clear();
      sink.swap(sink_);
      is_done_ = true;
      added = added_;
    }
    if (added) core_->calls().Remove(key_);
    if (sink != nullptr) sink->Fail(absl::UnavailableError("the caches did not arrive"));
    const std::shared_ptr<OfferCall> self = std::move(self_);  // destroyed last
  }

 private:
  // `offer`: set if this is the first message.
  absl::Status TakeMessage(std::optional<fleet::Offer>* offer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<Decoded<peer::v1::OfferRequest>> decoded = Decode(raw_, memory_);
    if (!decoded.ok()) return decoded.status();
    message_.emplace(*std::move(decoded));
    if (sink_ != nullptr) return TakePiece();
    const absl::Status status = TakeOffer(*message_->message, offer);
    message_.reset();
    return status;
  }
  absl::Status TakeOffer(const peer::v1::OfferRequest& request, std::optional<fleet::Offer>* taken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!request.has_offer()) {
      return absl::InvalidArgumentError("offer: expected it in the first message");
    }
    absl::StatusOr<fleet::ReplicaName> sender = SenderOf(request.offer().sender());
    if (!sender.ok()) return sender.status();
    absl::StatusOr<fleet::Offer> offer = FromProto(request.offer());
    if (!offer.ok()) return offer.status();
    if (!core_->HasEvents()) return absl::UnavailableError("the replica is starting");
    key_ = {*std::move(sender), offer->request};
    absl::Status status =
        core_->calls().Add(key_, OpenCalls::Kind::kOffer, offer->session, shared_from_this());
    if (!status.ok()) return status;
    added_ = true;
    nameless_.reset();
    has_caches_ = offer->has_caches;
    Limit(&limit_, has_caches_ ? core_->limits().answer_timeout : core_->limits().taking_timeout,
          "the replica does not answer");
    *taken = *std::move(offer);
    return absl::OkStatus();
  }

  absl::Status TakePiece() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!message_->message->has_piece()) {
      return absl::InvalidArgumentError("piece: expected it in each message but the first");
    }
    taking_ = true;
    waiting_ = false;
    const bool is_end = message_->message->piece().has_end();
    sink_->Take(std::move(*message_->message->mutable_piece()),
                [self = shared_from_this()](PieceSink::Taken taken) { self->GoOn(taken); });
    is_end ? WaitForSink() : ReadNext();
    return absl::OkStatus();
  }
  void WaitForSink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_ = true;
    Limit(&limit_, core_->limits().piece_timeout, "the replica does not take the caches");
  }
  // The sink has taken a piece.
  void GoOn(PieceSink::Taken taken) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    message_.reset();
    taking_ = false;
    if (finished_) return;
    if (taken != PieceSink::Taken::kMore) {
      has_failed_ = taken == PieceSink::Taken::kFailed;
      return WaitForAnswer();  // without the caches the session may be taken nevertheless
    }
    if (!waiting_) return;
    const absl::Status status = TakeMessage(nullptr);
    if (!status.ok()) FinishOnce(status);
  }
  // The peer sends no more, or the call has failed: then OnCancel comes too.
  void OnLastMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (sink_ == nullptr) return FinishOnce(absl::InvalidArgumentError("the call has no message"));
    sink_->Fail(absl::UnavailableError("the caches ended before their end"));
    WaitForAnswer();
  }
  void WaitForAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Limit(&limit_, core_->limits().taking_timeout, "the replica does not answer");
  }

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Limit(&limit_, core_->limits().piece_timeout, "the peer sends nothing");
    StartRead(&raw_);
  }
  void Limit(TimeLimit* limit, absl::Duration most, const char* why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    limit->Set(most, [self = shared_from_this(), limit, why](uint64_t wait) {
      absl::MutexLock lock(&self->mutex_);
      if (!limit->Is(wait) || self->is_done_) return;
      const absl::Status status = absl::DeadlineExceededError(why);
      // The answer may not have been read.
      self->finished_ ? CancelInCore(self->context_, status) : self->FinishOnce(status);
    });
  }
  // A read may be in progress: it ends with the call.
  void FinishOnce(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    limit_.Clear();
    if (sink_ != nullptr) sink_->Fail(status);
    Finish(ToGrpc(status));
  }

  PeerCore* const core_;
  const CallCount::Call counted_;
  grpc::CallbackServerContext* const context_;
  RequestMemory* const memory_;
  OpenCalls::Key key_;  // set by the first message
  RawRequest<peer::v1::OfferRequest> raw_;
  absl::Mutex mutex_;
  std::optional<Decoded<peer::v1::OfferRequest>> message_ ABSL_GUARDED_BY(mutex_);
  peer::v1::OfferResponse response_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<PieceSink> sink_ ABSL_GUARDED_BY(mutex_);
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;      // the sink takes a piece
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;     // nothing is read before it has taken it
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;  // the sink takes no further piece
  std::shared_ptr<void> nameless_ ABSL_GUARDED_BY(mutex_);  // its place until it is added
  bool added_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_caches_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  TimeLimit whole_ ABSL_GUARDED_BY(mutex_);
  TimeLimit limit_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<OfferCall> self_;  // keeps this object alive until OnDone
};

}  // namespace

grpc::ServerBidiReactor<RawRequest<peer::v1::OfferRequest>, peer::v1::OfferResponse>* NewOfferCall(
    grpc::CallbackServerContext* context, PeerCore* core, RequestMemory* memory) {
  const auto call = std::make_shared<OfferCall>(context, core, memory);
  OfferCall* const reactor = call.get();
  call->Begin();
  return reactor;
}

}  // namespace longstream
