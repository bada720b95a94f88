// A session: the tokens of one conversation, their caches, and the lease that gives the right to
// use them.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_H_

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/host_memory/host_memory.h"
#include "service/sessions/session_id.h"
#include "service/sessions/session_state.h"

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
  uint64_t position = 0;  // tokens in the history
  uint64_t context_limit = 0;
  bool turn_running = false;
  SessionBytes bytes;
  absl::Time create_time;  // create_time and last_use_time are shown to people
  absl::Time last_use_time;
  absl::Duration idle_timeout;
  std::optional<SessionId> forked_from;
};

// The public functions are thread-safe, except caches().
//
// Only the holder of the session's lease (TurnLease) has access to its state. There is one lease at
// a time. TurnLease::OfNewSession makes sessions.
class Session {
 public:
  ~Session() { assert(!caches_.sequence.valid()); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionId& id() const { return id_; }
  const std::string& model() const { return model_; }
  uint64_t context_limit() const { return context_limit_; }

  SessionView View() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Only the engine thread may call this.
  SessionCaches& caches() { return caches_; }

  // Where the memory of the session is counted. May be nullptr.
  HostMemory* host_memory() const { return host_charge_.memory(); }

  // Closes the session: no turn begins after this. Returns true for the first caller only.
  bool Close() ABSL_LOCKS_EXCLUDED(mutex_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether no turn is running and the session has been idle for longer than its timeout.
  bool Expired(MonotonicTime now) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the session if it has expired. Returns whether this call closed it.
  bool CloseIfExpired(MonotonicTime now) ABSL_LOCKS_EXCLUDED(mutex_);

  void set_forked_from(SessionId source) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class TurnLease;

  // Makes a session that is leased.
  Session(SessionId id, std::string model, uint64_t context_limit, absl::Duration idle_timeout,
          HostMemory* host_memory);

  // Called by TurnLease, which explains these functions.
  absl::Status TakeTurn(std::optional<uint64_t> expected_position) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReturnTurn() ABSL_LOCKS_EXCLUDED(mutex_);
  void Publish() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status ChargeNew(const SessionState* source);
  void CountHost();
  SessionBytes Bytes() const;

  bool ExpiredLocked(MonotonicTime now) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void MarkUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionId id_;
  const std::string model_;
  const uint64_t context_limit_;

  SessionState state_;      // only the holder of the lease uses it
  SessionCaches caches_;    // only the engine thread uses it
  HostCharge host_charge_;  // for state_ without its conversation; used like state_

  mutable absl::Mutex mutex_;
  bool leased_ ABSL_GUARDED_BY(mutex_) = true;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime last_use_ ABSL_GUARDED_BY(mutex_);  // the idle time counts from here
  SessionView view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
