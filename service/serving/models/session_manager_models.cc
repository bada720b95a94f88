// The sessions of models that are unloaded or replaced.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

constexpr const char* kNewVersion = "the session was moved to another version of its model";

}  // namespace

absl::StatusOr<std::shared_ptr<Engine>> SessionManager::EngineOf(const Session& session) const {
  absl::MutexLock lock(&mutex_);
  const auto found = known_.find(&session);
  if (found == known_.end()) return NoSession(session.id());
  return found->second.engine;
}

absl::StatusOr<std::shared_ptr<Engine>> SessionManager::OpenEngineOf(const Session& session) const {
  absl::StatusOr<std::shared_ptr<Engine>> engine = EngineOf(session);
  if (!engine.ok()) return engine;
  if (absl::Status status = models_->Check(**engine); !status.ok()) return status;
  return engine;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::FindServed(const SessionKey& key) const {
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(key);
  if (!session.ok()) return ended_.Explain(key, session.status());
  const absl::StatusOr<std::shared_ptr<Engine>> engine = EngineOf(**session);
  if (!engine.ok() || !(*engine)->model().backend().closed()) return session;
  EndInMemory(*session);
  return ended_.Explain(key, NoSession(key.id));
}

void SessionManager::EndInMemory(const std::shared_ptr<Session>& session) const {
  const absl::StatusOr<std::shared_ptr<Engine>> engine = EngineOf(*session);
  if (!engine.ok()) return;  // the session was closed, or another thread ends it
  const SessionView view = session->View();
  session->Close();
  if (!view.durable) ended_.Add(session->key(), view.model);
  Remove(*session);
  (*engine)->Close(session, [](uint64_t) {});
}

std::vector<std::shared_ptr<Session>> SessionManager::SessionsOn(const Engine& engine) const {
  std::vector<std::shared_ptr<Session>> on_engine;
  for (std::shared_ptr<Session>& session : sessions_.OfModel(engine.model().name())) {
    const absl::StatusOr<std::shared_ptr<Engine>> own = EngineOf(*session);
    if (own.ok() && own->get() == &engine) on_engine.push_back(std::move(session));
  }
  return on_engine;
}

size_t SessionManager::NumSessionsOn(const Engine& engine) const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(std::count_if(known_.begin(), known_.end(), [&](const auto& known) {
    return known.second.engine.get() == &engine;
  }));
}

void SessionManager::EndSessionsOn(const Engine& engine) {
  for (const std::shared_ptr<Session>& session : SessionsOn(engine)) EndInMemory(session);
  heap_trim_.NoteWork();
}

size_t SessionManager::MoveSessions(const Engine& from, const std::shared_ptr<Engine>& to) {
  const ServedModel& model = to->model();
  const bool same_tokenizer =
      from.model().tokenizer().fingerprint() == model.tokenizer().fingerprint();
  size_t stay = 0;
  for (const std::shared_ptr<Session>& session : SessionsOn(from)) {
    if (!same_tokenizer || session->View().position > model.backend().info().context_limit) {
      ++stay;
    } else {
      MoveSession(session, to);
    }
  }
  return stay;
}

void SessionManager::MoveSession(const std::shared_ptr<Session>& session,
                                 const std::shared_ptr<Engine>& to) {
  absl::StatusOr<TurnLease> taken = TurnLease::Take(session);
  const absl::StatusOr<std::shared_ptr<Engine>> from = EngineOf(*session);
  const std::shared_ptr<SessionTurns> turns = TurnsOf(*session);
  if (!taken.ok() || !from.ok() || turns == nullptr) return;  // it is used, or was closed
  // std::function can only hold what can be copied.
  auto lease = std::make_shared<TurnLease>(*std::move(taken));
  if (turns->durable()) return MoveStored(std::move(lease), turns, *from, to);
  Engine& engine = **from;
  engine.Release(std::move(*lease), [this, to, pending = Pending()](TurnLease released) {
    const std::shared_ptr<Session> moved = released.session();
    {
      absl::MutexLock lock(&mutex_);
      const auto known = known_.find(moved.get());
      if (known == known_.end()) return;  // the session was closed meanwhile
      known->second.engine = to;
    }
    ReadAnew(kNewVersion, &released);
    moved->MoveTo(to.get(), to->model().backend().info().context_limit);
    released.Publish();
    to->Adopt(moved);
  });
}

void SessionManager::MoveStored(std::shared_ptr<TurnLease> lease,
                                const std::shared_ptr<SessionTurns>& turns,
                                std::shared_ptr<Engine> from, const std::shared_ptr<Engine>& to) {
  SessionTurns::Head head = turns->head();
  head.properties.model = ModelIdentity::Of(to->model());
  turns->stored().log->Submit(
      [number = head.number, properties = EncodeProperties(head.properties)](
          const store::Fence& fence) -> absl::StatusOr<store::Change> {
        return store::MoveHead{fence, number, absl::Now(), properties};
      },
      [this, lease = std::move(lease), from = std::move(from), to,
       pending = Pending()](const absl::StatusOr<store::Applied>& applied) {
        if (!applied.ok()) return lease->Drop();
        const std::shared_ptr<Session> session = lease->session();
        // The next call reads it from the store. A call that has found it before is ABORTED.
        session->MoveTo(to.get(), session->context_limit());
        Remove(*session);
        lease->Drop();
        from->Close(session, [](uint64_t) {});
      });
}

}  // namespace longstream
