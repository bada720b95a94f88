// A session: the tokens of one conversation, their caches, and the lease that gives the right to
// use them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_H_

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/host_memory/host_memory.h"
#include "service/routing/route_choice.h"
#include "service/security/tenants/tenant.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_key.h"
#include "service/sessions/session_state.h"
#include "service/sessions/stored_caches.h"

namespace longstream {

// Memory that one session holds, in bytes.
struct SessionBytes {
  uint64_t kv = 0;  // kv, window and state are in the device's memory
  uint64_t window = 0;
  uint64_t state = 0;
  uint64_t host = 0;  // tokens and conversation, with what it shares with forks
};

// The public state of a session at one moment. Any thread may ask for it.
struct SessionView {
  SessionId id;
  std::string model;
  std::string alias;  // by which the client has opened the session; empty: by its model
  // Why the route of the alias has chosen the model. nullptr: it has no route, the session is a
  // fork, or it was restored from the store.
  std::shared_ptr<const RouteDecision> routing;
  uint64_t position = 0;  // tokens in the history
  uint64_t context_limit = 0;
  bool turn_running = false;
  SessionBytes bytes;
  absl::Time create_time;  // create_time and last_use_time are shown to people
  absl::Time last_use_time;
  absl::Duration idle_timeout;
  std::optional<SessionId> forked_from;
  bool durable = false;  // the session is in the store
  // Tokens of the history that the next turn computes again.
  uint64_t recompute_tokens = 0;
  // Absent in what Session::View returns; SessionTurns::Describe sets them.
  uint64_t version = 0;
  std::optional<absl::Duration> ttl;  // also absent if the session is not in the store
  std::optional<SessionId> head_turn;
  uint64_t stored_bytes = 0;  // SessionManager::ShowSession sets it
  // In a fleet, the replica that has the session, if it is another one. Then `bytes`,
  // `turn_running` and `recompute_tokens` are not known.
  std::string owner;
  // The lease of `owner` is over: no replica has the session until the next call takes it.
  bool owner_ended = false;
};

// The public functions are thread-safe, except caches().
//
// Only the holder of the session's lease (TurnLease) has access to its state, except for
// CopyTokens. There is one lease at a time. TurnLease::OfNewSession makes sessions.
class Session {
 public:
  ~Session() {
    assert(!caches_.sequence.valid() && caches_.return_points.empty());
    GivePlaceBack();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionKey& key() const { return key_; }
  const SessionId& id() const { return key_.id; }
  // The tenant that has the session. nullptr: none, in tests of the engine.
  const std::shared_ptr<Tenant>& tenant() const { return tenant_; }
  // The tenant's place among all tenants.
  size_t tenant_index() const { return tenant_ == nullptr ? 0 : tenant_->index(); }
  const std::string& model() const { return model_; }
  uint64_t context_limit() const { return context_limit_.load(std::memory_order_relaxed); }

  SessionView View() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Only the engine thread may call these. When a session is open, only the engine thread changes
  // its state, so it may read the state without the lease.
  SessionCaches& caches() { return caches_; }
  // The caches' part of the tenant's quota of bytes. ChargeCaches counts the caches as they are.
  CacheCharge& cache_charge() { return cache_charge_; }
  void ChargeCaches();
  const SessionState& state() const { return state_; }
  // The caches in the store. nullptr: there are none.
  StoredCaches* stored_caches() const { return stored_caches_.get(); }
  // Call it before the engine knows the session.
  void SetStoredCaches(std::shared_ptr<StoredCaches> stored) { stored_caches_ = std::move(stored); }

  // Where the memory of the session is counted. May be nullptr.
  HostMemory* host_memory() const { return host_charge_.memory(); }

  // Counts the session in its tenant's quota of sessions, until GivePlaceBack or the destructor.
  // Errors as for Tenant::TakeSession. Call it before another thread can find the session.
  absl::Status TakePlace();
  void GivePlaceBack();
  // The session is in the store, whose row counts from now on.
  void LeavePlaceToStore();

  // Sets the host's memory that the records of its turns hold. Their owner has charged it.
  void SetTurnBytes(uint64_t bytes) { turn_bytes_.store(bytes, std::memory_order_relaxed); }

  // Updates the bytes that View reports: the caches are freed. Only the engine thread may call it.
  void PublishEviction() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the session is leased, and when it was used last.
  struct Use {
    bool leased = false;
    MonotonicTime last;
  };
  Use LastUse() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Copies the tokens, without the lease: calls that read a session do not disturb each other, and
  // a turn that begins meanwhile waits for the copy. ABORTED: the session is leased. NOT_FOUND: it
  // is closed.
  absl::StatusOr<std::vector<int32_t>> CopyTokens() ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the session: no turn begins after this. Returns true for the first caller only.
  bool Close() ABSL_LOCKS_EXCLUDED(mutex_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether no turn is running, no call awaits the session (AwaitedSession), and the session has
  // been idle for longer than its timeout or than `most_idle`.
  bool Expired(MonotonicTime now, absl::Duration most_idle = absl::InfiniteDuration()) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the session if it has expired. Returns whether this call closed it.
  bool CloseIfExpired(MonotonicTime now, absl::Duration most_idle = absl::InfiniteDuration())
      ABSL_LOCKS_EXCLUDED(mutex_);

  void set_forked_from(SessionId source) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetDurable() ABSL_LOCKS_EXCLUDED(mutex_);
  // The session was read from the store.
  void SetRestored(absl::Time create_time, absl::Time last_use_time,
                   std::optional<SessionId> forked_from) ABSL_LOCKS_EXCLUDED(mutex_);

  // The alias that the client has named. Set it before another thread can find the session.
  void set_alias(std::string alias) ABSL_LOCKS_EXCLUDED(mutex_);
  const std::string& alias() const { return alias_; }
  // Used like set_alias. nullptr: no route has chosen the model.
  void set_routing(std::shared_ptr<const RouteDecision> routing) ABSL_LOCKS_EXCLUDED(mutex_);
  const std::shared_ptr<const RouteDecision>& routing() const { return routing_; }

  // The session belongs to this engine from now on, whose model has this context. Call it before
  // another thread can find the session, or with its lease.
  void MoveTo(const void* engine, uint64_t context_limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // ABORTED: the session has moved to another engine than this one. Call it with the lease.
  absl::Status CheckHome(const void* engine) const;
  // ABORTED: the session has moved to another engine.
  absl::Status HasMoved() const;

  // The request that made the session, for a repeat of the request. Set it before another thread
  // can find the session.
  void set_origin(std::string origin) { origin_ = std::move(origin); }
  const std::string& origin() const { return origin_; }

 private:
  friend class AwaitedSession;
  friend class TurnLease;

  // Makes a session that is leased.
  Session(SessionId id, std::string model, uint64_t context_limit, absl::Duration idle_timeout,
          HostMemory* host_memory, std::shared_ptr<Tenant> tenant);

  // Called by TurnLease, which explains these functions.
  absl::Status TakeTurn(std::optional<uint64_t> expected_position) ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeUnused() ABSL_LOCKS_EXCLUDED(mutex_);
  // `is_use`: the idle time counts from now.
  void ReturnTurn(bool is_use) ABSL_LOCKS_EXCLUDED(mutex_);
  void Publish() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ChargeNew(const SessionState* source);
  void CountHost();
  uint64_t NameBytes() const;  // of the origin, the alias and its routing
  SessionBytes Bytes() const;
  uint64_t RecomputeTokens() const;

  // Called by AwaitedSession.
  void Await() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAwait() ABSL_LOCKS_EXCLUDED(mutex_);

  bool ExpiredLocked(MonotonicTime now, absl::Duration most_idle) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void MarkUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Tenant> tenant_;  // shared, because the session may outlive the server
  const SessionKey key_;
  std::atomic<bool> has_place_{false};  // in the tenant's quota
  const std::string model_;
  std::atomic<uint64_t> context_limit_;
  std::atomic<const void*> home_{nullptr};
  std::string origin_;
  std::string alias_;
  std::shared_ptr<const RouteDecision> routing_;

  SessionState state_;        // only the holder of the lease uses it; see state()
  SessionCaches caches_;      // only the engine thread uses it
  CacheCharge cache_charge_;  // used like caches_
  std::shared_ptr<StoredCaches> stored_caches_;  // shared with the threads that use the store
  std::atomic<uint64_t> turn_bytes_{0};
  HostCharge host_charge_;  // for state_ without its conversation; used like state_

  mutable absl::Mutex mutex_;
  bool leased_ ABSL_GUARDED_BY(mutex_) = true;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int awaited_by_ ABSL_GUARDED_BY(mutex_) = 0;      // objects AwaitedSession
  MonotonicTime last_use_ ABSL_GUARDED_BY(mutex_);  // the idle time counts from here
  SessionView view_ ABSL_GUARDED_BY(mutex_);
};

// A call has found the session and will take its lease. The session does not expire meanwhile; it
// may be closed. Movable.
class AwaitedSession {
 public:
  AwaitedSession() = default;
  // `session`: nullptr: as the default.
  explicit AwaitedSession(std::shared_ptr<Session> session) : session_(std::move(session)) {
    if (session_ != nullptr) session_->Await();
  }
  ~AwaitedSession() { End(); }
  AwaitedSession(AwaitedSession&& other) noexcept = default;
  AwaitedSession& operator=(AwaitedSession&& other) noexcept {
    if (this != &other) {
      End();
      session_ = std::move(other.session_);
    }
    return *this;
  }

 private:
  void End() {
    if (session_ != nullptr) std::exchange(session_, nullptr)->EndAwait();
  }

  std::shared_ptr<Session> session_;  // shared, because it may leave the table meanwhile
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
