// A session: the token history of one conversation and the caches that stand for it.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_H_

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/chat/history.h"
#include "service/clock/monotonic_time.h"
#include "service/models/backend_model.h"
#include "service/sessions/session_id.h"

namespace longstream {

// Device memory one session holds, in bytes.
struct SessionBytes {
  uint64_t kv = 0;
  uint64_t window = 0;
  uint64_t state = 0;
};

// What anybody may read of a session at any time.
struct SessionView {
  SessionId id;
  std::string model;
  uint64_t position = 0;  // tokens in the history
  uint64_t context_limit = 0;
  bool turn_running = false;
  SessionBytes bytes;
  absl::Time create_time;  // for people, both
  absl::Time last_use_time;
  absl::Duration idle_timeout;
  std::optional<SessionId> forked_from;
};

// Two kinds of state with two owners:
//   - what the view shows is guarded by a mutex and readable by everybody;
//   - the history and the caches belong to whoever holds the turn, which is the model's engine
//     thread from BeginTurn to EndTurn, or at first whoever prepares the turn for it and then reads
//     the history alone. They have no lock of their own. That thread alone makes and frees the
//     caches, so they are gone before the session is.
class Session {
 public:
  // A new session holds its turn until the engine has given it its caches: whoever finds it in the
  // table before that cannot use it.
  Session(SessionId id, std::string model, uint64_t context_limit, absl::Duration idle_timeout);
  ~Session() { assert(!sequence.valid()); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionId& id() const { return id_; }
  const std::string& model() const { return model_; }
  uint64_t context_limit() const { return context_limit_; }

  SessionView View() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes the turn. ABORTED while another turn runs or the session is being opened; NOT_FOUND once
  // closed; FAILED_PRECONDITION where `expected_position` is given and is not the session's
  // position.
  absl::Status BeginTurn(std::optional<uint64_t> expected_position) ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives back a turn that was taken and in which nothing was done.
  void AbandonTurn() ABSL_LOCKS_EXCLUDED(mutex_);

  // Gives the turn back and publishes what it left: the history's length and the bytes held.
  void EndTurn() ABSL_LOCKS_EXCLUDED(mutex_);

  // Publishes position and bytes while the turn goes on. Called by the holder of the turn.
  void Publish() ABSL_LOCKS_EXCLUDED(mutex_);

  // No turn begins after this. True for the first caller only.
  bool Close() ABSL_LOCKS_EXCLUDED(mutex_);
  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Idle for longer than its time-out, with no turn running.
  bool Expired(MonotonicTime now) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes it if it is expired at this moment. True where this call closed it.
  bool CloseIfExpired(MonotonicTime now) ABSL_LOCKS_EXCLUDED(mutex_);

  void set_forked_from(SessionId source) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- Owned by the holder of the turn -------------------------------------------------------

  // The history. The sequence has read a prefix of it: never its last token, so that whatever
  // comes next always has a token to read and logits to draw from.
  std::vector<int32_t> tokens;
  std::vector<bool> generated;  // per token: drawn by the model, rather than given
  Sequence sequence;
  // The conversation that the history spells; nullptr where it spells none.
  std::shared_ptr<const chat::History> conversation;  // shared with forks
  // Why the sequence stands further back than it could, for the next turn's report.
  std::string recompute_reason;
  // Tokens the sequence had read when it was last whole: what lies between its position and this
  // is computed again.
  uint64_t computed_tokens = 0;

 private:
  void PublishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ExpiredLocked(MonotonicTime now) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void MarkUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SessionId id_;
  const std::string model_;
  const uint64_t context_limit_;

  mutable absl::Mutex mutex_;
  bool turn_running_ ABSL_GUARDED_BY(mutex_) = true;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime last_use_ ABSL_GUARDED_BY(mutex_);  // what the time-out counts from
  SessionView view_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_H_
