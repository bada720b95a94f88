#include "tests/service/fleet/network.h"

#include <string>
#include <utility>
#include <variant>

namespace longstream::fleet {

void Network::Join(const ReplicaName& name, PeerEvents* events) {
  const absl::MutexLock lock(&mutex_);
  replicas_[name] = events;
}

void Network::Leave(const ReplicaName& name) {
  const absl::MutexLock lock(&mutex_);
  replicas_.erase(name);
}

void Network::Deliver(std::function<void()> message) {
  if (faulty_ && dice_.Chance(0.1)) return;
  const absl::Duration most =
      faulty_ && dice_.Chance(0.1) ? absl::Milliseconds(200) : absl::Milliseconds(2);
  timers_.Set(MonotonicTime::Now() + dice_.Time(most), std::move(message));
}

void Network::Send(const ReplicaName& from, const ReplicaName& to, const PeerMessage& message) {
  MayBreak(from, to, message);
  const int times = faulty_ && dice_.Chance(0.1) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    Deliver([this, from, to, message] {
      const absl::MutexLock lock(&mutex_);
      const auto found = replicas_.find(to);
      if (found != replicas_.end()) found->second->MessageArrived(from, message);
    });
  }
}

// The call of the giving breaks off, whether the message has come or not.
void Network::MayBreak(const ReplicaName& from, const ReplicaName& to, const PeerMessage& message) {
  const auto* given = std::get_if<Given>(&message);
  const auto* offer = std::get_if<Offer>(&message);
  if ((given == nullptr && offer == nullptr) || !faulty_ || !dice_.Chance(0.2)) return;
  const Number request = given != nullptr ? given->request : offer->request;
  timers_.Set(MonotonicTime::Now() + dice_.Time(absl::Milliseconds(20)), [this, from, to, request] {
    const absl::MutexLock lock(&mutex_);
    const auto found = replicas_.find(from);
    if (found != replicas_.end()) found->second->GivingBroken(to, request);
  });
}

void Network::SendCaches(const ReplicaName& from, const ReplicaName& to, Number request,
                         std::shared_ptr<CacheReader> caches) {
  Deliver([this, stream = Stream{from, to, request}, caches = std::move(caches)] {
    Receiver receiver;
    {
      const absl::MutexLock lock(&mutex_);
      const auto found = receivers_.find(stream);
      if (found == receivers_.end()) {
        sent_[stream] = caches;
        return;
      }
      receiver = std::move(found->second);
      receivers_.erase(found);
    }
    Copy(caches, receiver);
  });
}

void Network::ReceiveCaches(const ReplicaName& from, const ReplicaName& to, Number request,
                            Peers::BeginCaches begin,
                            std::function<void(const absl::Status&)> arrived) {
  const Stream stream{from, to, request};
  Receiver receiver{std::move(begin), std::move(arrived)};
  std::shared_ptr<CacheReader> caches;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = sent_.find(stream);
    if (found == sent_.end()) {
      receivers_[stream] = std::move(receiver);
      return;
    }
    caches = std::move(found->second);
    sent_.erase(found);
  }
  Deliver([caches, receiver] { Copy(caches, receiver); });
}

void Network::Copy(const std::shared_ptr<CacheReader>& caches, const Receiver& receiver) {
  if (caches == nullptr) {
    receiver.arrived(absl::NotFoundError("there are no caches after all"));
    return;
  }
  receiver.begin(caches->header(), [caches, arrived = receiver.arrived](
                                       absl::StatusOr<std::shared_ptr<CacheWriter>> writer) {
    if (!writer.ok()) {
      arrived(writer.status());
      return;
    }
    std::string bytes;
    absl::Status status = caches->Read(size_t{1} << 20, &bytes);
    if (status.ok()) status = (*writer)->Write(bytes);
    if (status.ok()) status = (*writer)->Finish();
    arrived(status);
  });
}

}  // namespace longstream::fleet
