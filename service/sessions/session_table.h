// The table of all sessions of the process, by tenant and id.
#ifndef LONGSTREAM_SERVICE_SESSIONS_SESSION_TABLE_H_
#define LONGSTREAM_SERVICE_SESSIONS_SESSION_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/sessions/session.h"

namespace longstream {

// The sessions that a list has: those with this model and this alias. Empty: with any.
struct SessionFilter {
  std::string model;
  std::string alias;

  bool Takes(const std::string& of_model, const std::string& of_alias) const {
    return (model.empty() || model == of_model) && (alias.empty() || alias == of_alias);
  }
};

// A part of a list of sessions, in the order of their ids.
struct SessionPage {
  absl::Status status;  // an error: the store was not read, and sessions may be missing
  std::vector<SessionView> sessions;
  std::optional<SessionId>
      next;  // the next page begins after this id; absent: this is the last one
};

// Thread-safe. Sessions are shared: the table, a running turn and the mailbox of the engine may
// hold the same session. The engine frees the caches of a session. Destroying the last pointer to a
// session does not free them.
class SessionTable {
 public:
  // `max_sessions`: Insert fails with RESOURCE_EXHAUSTED beyond it. 0: no limit.
  explicit SessionTable(size_t max_sessions) : max_sessions_(max_sessions) {}

  // ALREADY_EXISTS: the tenant of the session uses its id. The message names `field`, the request's
  // field with the id.
  absl::Status Insert(std::shared_ptr<Session> session, const char* field = "session_id")
      ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_FOUND: the tenant has no session with this id. The message names the id.
  absl::StatusOr<std::shared_ptr<Session>> Find(const SessionKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes this session. Does nothing if its id is free or names another session.
  void Remove(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns up to `limit` sessions of a tenant with ids greater than `after`, in the order of their
  // ids.
  std::vector<std::shared_ptr<Session>> List(const std::string& tenant,
                                             const std::optional<SessionId>& after, size_t limit,
                                             const SessionFilter& filter) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the sessions for which Session::Expired is true.
  std::vector<std::shared_ptr<Session>> Expired(MonotonicTime now, absl::Duration most_idle) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t max_size() const { return max_sessions_; }
  // How often Insert has had no place.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  const size_t max_sessions_;
  std::atomic<uint64_t> refused_{0};
  mutable absl::Mutex mutex_;
  std::map<SessionKey, std::shared_ptr<Session>> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SESSIONS_SESSION_TABLE_H_
