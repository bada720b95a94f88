// The options of a SessionManager.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_OPTIONS_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "service/engine/turn/turn_journal.h"
#include "service/fleet/session_gate.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/aliases/alias_table.h"
#include "service/serving/log/restore.h"
#include "service/serving/session_files.h"
#include "service/sessions/session.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

struct SessionManagerOptions {
  size_t max_sessions = 0;  // 0: only memory is the limit
  absl::Duration default_idle_timeout = absl::Hours(1);
  absl::Duration max_idle_timeout = absl::Hours(24);
  // A session in the store that has been idle for longer leaves the memory if others need it.
  absl::Duration least_idle = absl::Seconds(10);
  // How long a turn with an id waits for a reader after its last one has gone.
  absl::Duration resume_window = absl::Seconds(30);
  // Other names of models. Names that this table has are not looked up among the models.
  std::shared_ptr<AliasTable> aliases = std::make_shared<AliasTable>();
  // A tap of turns that are to be replayed on this model (AliasShadow). Empty: none are.
  std::function<std::shared_ptr<AnswerTap>(const std::string& model)> shadow_tap = nullptr;
  // Told once a second what sessions and turns hold in the host's memory, and what tenants use.
  // nullptr: not told.
  // Outlives the manager.
  SessionMetrics* metrics = nullptr;
  // Where sessions are kept. nullptr: they live in memory. Both outlive the manager.
  store::SessionStore* store = nullptr;
  store::CommitQueue* commits = nullptr;
  // A fleet shares the sessions of the store: calls for them pass the gate, which outlives the
  // manager, and new rows name `owner`, this replica. nullptr: there is no fleet.
  fleet::SessionGate* gate = nullptr;
  std::string owner = {};
  // A session in the store ends when no turn has been committed for `ttl`, unless its client has
  // named another time, which is `max_ttl` at most.
  absl::Duration ttl = absl::Hours(30 * 24);
  absl::Duration max_ttl = absl::Hours(90 * 24);
  // How often sessions in the store whose time has passed are closed, and sessions there are
  // counted.
  absl::Duration look_period = absl::Minutes(1);
  // A call waits for the store no longer than this, and a turn as SessionTurns::Stored says.
  absl::Duration commit_timeout = absl::Seconds(10);
  // How long a thread that reads the store waits for an engine, or for another call that restores
  // the same session. Other calls wait for the thread meanwhile.
  absl::Duration engine_patience = absl::Seconds(5);
  RenderMessages render_messages = nullptr;  // for restored conversations
  OnModelChange on_model_change = OnModelChange::kRefuse;
  SessionFiles files = {};           // of exports and imports
  uint64_t max_transfers = 64;       // exports and imports that run
  size_t most_listed_rows = 10'000;  // List reads no more rows of the store for one page
  // A transfer ends if it has waited this long for its client to read or to send.
  absl::Duration client_timeout = absl::Minutes(5);
  // For tests: called on the thread that has restored a session, when other calls can find it.
  std::function<void(const std::shared_ptr<Session>& session)> restored = nullptr;
  // For tests: called on the thread that has found a session in memory, before the session awaits
  // the call (AwaitedSession).
  std::function<void(const std::shared_ptr<Session>& session)> found = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_MANAGER_OPTIONS_H_
