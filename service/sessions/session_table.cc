// Implements the session table with a map.
#include "service/sessions/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {

absl::Status SessionTable::Insert(std::shared_ptr<Session> session, const char* field) {
  absl::MutexLock lock(&mutex_);
  if (sessions_.contains(session->key())) {
    return absl::AlreadyExistsError(
        absl::StrCat(field, ": ", session->id().ToString(), " is in use"));
  }
  if (max_sessions_ != 0 && sessions_.size() >= max_sessions_) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(
        absl::StrCat("the server holds ", sessions_.size(),
                     " sessions, its limit (sessions.max); close some, or try again later"));
  }
  const SessionKey& key = session->key();
  sessions_.emplace(key, std::move(session));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Find(const SessionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return NoSession(key.id);
  return found->second;
}

void SessionTable::Remove(const Session& session) {
  absl::MutexLock lock(&mutex_);
  const auto found = sessions_.find(session.key());
  if (found != sessions_.end() && found->second.get() == &session) sessions_.erase(found);
}

std::vector<std::shared_ptr<Session>> SessionTable::List(const std::string& tenant,
                                                         const std::optional<SessionId>& after,
                                                         size_t limit,
                                                         const SessionFilter& filter) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Session>> page;
  auto it = after ? sessions_.upper_bound({tenant, *after})
                  : sessions_.lower_bound({tenant, SessionId{}});
  for (; it != sessions_.end() && it->first.tenant == tenant && page.size() < limit; ++it) {
    const Session& session = *it->second;
    if (filter.Takes(session.model(), session.alias())) page.push_back(it->second);
  }
  return page;
}

std::vector<std::shared_ptr<Session>> SessionTable::Expired(MonotonicTime now,
                                                            absl::Duration most_idle) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Session>> expired;
  for (const auto& [key, session] : sessions_) {
    if (session->Expired(now, most_idle)) expired.push_back(session);
  }
  return expired;
}

size_t SessionTable::size() const {
  absl::MutexLock lock(&mutex_);
  return sessions_.size();
}

}  // namespace longstream
