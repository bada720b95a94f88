// The service without its wire: sessions opened, forked, closed, expired and found, with the engine
// that runs their turns. What gRPC handlers translate to.
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
#include "service/engine/engine.h"
#include "service/serving/model_registry.h"
#include "service/sessions/session.h"
#include "service/sessions/session_table.h"

namespace longstream {

// A session and the engine of its model, which starts its turns and is woken for them.
struct SessionRoute {
  std::shared_ptr<Session> session;
  std::shared_ptr<Engine> engine;  // shared: it outlives the turns of whoever holds it
};

// Thread-safe. Nothing here blocks; what takes time answers through its callback, which runs on an
// engine thread and must not block either.
//
// Several callers may use one id at the same time. What each of them gets is what it would have
// got had the calls come one after the other:
//   - A session is in the table from Open or Fork on, but its turn is held until it has its caches:
//     until then a turn or a fork of it is ABORTED.
//   - A fork holds the source's turn. Closed before the copy was made: NOT_FOUND.
//   - Close wins at once: no turn, fork or expiry begins after it, the id is free for another
//     session. One that began before is CANCELLED, an Open or Fork that was making this session
//     too.
//   - Exactly one Close succeeds; its answer comes when the caches are freed.
class SessionManager {
 public:
  struct Options {
    size_t max_sessions = 0;  // 0: no limit but memory
    absl::Duration default_idle_timeout = absl::Hours(1);
    absl::Duration max_idle_timeout = absl::Hours(24);
  };

  // `models` outlives the sessions.
  SessionManager(const ModelRegistry* models, const Options& options);
  // Waits for the callbacks of everything that was asked for.
  ~SessionManager();
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  using Opened = std::function<void(absl::StatusOr<SessionView>)>;
  using Closed = std::function<void(absl::StatusOr<uint64_t> position)>;

  // `id` absent: drawn. `idle_timeout` absent: the default.
  void OpenSession(std::string_view model, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void ForkSession(const SessionId& source, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void CloseSession(const SessionId& id, Closed closed);

  absl::StatusOr<std::shared_ptr<Session>> Find(const SessionId& id) const;
  // The same with its engine, on which turns are started (Engine::Start).
  absl::StatusOr<SessionRoute> Route(const SessionId& id) const;
  std::vector<SessionView> List(const std::optional<SessionId>& after, size_t limit,
                                std::string_view model) const;

  // Refuses new sessions and turns with UNAVAILABLE, lets running turns finish for `grace`, then
  // ends them. Blocks until no turn is left.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::shared_ptr<Session>> MakeSession(const Engine& engine,
                                                       std::optional<SessionId> id,
                                                       const char* id_field,
                                                       std::optional<absl::Duration> idle_timeout);
  size_t NumTurns() const;
  // Takes a closed session out of the table and frees its caches.
  void Release(const std::shared_ptr<Session>& session, Closed closed);
  // Closes sessions whose idle time-out has passed, until the sessions goes.
  void ExpireSessions() ABSL_LOCKS_EXCLUDED(mutex_);

  const ModelRegistry* const models_;
  const Options options_;
  SessionTable sessions_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread expiry_;  // last: starts when everything above stands
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_H_
