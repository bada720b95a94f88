// Implements the sessions in memory with the table and a map.
#include "service/serving/engines/served_sessions.h"

#include <utility>

namespace longstream {

absl::Status ServedSessions::Insert(const ServedSession& served, const char* field) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status status = uses_->AddSession(*served.engine); !status.ok()) return status;
  absl::Status status = table_.Insert(served.session, field);
  if (status.ok()) {
    entries_[served.session.get()].served = served;
  } else {
    uses_->RemoveSession(*served.engine);
  }
  return status;
}

absl::StatusOr<ServedSession> ServedSessions::Find(const SessionKey& key) const {
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<std::shared_ptr<Session>> session = table_.Find(key);
  if (!session.ok()) return session.status();
  return entries_.at(session->get()).served;
}

std::optional<ServedSession> ServedSessions::Of(const Session& session) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(&session);
  if (found == entries_.end()) return std::nullopt;
  return found->second.served;
}

std::optional<ServedSession> ServedSessions::RemoveLocked(const Session& session) {
  auto entry = entries_.extract(&session);
  if (entry.empty()) return std::nullopt;
  table_.Remove(session);
  uses_->RemoveSession(*entry.mapped().served.engine);
  return std::move(entry.mapped().served);
}

std::optional<ServedSession> ServedSessions::Remove(const Session& session) {
  absl::MutexLock lock(&mutex_);
  return RemoveLocked(session);
}

bool ServedSessions::CloseAndRemove(Session& session) {
  std::optional<ServedSession> removed;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  session.Close();
  removed = RemoveLocked(session);
  return removed.has_value();
}

bool ServedSessions::Move(const Session& session, const std::shared_ptr<Engine>& to) {
  std::shared_ptr<Engine> from;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(&session);
  if (found == entries_.end() || !uses_->AddSession(*to).ok()) return false;
  from = std::exchange(found->second.served.engine, to);
  uses_->RemoveSession(*from);
  return true;
}

void ServedSessions::DelayMove(const Session& session) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(&session);
  if (found == entries_.end()) return;
  found->second.served.moves_at = MonotonicTime::Now() + found->second.pause.Next();
}

ServedSessions::Part ServedSessions::On(const Engine& engine, const Session* from,
                                        size_t most) const {
  Part part;
  absl::MutexLock lock(&mutex_);
  auto it = entries_.lower_bound(from);
  for (size_t i = 0; i < most && it != entries_.end(); ++i, ++it) {
    const ServedSession& served = it->second.served;
    if (served.engine.get() == &engine) part.sessions.push_back(served);
  }
  if (it != entries_.end()) part.next = it->first;
  return part;
}

}  // namespace longstream
