// The service without its wire: sessions opened, forked, closed and expired, and turns sent to the
// engine of their model. What gRPC handlers translate to.
#ifndef LONGSTREAM_SERVICE_SCHEDULER_DISPATCHER_H_
#define LONGSTREAM_SERVICE_SCHEDULER_DISPATCHER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/scheduler/model_set.h"
#include "service/scheduler/turn.h"
#include "service/session/session_table.h"

namespace longstream {

// Thread-safe. Nothing here blocks; what takes time answers through its callback, which runs on an
// engine thread and must not block either.
class Dispatcher {
 public:
  struct Options {
    size_t max_sessions = 0;  // 0: no limit but memory
    absl::Duration default_idle_timeout = absl::Hours(1);
    absl::Duration max_idle_timeout = absl::Hours(24);
  };

  // `models` outlives the dispatcher.
  Dispatcher(const ModelSet* models, const Options& options);
  // Waits for the callbacks of everything that was asked for.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  using Opened = std::function<void(absl::StatusOr<SessionView>)>;
  using Closed = std::function<void(absl::StatusOr<uint64_t> position)>;

  // `id` absent: drawn. `idle_timeout` absent: the default.
  void OpenSession(std::string_view model, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void ForkSession(const SessionId& source, std::optional<SessionId> id,
                   std::optional<absl::Duration> idle_timeout, Opened opened);
  void CloseSession(const SessionId& id, Closed closed);

  absl::StatusOr<std::shared_ptr<Session>> Find(const SessionId& id) const;
  std::vector<SessionView> List(const std::optional<SessionId>& after, size_t limit,
                                std::string_view model) const;

  // Starts a turn on its session's model; see Engine::Start. For kScore `model` names it.
  absl::Status StartTurn(std::shared_ptr<Turn> turn, std::string_view model = {});
  // To be called after Turn::Cancel, AddInput and CloseInput.
  void WakeTurn(const Turn& turn, std::string_view model = {});

  // Refuses new sessions and turns with UNAVAILABLE, lets running turns finish for `grace`, then
  // ends them. Blocks until no turn is left.
  void Drain(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<std::shared_ptr<Session>> MakeSession(const Engine& engine,
                                                       std::optional<SessionId> id,
                                                       std::optional<absl::Duration> idle_timeout);
  absl::StatusOr<std::shared_ptr<Engine>> EngineOf(const Turn& turn, std::string_view model) const;
  size_t NumTurns() const;
  // Takes a closed session out of the table and frees its caches.
  void Release(const std::shared_ptr<Session>& session, Closed closed);
  // Closes sessions whose idle time-out has passed, until the dispatcher goes.
  void ExpireSessions() ABSL_LOCKS_EXCLUDED(mutex_);

  const ModelSet* const models_;
  const Options options_;
  SessionTable sessions_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread expiry_;  // last: starts when everything above stands
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SCHEDULER_DISPATCHER_H_
