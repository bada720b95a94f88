// Finds the call that a message belongs to, or begins it.
#include "service/server/peer/peer_client.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// The stream of a turn that could not be asked for.
class NoStream final : public RelayedStream {
 public:
  void Next() override {}
  void Cancel() override {}
};

}  // namespace

PeerClient::PeerClient(Options options)
    : channels_(std::move(options.channels)), core_(options.limits) {}

PeerClient::~PeerClient() {
  for (const std::shared_ptr<OpenCall>& call : core_.calls().Close()) {
    call->End(absl::UnavailableError("the replica is shutting down"));
  }
  core_.count().WaitUntilNone(MonotonicTime::InfiniteFuture());
}

void PeerClient::SetSelf(const fleet::ReplicaName& self) {
  absl::MutexLock lock(&mutex_);
  self_ = self;
}

void PeerClient::SetReplicas(const std::vector<fleet::Replica>& replicas) {
  for (const fleet::ReplicaName& gone : channels_.Set(replicas)) {
    for (const std::shared_ptr<OpenCall>& call : core_.calls().CallsTo(gone)) {
      call->End(absl::UnavailableError(absl::StrCat("the lease of ", gone, " is over")));
    }
  }
}

PeerLine PeerClient::LineTo(const fleet::ReplicaName& peer) const {
  PeerLine line{{}, peer, channels_.Find(peer), channels_.Token()};
  absl::MutexLock lock(&mutex_);
  line.self = self_;
  if (self_.empty()) line.channel = nullptr;
  return line;
}

void PeerClient::Send(const fleet::ReplicaName& to, const fleet::PeerMessage& message) {
  std::visit([&](const auto& one) { SendTo(to, one); }, message);
}

void PeerClient::SendTo(const fleet::ReplicaName& to, const fleet::Fetch& fetch) {
  const PeerLine line = LineTo(to);
  if (line.channel != nullptr && BeginFetch(&core_, line, fetch).ok()) return;
  core_.DeliverLater(to, fleet::Refused{fetch.session, fetch.request, fleet::Refusal::kNotYet});
}

void PeerClient::SendTo(const fleet::ReplicaName& to, const fleet::Offer& offer) {
  const PeerLine line = LineTo(to);
  if (line.channel != nullptr && BeginOffer(&core_, line, offer).ok()) return;
  core_.DeliverLater(to, fleet::Refused{offer.session, offer.request, fleet::Refusal::kNotTaken});
}

void PeerClient::SendTo(const fleet::ReplicaName& to, const fleet::Given& given) {
  const std::shared_ptr<OpenCall> call = core_.calls().Find({to, given.request});
  if (call != nullptr && call->Answer(given)) return;
  core_.TellBrokenLater({to, given.request});  // the peer has gone, or waits no longer
}

void PeerClient::SendTo(const fleet::ReplicaName& to, const fleet::Refused& refused) {
  const std::shared_ptr<OpenCall> call = core_.calls().Find({to, refused.request});
  if (call != nullptr) call->Answer(refused);
}

void PeerClient::SendTo(const fleet::ReplicaName& to, const fleet::Moved& moved) {
  if (!moved.closed) {
    const std::shared_ptr<OpenCall> offer = core_.calls().FindOffer(to, moved.session);
    if (offer != nullptr && offer->Answer(moved)) return;
  }
  const PeerLine line = LineTo(to);
  if (line.channel != nullptr) BeginNotify(&core_, line, kOther | last_other_.fetch_add(1), moved);
}

void PeerClient::SendCaches(const fleet::ReplicaName& to, fleet::Number request,
                            std::shared_ptr<fleet::CacheReader> caches) {
  const std::shared_ptr<OpenCall> call = core_.calls().Find({to, request});
  if (call != nullptr) call->SendCaches(caches);
}

void PeerClient::ReceiveCaches(const fleet::ReplicaName& from, fleet::Number request,
                               BeginCaches begin,
                               std::function<void(const absl::Status&)> arrived) {
  const auto sink =
      std::make_shared<PieceSink>(&core_.threads(), std::move(begin), std::move(arrived));
  const std::shared_ptr<OpenCall> call = core_.calls().Find({from, request});
  if (call != nullptr && call->ReceiveCaches(sink)) return;
  sink->Fail(absl::UnavailableError("the call with the caches has ended"));
}

void PeerClient::Forget(const fleet::ReplicaName& peer, fleet::Number request) {
  const std::shared_ptr<OpenCall> call = core_.calls().Find({peer, request});
  if (call != nullptr) call->End(absl::AbortedError("the replica does not need the call any more"));
}

std::shared_ptr<RelayedStream> PeerClient::Relay(RelayRequest request) {
  const auto on_end = request.on_end;
  const PeerLine line = LineTo(request.peer);
  absl::Status status =
      absl::UnavailableError(absl::StrCat("the replica ", request.peer, " cannot be reached"));
  if (line.channel != nullptr) {
    const fleet::Number number = kOther | last_other_.fetch_add(1);
    absl::StatusOr<std::shared_ptr<RelayedStream>> relay =
        BeginRelay(&core_, line, number, std::move(request));
    if (relay.ok()) return *std::move(relay);
    status = absl::UnavailableError(relay.status().message());  // the client's request may succeed
  }
  core_.timers().Set(MonotonicTime::Now(), [on_end, status] { on_end(status); });
  return std::make_shared<NoStream>();
}

void PeerClient::CancelTurn(const fleet::ReplicaName& peer, const SessionKey& session,
                            const fleet::TurnId& turn, Cancelled cancelled) {
  const PeerLine line = LineTo(peer);
  absl::Status status =
      absl::UnavailableError(absl::StrCat("the replica ", peer, " cannot be reached"));
  if (line.channel != nullptr) {
    const fleet::Number number = kOther | last_other_.fetch_add(1);
    const absl::Status begun = BeginCancel(&core_, line, number, session, turn, cancelled);
    if (begun.ok()) return;
    status = absl::UnavailableError(begun.message());  // the client's request may succeed
  }
  core_.timers().Set(MonotonicTime::Now(),
                     [cancelled = std::move(cancelled), status] { cancelled(status); });
}

}  // namespace longstream
