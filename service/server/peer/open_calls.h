// The calls between this replica and its peers that have not ended.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_OPEN_CALLS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_OPEN_CALLS_H_

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/session_copies.h"
#include "service/server/peer/caches/piece_sink.h"
#include "service/server/peer/peer_limits.h"
#include "service/sessions/fleet/peer_messages.h"
#include "service/sessions/session_key.h"

namespace longstream {

// Each replica draws its numbers from 1 on, so a number of a peer may be equal to one of this
// replica. In this process, the numbers of peers have this bit.
inline constexpr fleet::Number kOfPeer = fleet::Number{1} << 63;
// Relays, cancelled turns and notices, which the state machine gives no number.
inline constexpr fleet::Number kOther = fleet::Number{1} << 62;

// A call that carries a Fetch or an Offer, on either side, or a relayed turn or a notice.
// Thread-safe. No function blocks or calls back. After the end of the call they do nothing.
class OpenCall {
 public:
  virtual ~OpenCall() = default;

  // This replica answers the peer. False: the call does not wait for this answer.
  virtual bool Answer(const fleet::PeerMessage& /*message*/) { return false; }
  // Streams the caches. Null: there are none after all.
  virtual void SendCaches(const std::shared_ptr<fleet::CacheReader>& /*caches*/) {}
  // Gives the caches that the peer streams to `sink`. False: none will come.
  virtual bool ReceiveCaches(const std::shared_ptr<PieceSink>& /*sink*/) { return false; }
  virtual void End(const absl::Status& why) = 0;
};

// Thread-safe.
class OpenCalls {
 public:
  enum class Kind { kFetch, kOffer, kRelay, kCancel, kNotice };

  struct Key {
    fleet::ReplicaName peer;
    fleet::Number number = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  explicit OpenCalls(const PeerLimits& limits) : limits_(limits) {}

  // ALREADY_EXISTS: there is a call with this key. RESOURCE_EXHAUSTED: there are too many calls.
  // UNAVAILABLE: Close was called.
  absl::Status Add(const Key& key, Kind kind, const SessionKey& session,
                   std::shared_ptr<OpenCall> call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const Key& key) ABSL_LOCKS_EXCLUDED(mutex_);

  // Null: there is none.
  std::shared_ptr<OpenCall> Find(const Key& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The last Offer of this session by the peer.
  std::shared_ptr<OpenCall> FindOffer(const fleet::ReplicaName& peer,
                                      const SessionKey& session) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Of this replica, to the peer.
  std::vector<std::shared_ptr<OpenCall>> CallsTo(const fleet::ReplicaName& peer) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on Add returns UNAVAILABLE. Returns the calls that are open.
  std::vector<std::shared_ptr<OpenCall>> Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Kind kind;
    SessionKey session;
    std::shared_ptr<OpenCall> call;
  };

  absl::Status CheckRoom(const Key& key, Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PeerLimits limits_;
  mutable absl::Mutex mutex_;
  std::map<Key, Entry> calls_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_OPEN_CALLS_H_
