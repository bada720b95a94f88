// A map of calls by peer and number.
#include "service/server/peer/open_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

bool IsOfPeer(fleet::Number number) { return (number & kOfPeer) != 0; }

absl::Status Full(absl::string_view what, size_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " are open: ", limit, ", which is the limit"));
}

}  // namespace

absl::Status OpenCalls::CheckRoom(const Key& key, Kind kind) const {
  size_t relays = 0, cancels = 0, notices = 0, own = 0, of_peers = 0, of_peer = 0;
  for (const auto& [other, entry] : calls_) {
    if (entry.kind == Kind::kRelay) {
      ++relays;
    } else if (entry.kind == Kind::kCancel) {
      ++cancels;
    } else if (entry.kind == Kind::kNotice) {
      ++notices;
    } else if (IsOfPeer(other.number)) {
      ++of_peers;
      if (other.peer == key.peer) ++of_peer;
    } else {
      ++own;
    }
  }
  if (kind == Kind::kRelay) {
    return relays < limits_.max_relays ? absl::OkStatus() : Full("relays", limits_.max_relays);
  }
  if (kind == Kind::kCancel) {
    return cancels < limits_.max_cancels ? absl::OkStatus()
                                         : Full("calls that cancel a turn", limits_.max_cancels);
  }
  if (kind == Kind::kNotice) {
    return notices < limits_.max_notices ? absl::OkStatus() : Full("notices", limits_.max_notices);
  }
  if (!IsOfPeer(key.number)) {
    return own < limits_.max_own_calls ? absl::OkStatus()
                                       : Full("calls of this replica", limits_.max_own_calls);
  }
  if (of_peer >= limits_.max_calls_of_peer) {
    return Full("calls of this peer", limits_.max_calls_of_peer);
  }
  if (of_peers >= limits_.max_calls_of_peers) {
    return Full("calls of all peers", limits_.max_calls_of_peers);
  }
  return absl::OkStatus();
}

absl::Status OpenCalls::Add(const Key& key, Kind kind, const SessionKey& session,
                            std::shared_ptr<OpenCall> call) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError("the replica is shutting down");
  if (calls_.contains(key)) {
    return absl::AlreadyExistsError(
        absl::StrCat("request: the peer has an open call with the number ", key.number & ~kOfPeer));
  }
  if (absl::Status status = CheckRoom(key, kind); !status.ok()) return status;
  calls_.emplace(key, Entry{kind, session, std::move(call)});
  return absl::OkStatus();
}

void OpenCalls::Remove(const Key& key) {
  std::shared_ptr<OpenCall> removed;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(key);
  if (found == calls_.end()) return;
  removed = std::move(found->second.call);
  calls_.erase(found);
}

std::shared_ptr<OpenCall> OpenCalls::Find(const Key& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(key);
  return found == calls_.end() ? nullptr : found->second.call;
}

std::shared_ptr<OpenCall> OpenCalls::FindOffer(const fleet::ReplicaName& peer,
                                               const SessionKey& session) const {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<OpenCall> last;
  for (auto at = calls_.lower_bound({peer, kOfPeer}); at != calls_.end() && at->first.peer == peer;
       ++at) {
    const Entry& entry = at->second;
    if (entry.kind == Kind::kOffer && entry.session == session) last = entry.call;
  }
  return last;
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::CallsTo(const fleet::ReplicaName& peer) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<OpenCall>> calls;
  for (auto at = calls_.lower_bound({peer, 0}); at != calls_.end() && at->first.peer == peer;
       ++at) {
    if (!IsOfPeer(at->first.number)) calls.push_back(at->second.call);
  }
  return calls;
}

size_t OpenCalls::size() const {
  absl::MutexLock lock(&mutex_);
  return calls_.size();
}

std::vector<std::shared_ptr<OpenCall>> OpenCalls::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  std::vector<std::shared_ptr<OpenCall>> calls;
  calls.reserve(calls_.size());
  for (const auto& [key, entry] : calls_) calls.push_back(entry.call);
  return calls;
}

}  // namespace longstream
