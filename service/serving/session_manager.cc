// Routing of sessions and turns to engines.
#include "service/serving/session_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/clock/monotonic_time.h"

namespace longstream {
namespace {

constexpr absl::Duration kExpiryPeriod = absl::Seconds(1);
constexpr absl::Duration kDrainPeriod = absl::Milliseconds(20);

}  // namespace

SessionManager::SessionManager(const ModelRegistry* models, const Options& options)
    : models_(models),
      options_(options),
      sessions_(options.max_sessions),
      expiry_([this] { ExpireSessions(); }) {}

SessionManager::~SessionManager() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  expiry_.join();
  for (const ModelStatus& model : models_->List()) {
    if (model.engine != nullptr) model.engine->Flush();
  }
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::MakeSession(
    const Engine& engine, std::optional<SessionId> id, const char* id_field,
    std::optional<absl::Duration> idle_timeout) {
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError("the server is draining");
  }
  const absl::Duration timeout = idle_timeout.value_or(options_.default_idle_timeout);
  if (timeout <= absl::ZeroDuration() || timeout > options_.max_idle_timeout) {
    return absl::InvalidArgumentError(
        absl::StrCat("idle_timeout: expected more than 0 and at most ",
                     absl::FormatDuration(options_.max_idle_timeout), ", found ",
                     absl::FormatDuration(timeout)));
  }
  auto session = std::make_shared<Session>(id.value_or(SessionId::Random()), engine.model().name(),
                                           engine.model().backend().info().context_limit, timeout);
  if (absl::Status status = sessions_.Insert(session, id_field); !status.ok()) return status;
  return session;
}

void SessionManager::OpenSession(std::string_view model, std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened) {
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(model);
  if (!engine.ok()) return opened(engine.status());
  absl::StatusOr<std::shared_ptr<Session>> session =
      MakeSession(**engine, id, "session_id", idle_timeout);
  if (!session.ok()) return opened(session.status());
  (*engine)->Open(
      *session, [this, session = *session, opened = std::move(opened)](const absl::Status& status) {
        if (status.ok()) return opened(session->View());
        sessions_.Remove(*session);
        opened(status);
      });
}

void SessionManager::ForkSession(const SessionId& source_id, std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened) {
  absl::StatusOr<SessionRoute> source = Route(source_id);
  if (!source.ok()) return opened(source.status());
  const Engine& engine = *source->engine;
  if (!engine.model().backend().plugin().Can(LS_CAP_FORK)) {
    return opened(absl::UnimplementedError(
        absl::StrCat("the backend of model ", engine.model().name(), " cannot fork a session")));
  }
  absl::StatusOr<std::shared_ptr<Session>> target =
      MakeSession(engine, id, "new_session_id", idle_timeout);
  if (!target.ok()) return opened(target.status());
  // Last, because only the engine thread can give a turn back.
  if (absl::Status status = source->session->BeginTurn(std::nullopt); !status.ok()) {
    (*target)->Close();
    sessions_.Remove(**target);
    return opened(status);
  }
  (*target)->set_forked_from(source_id);
  source->engine->Fork(
      source->session, *target,
      [this, target = *target, opened = std::move(opened)](const absl::Status& status) {
        if (status.ok()) return opened(target->View());
        sessions_.Remove(*target);
        opened(status);
      });
}

void SessionManager::CloseSession(const SessionId& id, Closed closed) {
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(id);
  if (!session.ok()) return closed(session.status());
  if (!(*session)->Close()) {
    return closed(absl::NotFoundError(absl::StrCat("session_id: no session ", id.ToString())));
  }
  Release(*session, std::move(closed));
}

void SessionManager::Release(const std::shared_ptr<Session>& session, Closed closed) {
  sessions_.Remove(*session);
  // Its model may have failed since.
  const absl::StatusOr<ModelStatus> model = models_->Status(session->model());
  if (!model.ok()) return closed(model.status());
  model->engine->Close(session,
                       [closed = std::move(closed)](uint64_t position) { closed(position); });
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Find(const SessionId& id) const {
  return sessions_.Find(id);
}

absl::StatusOr<SessionRoute> SessionManager::Route(const SessionId& id) const {
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(id);
  if (!session.ok()) return session.status();
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find((*session)->model());
  if (!engine.ok()) return engine.status();
  return SessionRoute{*std::move(session), *std::move(engine)};
}

std::vector<SessionView> SessionManager::List(const std::optional<SessionId>& after, size_t limit,
                                              std::string_view model) const {
  std::vector<SessionView> views;
  for (const std::shared_ptr<Session>& session : sessions_.List(after, limit, model)) {
    views.push_back(session->View());
  }
  return views;
}

size_t SessionManager::NumTurns() const {
  size_t turns = 0;
  for (const ModelStatus& model : models_->List()) {
    if (model.engine != nullptr) turns += model.engine->num_turns();
  }
  return turns;
}

void SessionManager::Drain(absl::Duration grace) {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  for (const ModelStatus& model : models_->List()) {
    if (model.engine != nullptr) model.engine->BeginDrain();
  }
  const MonotonicTime until = MonotonicTime::Now() + grace;
  while (NumTurns() > 0 && MonotonicTime::Now() < until) absl::SleepFor(kDrainPeriod);
  // More than once: a turn may have passed its look at the draining just before, and come after.
  while (NumTurns() > 0) {
    for (const ModelStatus& model : models_->List()) {
      if (model.engine == nullptr) continue;
      model.engine->AbortAll(
          absl::UnavailableError("the server is shutting down and the grace time has passed"));
    }
    absl::SleepFor(kDrainPeriod);
  }
}

void SessionManager::ExpireSessions() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kExpiryPeriod)) return;
    }
    const MonotonicTime now = MonotonicTime::Now();
    for (const std::shared_ptr<Session>& session : sessions_.Expired(now)) {
      if (session->CloseIfExpired(now)) Release(session, [](const absl::StatusOr<uint64_t>&) {});
    }
  }
}

}  // namespace longstream
