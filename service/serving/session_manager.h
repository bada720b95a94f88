// The service without its wire: sessions are opened, forked, closed, expired and found, and turns
// are made for them. gRPC handlers translate to this.
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
#include "service/serving/model_registry.h"
#include "service/serving/turn_handle.h"
#include "service/sessions/session.h"
#include "service/sessions/session_table.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

// Thread-safe. Nothing here blocks, except Drain and the destructor. Longer work answers through
// its callback, which runs on an engine thread and must not block either.
//
// Several callers may use one id at the same time. Each of them gets the answer that it would get
// if the calls came one after the other:
//   - A session is in the table from Open or Fork on. It is leased until it has its caches, so a
//     turn or a fork of it is ABORTED until then.
//   - A fork takes the lease of its source. It is NOT_FOUND if the source is closed before the copy
//     is made.
//   - Close wins at once: no turn, fork or expiry begins after it, and the id is free for another
//     session. A turn that began before is CANCELLED, and so is an Open or Fork that was making
//     this session.
//   - Exactly one Close succeeds; it answers when the caches are freed.
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

  absl::StatusOr<SessionView> View(const SessionId& id) const;

  // A turn of the session, to be leased and started. NOT_FOUND: no such session; UNAVAILABLE: its
  // model has failed.
  absl::StatusOr<NewTurn> TurnOf(const SessionId& id) const;
  // A turn without a session, to score a text with `model`. NOT_FOUND, UNAVAILABLE: as
  // ModelRegistry::Find; UNIMPLEMENTED: its backend cannot score.
  absl::StatusOr<NewTurn> ScoreWith(std::string_view model) const;

  std::vector<SessionView> List(const std::optional<SessionId>& after, size_t limit,
                                std::string_view model) const;

  // Refuses new sessions and turns with UNAVAILABLE, lets running turns finish for `grace`, then
  // ends them. Blocks until no turn is left.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<TurnLease> MakeSession(const Engine& engine, std::optional<SessionId> id,
                                        const char* id_field,
                                        std::optional<absl::Duration> idle_timeout);
  // Answers with the session once it is made; if that fails, takes it out of the table.
  Engine::Done WhenMade(std::shared_ptr<Session> session, Opened opened);
  size_t NumTurns() const;
  // Takes a closed session out of the table and frees its caches.
  void Release(const std::shared_ptr<Session>& session, Closed closed);
  // Closes sessions whose idle time-out has passed, until the manager is destroyed.
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
