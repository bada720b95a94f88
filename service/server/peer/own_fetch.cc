// Asks a peer for a session, and receives its caches.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/peer/client_call.h"
#include "service/server/peer/own_calls.h"
#include "service/server/peer/peer_messages.h"

namespace longstream {
namespace {

// Until the end of the caches, a message is read while the sink takes the piece before it.
class FetchFromPeer final : public HeldCall<grpc::ClientReadReactor<peer::v1::FetchResponse>> {
 public:
  FetchFromPeer(PeerCore* core, const PeerLine& line, const fleet::Fetch& fetch)
      : HeldCall(core, line, fetch.request, core->limits().call_timeout),
        fetch_(fetch),
        request_(ToProto(line.self, fetch)) {}

  absl::Status Begin() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    absl::Status status = Add(OpenCalls::Kind::kFetch, fetch_.session);
    if (!status.ok()) return status;
    stub_->async()->Fetch(&context_, &request_, this);
    AddHold();
    Limit(core_->limits().answer_timeout);
    StartRead(&response_);
    StartCall();
    return absl::OkStatus();
  }

  bool ReceiveCaches(const std::shared_ptr<PieceSink>& sink) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kGiven || !held_) return false;
    sink_ = sink;
    state_ = State::kCaches;
    ReadNext();
    return true;
  }

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<fleet::PeerMessage> answer;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      if (!ok || !held_) return LetGo();
      if (state_ == State::kAsked) {
        answer = TakeAnswer();
      } else if (state_ == State::kCaches && response_.has_piece()) {
        taking_ ? WaitForSink() : TakePiece();
      } else {
        Stop();  // the peer says more than it may
      }
    }
    if (answer.has_value()) core_->Deliver(key_.peer, *std::move(answer));
  }

  void OnDone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    core_->calls().Remove(key_);
    std::shared_ptr<PieceSink> sink;
    bool answered = false;
    {
      absl::MutexLock lock(&mutex_);
      limit_.Clear();
      answered = state_ != State::kAsked || !wanted_;
      sink.swap(sink_);
    }
    if (!answered) {
      core_->TellRefused(key_, FromGrpc(status));
      core_->Deliver(key_.peer,
                     fleet::Refused{fetch_.session, fetch_.request, fleet::Refusal::kNotYet});
    }
    if (sink != nullptr) {
      sink->Fail(absl::UnavailableError(
          absl::StrCat("the caches did not arrive: ", status.error_message())));
    }
    const auto self = std::move(self_);  // destroyed last
  }

 private:
  enum class State {
    kAsked,
    kGiven,   // caches will come; this replica does not take them yet
    kCaches,  // they are coming
    kOver,    // only the end may come
  };

  // Empty: it is no answer, and the call ends.
  std::optional<fleet::PeerMessage> TakeAnswer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (response_.has_refused()) {
      state_ = State::kOver;
      fleet::Refused refused =
          RefusedFrom(response_.refused(), fetch_.session, fetch_.request, fleet::Refusal::kNotYet);
      ReadNext();
      return refused;
    }
    absl::StatusOr<fleet::Given> given = GivenFrom(response_.given(), fetch_);
    if (!given.ok()) {
      Stop();
      return std::nullopt;
    }
    state_ = given->has_caches ? State::kGiven : State::kOver;
    if (state_ == State::kGiven) {
      Limit(core_->limits().answer_timeout);
    } else {
      ReadNext();
    }
    return *std::move(given);
  }

  void TakePiece() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    peer::v1::CachePiece piece = std::move(*response_.mutable_piece());
    taking_ = true;
    waiting_ = false;
    const bool is_end = piece.has_end();
    sink_->Take(std::move(piece),
                [this, self = shared_from_this()](PieceSink::Taken taken) { GoOn(taken); });
    is_end ? WaitForSink() : ReadNext();
  }
  void WaitForSink() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_ = true;
    Limit(core_->limits().piece_timeout);
  }

  // The sink has taken a piece.
  void GoOn(PieceSink::Taken taken) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    taking_ = false;
    if (!held_) return;
    if (taken == PieceSink::Taken::kFailed) return Stop();
    if (taken == PieceSink::Taken::kComplete) {
      state_ = State::kOver;
      ReadNext();
    } else if (waiting_) {
      TakePiece();
    }
  }

  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Limit(core_->limits().piece_timeout);
    StartRead(&response_);
  }

  const fleet::Fetch fetch_;
  const peer::v1::FetchRequest request_;
  peer::v1::FetchResponse response_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kAsked;
  std::shared_ptr<PieceSink> sink_ ABSL_GUARDED_BY(mutex_);
  bool taking_ ABSL_GUARDED_BY(mutex_) = false;   // the sink takes a piece
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is read before it has taken it
};

}  // namespace

absl::Status BeginFetch(PeerCore* core, const PeerLine& line, const fleet::Fetch& fetch) {
  return std::make_shared<FetchFromPeer>(core, line, fetch)->Begin();
}

}  // namespace longstream
