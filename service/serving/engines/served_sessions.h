// The sessions in memory, each with its turns and with the engine that has its caches.
#ifndef LONGSTREAM_SERVICE_SERVING_ENGINES_SERVED_SESSIONS_H_
#define LONGSTREAM_SERVICE_SERVING_ENGINES_SERVED_SESSIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/growing_pause.h"
#include "service/clock/monotonic_time.h"
#include "service/engine/engine.h"
#include "service/serving/engines/engine_uses.h"
#include "service/sessions/session.h"
#include "service/sessions/session_key.h"
#include "service/sessions/session_table.h"

namespace longstream {

class SessionTurns;

// A session in memory. The engine is that of the version of the model on which the session runs; it
// may have been stopped (Engine::Stop).
struct ServedSession {
  std::shared_ptr<Session> session;
  std::shared_ptr<SessionTurns> turns;
  std::shared_ptr<Engine> engine;
  // After a failure, the session is not moved to another engine before this.
  MonotonicTime moves_at = MonotonicTime::InfinitePast();
};

// A session that does not expire while the object exists. No move to another engine begins
// meanwhile; one may have begun (Session::CheckHome).
struct FoundSession {
  ServedSession served;
  AwaitedSession awaited;
};

// A pass over the sessions of an engine that move to another one, in rounds.
struct MovePass {
  // The next round begins here. nullptr: the pass has ended, and the next round begins another one.
  // Only compared: the session may have gone.
  const Session* next = nullptr;
  size_t begun = 0;  // moves that the latest round has begun
  size_t left = 0;   // sessions that the pass has found and that can move; those that move included
};

// Thread-safe. A session comes, leaves, is closed or gets another engine in one step. So a call
// finds either a whole ServedSession or none.
class ServedSessions {
 public:
  // `max_sessions`: as for SessionTable.
  explicit ServedSessions(size_t max_sessions) : table_(max_sessions) {}

  // Errors as for SessionTable::Insert and EngineUses::AddSession.
  absl::Status Insert(const ServedSession& served, const char* field = "session_id")
      ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_FOUND: as for SessionTable::Find.
  absl::StatusOr<ServedSession> Find(const SessionKey& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Absent: the session has left memory, or has not come yet.
  std::optional<ServedSession> Of(const Session& session) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Absent: another call has removed the session.
  std::optional<ServedSession> Remove(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);
  // Closes the session and removes it. False: another call has removed it.
  bool CloseAndRemove(Session& session) ABSL_LOCKS_EXCLUDED(mutex_);
  // The session gets another engine. False: another call has removed it, or `to` is being unloaded.
  bool Move(const Session& session, const std::shared_ptr<Engine>& to) ABSL_LOCKS_EXCLUDED(mutex_);
  // The session could not move. The pauses between failures grow from a second to a minute.
  void DelayMove(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sessions on an engine.
  struct Part {
    std::vector<ServedSession> sessions;
    const Session* next = nullptr;  // where the next part begins; nullptr: this is the last one
  };
  // Of the sessions in memory, looks at `most` from `from` on, in an order that stays, and returns
  // those on the engine. nullptr: from the first one on. The session `from` may have gone.
  Part On(const Engine& engine, const Session* from, size_t most) const ABSL_LOCKS_EXCLUDED(mutex_);
  // As the functions of SessionTable.
  std::vector<std::shared_ptr<Session>> List(const std::string& tenant,
                                             const std::optional<SessionId>& after, size_t limit,
                                             const SessionFilter& filter) const {
    return table_.List(tenant, after, limit, filter);
  }
  std::vector<std::shared_ptr<Session>> Expired(
      MonotonicTime now, absl::Duration most_idle = absl::InfiniteDuration()) const {
    return table_.Expired(now, most_idle);
  }
  size_t size() const { return table_.size(); }
  size_t max_size() const { return table_.max_size(); }
  uint64_t refused() const { return table_.refused(); }

  EngineUses& uses() const { return *uses_; }

 private:
  struct Entry {
    ServedSession served;
    GrowingPause pause{absl::Seconds(1), absl::Minutes(1)};  // after the next failure to move
  };
  std::optional<ServedSession> RemoveLocked(const Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<EngineUses> uses_ = std::make_shared<EngineUses>();  // shared with calls
  mutable absl::Mutex mutex_;
  SessionTable table_;  // changed with mutex_
  std::map<const Session*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ENGINES_SERVED_SESSIONS_H_
