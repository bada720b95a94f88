// A peer asks this replica for a session. The state machine answers, and the caches follow.
#include <memory>
#include <optional>
#include <utility>

#include "service/server/peer/caches/piece_source.h"
#include "service/server/peer/calls_of_peers.h"
#include "service/server/peer/peer_messages.h"
#include "service/server/peer/time_limit.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

// The answer, and each piece of the caches, is written when the one before it was written. The next
// piece is read meanwhile.
class FetchCall final : public grpc::ServerWriteReactor<peer::v1::FetchResponse>,
                        public OpenCall,
                        public std::enable_shared_from_this<FetchCall> {
 public:
  FetchCall(grpc::CallbackServerContext* context, PeerCore* core, const fleet::ReplicaName& from,
            const fleet::Fetch& fetch)
      : core_(core),
        counted_(&core->count()),
        context_(context),
        key_{from, fetch.request},
        whole_(&core->timers()),
        limit_(&core->timers()) {}

  void Begin(const fleet::Fetch& fetch) ABSL_LOCKS_EXCLUDED(mutex_) {
    self_ = shared_from_this();
    const absl::Status status =
        core_->HasEvents() ? core_->calls().Add(key_, OpenCalls::Kind::kFetch, fetch.session, self_)
                           : absl::UnavailableError("the replica is starting");
    {
      absl::MutexLock lock(&mutex_);
      added_ = status.ok();
      if (!status.ok()) return Stop(status);
      Limit(&whole_, core_->limits().call_timeout, "the call has taken too long");
      Limit(&limit_, core_->limits().answer_timeout, "the replica does not answer");
    }
    core_->Deliver(key_.peer, fetch);
  }

  bool Answer(const fleet::PeerMessage& message) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (answered_ || finished_) return false;
    if (const auto* const given = std::get_if<fleet::Given>(&message)) {
      *response_.mutable_given() = ToProto(*given);
      has_caches_ = given->has_caches;
      gave_ = true;
    } else if (const auto* const refused = std::get_if<fleet::Refused>(&message)) {
      *response_.mutable_refused() = ToProto(*refused);
    } else {
      return false;
    }
    answered_ = true;
    has_caches_ ? Write() : WriteLast();
    return true;
  }

  void SendCaches(const std::shared_ptr<fleet::CacheReader>& caches) override
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (finished_ || !has_caches_ || sending_) return;
    sending_ = true;
    if (caches != nullptr) {
      source_ =
          std::make_shared<PieceSource>(&core_->threads(), caches, core_->limits().piece_bytes);
    }
    if (!writing_) SendNext();
  }

  void End(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    wanted_ = false;
    Stop(why);
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok || !why_.ok()) return FinishOnce(absl::CancelledError("the call was cancelled"));
    if (sending_) return SendNext();
    Limit(&limit_, core_->limits().answer_timeout, "the caches do not come");
  }
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
    if (!writing_) FinishOnce(absl::CancelledError("the peer does not need the call any more"));
  }
  void OnDone() override ABSL_LOCKS_EXCLUDED(mutex_) {
    bool added = false, broken = false;
    {
      absl::MutexLock lock(&mutex_);
      whole_.Clear();
      limit_.Clear();
      source_.reset();
      is_done_ = true;
      added = added_;
      broken = gave_ && wanted_ && (!wrote_all_ || is_cancelled_);
    }
    if (added) core_->calls().Remove(key_);
    if (broken) core_->TellBroken(key_);
    const std::shared_ptr<FetchCall> self = std::move(self_);  // destroyed last
  }

 private:
  void SendNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (source_ == nullptr) return EndWithout("there are no caches after all");
    limit_.Clear();  // this replica's own reading has no limit but that of the call
    std::optional<PieceSource::Piece> piece =
        source_->Next([self = shared_from_this()](PieceSource::Piece read) {
          absl::MutexLock lock(&self->mutex_);
          if (!self->finished_) self->Send(std::move(read));
        });
    if (piece.has_value()) Send(*std::move(piece));
  }
  void Send(PieceSource::Piece piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!piece.ok()) return EndWithout("the caches cannot be read");
    *response_.mutable_piece() = *std::move(piece);
    response_.piece().has_end() ? WriteLast() : Write();
  }

  // The peer goes on without the caches.
  void EndWithout(const char* why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    wrote_all_ = true;
    FinishOnce(absl::AbortedError(why));
  }

  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    Limit(&limit_, core_->limits().piece_timeout, "the peer does not read");
    StartWrite(&response_);
  }
  void WriteLast() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = wrote_all_ = true;
    source_.reset();
    Limit(&limit_, core_->limits().piece_timeout, "the peer does not read");
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }

  void Limit(TimeLimit* limit, absl::Duration most, const char* why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    limit->Set(most, [self = shared_from_this(), limit, why](uint64_t wait) {
      absl::MutexLock lock(&self->mutex_);
      if (!limit->Is(wait) || self->is_done_) return;
      const absl::Status status = absl::DeadlineExceededError(why);
      // The last message has no OnWriteDone, and may not have been read either.
      self->finished_ ? CancelInCore(self->context_, status) : self->Stop(status);
    });
  }
  void Stop(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    if (!writing_) return FinishOnce(why);
    why_ = why;
    CancelInCore(context_, why);  // OnWriteDone finishes
  }
  void FinishOnce(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    limit_.Clear();
    source_.reset();
    Finish(ToGrpc(status));
  }

  PeerCore* const core_;
  const CallCount::Call counted_;
  grpc::CallbackServerContext* const context_;
  const OpenCalls::Key key_;
  absl::Mutex mutex_;
  peer::v1::FetchResponse response_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<PieceSource> source_ ABSL_GUARDED_BY(mutex_);
  bool added_ ABSL_GUARDED_BY(mutex_) = false;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_caches_ ABSL_GUARDED_BY(mutex_) = false;
  bool gave_ ABSL_GUARDED_BY(mutex_) = false;       // the answer is Given
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;    // SendCaches was called
  bool wrote_all_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is left to write
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool wanted_ ABSL_GUARDED_BY(mutex_) = true;  // End was not called
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);  // why the call was cancelled
  TimeLimit whole_ ABSL_GUARDED_BY(mutex_);
  TimeLimit limit_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<FetchCall> self_;  // keeps this object alive until OnDone
};

}  // namespace

grpc::ServerWriteReactor<peer::v1::FetchResponse>* NewFetchCall(
    grpc::CallbackServerContext* context, PeerCore* core, const fleet::ReplicaName& from,
    const fleet::Fetch& fetch) {
  const auto call = std::make_shared<FetchCall>(context, core, from, fetch);
  FetchCall* const reactor = call.get();
  call->Begin(fetch);
  return reactor;
}

}  // namespace longstream
