// The service without gRPC: opens, forks, closes, expires and finds sessions, and makes turns for
// them. The gRPC handlers translate their calls to it.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/heap_trim.h"
#include "service/serving/model_registry.h"
#include "service/serving/turn_handle.h"
#include "service/sessions/session.h"
#include "service/sessions/session_table.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Thread-safe. Only Drain and the destructor block. Functions with longer work answer through a
// callback, which runs on an engine thread and must not block.
//
// Several callers may use one session id at the same time. Each caller gets the same answer as if
// the calls came one after the other:
//   - OpenSession and ForkSession add the new session to the table at once. Until it has its caches
//     it is leased, so a turn on it or a fork of it is ABORTED.
//   - A fork takes the lease of its source. It fails with NOT_FOUND if the source is closed before
//     the copy is made.
//   - CloseSession takes effect at once: no turn, fork or expiry of the session begins after it,
//     and the id is free for another session. A running turn is CANCELLED, and so is a call that is
//     still opening or forking this session.
//   - Exactly one CloseSession succeeds. It answers when the caches are freed.
class SessionManager {
 public:
  struct Options {
    size_t max_sessions = 0;  // 0: only memory is the limit
    absl::Duration default_idle_timeout = absl::Hours(1);
    absl::Duration max_idle_timeout = absl::Hours(24);
    // Told once a second what sessions and turns hold in the host's memory. nullptr: not told.
    // Outlives the manager.
    SessionMetrics* metrics = nullptr;
  };

  // `models` must outlive the manager. The host's memory of sessions and turns is counted in
  // models->host_memory(), and calls for which it has no room get RESOURCE_EXHAUSTED.
  SessionManager(const ModelRegistry* models, const Options& options);
  // Waits until all callbacks of earlier calls have run.
  ~SessionManager();
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  using Opened = std::function<void(absl::StatusOr<SessionView>)>;
  using Closed = std::function<void(absl::StatusOr<uint64_t> position)>;

  // Opens a session. If `id` is absent, the server draws one. If `idle_timeout` is absent, the
  // default applies.
  void OpenSession(std::string_view model, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void ForkSession(const SessionId& source, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void CloseSession(const SessionId& id, Closed closed);

  absl::StatusOr<SessionView> View(const SessionId& id) const;

  // Makes a turn for the session; the caller has to lease and start it. NOT_FOUND: no session has
  // this id. UNAVAILABLE: the model has failed.
  absl::StatusOr<NewTurn> TurnOf(const SessionId& id) const;
  // Makes a turn that scores a text with `model`, without a session. NOT_FOUND, UNAVAILABLE: as for
  // ModelRegistry::Find. UNIMPLEMENTED: the model's backend cannot score.
  absl::StatusOr<NewTurn> ScoreWith(std::string_view model) const;

  std::vector<SessionView> List(const std::optional<SessionId>& after, size_t limit,
                                std::string_view model) const;

  // The process has freed memory that the system should get back soon.
  void NoteFreedMemory() const { heap_trim_.NoteWork(); }

  // Refuses new sessions and turns with UNAVAILABLE. Waits at most `grace` for running turns, then
  // ends the remaining ones. Blocks until no turn is left.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // `source`: the state that the session will be a copy of, or nullptr.
  absl::StatusOr<TurnLease> MakeSession(const Engine& engine, std::optional<SessionId> id,
                                        const char* id_field,
                                        std::optional<absl::Duration> idle_timeout,
                                        const SessionState* source);
  // Returns a callback for the engine. It answers with the session, or removes the session from the
  // table if the engine could not make it.
  Engine::Done WhenMade(std::shared_ptr<Session> session, Opened opened);
  size_t NumTurns() const;
  // Removes a closed session from the table and frees its caches.
  void Release(const std::shared_ptr<Session>& session, Closed closed);
  // Runs on the thread expiry_ until the manager is destroyed: sets the metrics, closes sessions
  // whose idle timeout has passed, and gives free memory of the heap back to the system (HeapTrim).
  void ExpireSessions() ABSL_LOCKS_EXCLUDED(mutex_);

  const ModelRegistry* const models_;
  const Options options_;
  SessionTable sessions_;
  mutable HeapTrim heap_trim_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread expiry_;  // the last member: starts when all others are constructed
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_
