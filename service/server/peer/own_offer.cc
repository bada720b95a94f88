// Offers a session to a peer, and sends its caches.
#include <memory>
#include <optional>
#include <utility>

#include "service/server/peer/caches/piece_source.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"

namespace longstream {
namespace {

// A read waits for the answer, and then for the end of the call, all the time.
class OfferToPeer final
    : public HeldCall<grpc::ClientBidiReactor<peer::v1::OfferRequest, peer::v1::OfferResponse>> {
 public:
  OfferToPeer(PeerCore* core, const PeerLine& line, const fleet::Offer& offer)
      : HeldCall(core, line, offer.request, core->limits().call_timeout), offer_(offer) {
    *request_.mutable_offer() = ToProto(line.self, offer);
  }

  absl::Status Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    absl::Status status = Add(OpenCalls::Kind::kOffer, offer_.session);
    if (!status.ok()) return status;
    stub_->async()->Offer(&context_, this);
    AddHold();
    // A replica that has gone must not hold up a drain: other peers can take the session.
    Limit(core_->limits().connect_timeout);
    StartRead(&response_);
    if (offer_.has_caches) {
      StartWrite(&request_);
    } else {
      last_ = true;
      StartWriteLast(&request_, grpc::WriteOptions());
    }
    StartCall();
    return absl::OkStatus();
  }

  void SendCaches(const std::shared_ptr<fleet::CacheReader>& caches) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!held_ || answered_ || !offer_.has_caches || sending_) return;
    sending_ = true;
    if (caches != nullptr) {
      source_ =
          std::make_shared<PieceSource>(&core_->threads(), caches, core_->limits().piece_bytes);
    }
    if (offered_) SendNext();
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!ok || !held_ || answered_) return;  // the read says how the call goes on
    const bool is_first = !std::exchange(offered_, true);
    if (last_) {
      if (is_first) Limit(core_->limits().taking_timeout);
    } else if (sending_) {
      SendNext();
    } else {
      Limit(core_->limits().answer_timeout);
    }
  }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<fleet::PeerMessage> answer;
    {
      absl::MutexLock lock(&mutex_);
      if (!ok || !held_) return LetGo();
      if (!answered_) answer = AnswerIn(response_);
      // No answer, or more than one.
      if (!answer.has_value()) return Stop();
      answered_ = true;
      Limit(core_->limits().answer_timeout);
      StartRead(&response_);  // the end
    }
    core_->Deliver(key_.peer, *std::move(answer));
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    core_->calls().Remove(key_);
    bool refused = false, broken = false;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      source_.reset();
      refused = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
      broken = wanted_ && !answered_;
    }
    if (broken) core_->TellRefused(key_, FromGrpc(status));
    if (broken && !refused) core_->TellBroken(key_);
    if (broken && refused) {
      core_->Deliver(key_.peer,
                     fleet::Refused{offer_.session, offer_.request, fleet::Refusal::kNotTaken});
    }
    const auto self = std::move(self_);  // destroyed last
  }

 private:
  std::optional<fleet::PeerMessage> AnswerIn(const peer::v1::OfferResponse& response) const {
    if (response.has_refused()) {
      return RefusedFrom(response.refused(), offer_.session, offer_.request,
                         fleet::Refusal::kNotTaken);
    }
    if (!response.has_taken() || response.taken().epoch() < 1) return std::nullopt;
    return fleet::Moved{.session = offer_.session, .epoch = response.taken().epoch()};
  }

  // Without a source the caches end here, incomplete: the peer then reads the log.
  void SendNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (source_ == nullptr) return EndPieces();
    limit_.Clear();  // this replica's own reading has no limit but that of the call
    std::optional<PieceSource::Piece> piece =
        source_->Next([this, self = shared_from_this()](PieceSource::Piece read) {
          absl::MutexLock lock(&mutex_);
          if (held_ && !answered_) Write(std::move(read));
        });
    if (piece.has_value()) Write(*std::move(piece));
  }
  void Write(PieceSource::Piece piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!piece.ok()) return EndPieces();
    *request_.mutable_piece() = *std::move(piece);
    if (request_.piece().has_end()) return WriteLast();
    Limit(core_->limits().piece_timeout);
    StartWrite(&request_);
  }
  void WriteLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    last_ = true;
    Limit(core_->limits().taking_timeout);
    StartWriteLast(&request_, grpc::WriteOptions());
  }
  void EndPieces() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    last_ = true;
    Limit(core_->limits().taking_timeout);
    StartWritesDone();
  }

  const fleet::Offer offer_;
  peer::v1::OfferRequest request_;
  peer::v1::OfferResponse response_;
  std::shared_ptr<PieceSource> source_ ABSL_GUARDED_BY(mutex_);
  bool offered_ ABSL_GUARDED_BY(mutex_) = false;  // the first message was sent
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;  // SendCaches was called
  bool last_ ABSL_GUARDED_BY(mutex_) = false;     // the last message is being sent, or was
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::Status BeginOffer(PeerCore* core, const PeerLine& line, const fleet::Offer& offer) {
  return std::make_shared<OfferToPeer>(core, line, offer)->Begin();
}

}  // namespace longstream
