// Opens, closes and expires sessions, and finds the engines for their turns.
#include "service/serving/session_manager.h"

#include <malloc.h>

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

absl::StatusOr<TurnLease> SessionManager::MakeSession(const Engine& engine,
                                                      std::optional<SessionId> id,
                                                      const char* id_field,
                                                      std::optional<absl::Duration> idle_timeout,
                                                      const SessionState* source) {
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
  TurnLease lease = TurnLease::OfNewSession(id.value_or(SessionId::Random()), engine.model().name(),
                                            engine.model().backend().info().context_limit, timeout,
                                            models_->host_memory());
  if (absl::Status status = lease.ChargeNew(source); !status.ok()) return status;
  absl::Status status = sessions_.Insert(lease.session(), id_field);
  if (!status.ok()) return status;
  return lease;
}

void SessionManager::OpenSession(std::string_view model, std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened) {
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(model);
  if (!engine.ok()) return opened(engine.status());
  absl::StatusOr<TurnLease> session =
      MakeSession(**engine, id, "session_id", idle_timeout, /*source=*/nullptr);
  if (!session.ok()) return opened(session.status());
  Engine::Done done = WhenMade(session->session(), std::move(opened));
  (*engine)->Open(*std::move(session), std::move(done));
}

void SessionManager::ForkSession(const SessionId& source_id, std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened) {
  absl::StatusOr<std::shared_ptr<Session>> source = sessions_.Find(source_id);
  if (!source.ok()) return opened(source.status());
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find((*source)->model());
  if (!engine.ok()) return opened(engine.status());
  if (!(*engine)->model().backend().plugin().Can(LS_CAP_FORK)) {
    return opened(absl::UnimplementedError(absl::StrCat(
        "the backend of model ", (*engine)->model().name(), " cannot fork a session")));
  }
  absl::StatusOr<TurnLease> lease = TurnLease::Take(*std::move(source));
  if (!lease.ok()) return opened(lease.status());
  absl::StatusOr<TurnLease> target =
      MakeSession(**engine, id, "new_session_id", idle_timeout, &lease->state());
  if (!target.ok()) return opened(target.status());
  target->session()->set_forked_from(source_id);
  Engine::Done done = WhenMade(target->session(), std::move(opened));
  (*engine)->Fork(*std::move(lease), *std::move(target), std::move(done));
}

Engine::Done SessionManager::WhenMade(std::shared_ptr<Session> session, Opened opened) {
  return
      [this, session = std::move(session), opened = std::move(opened)](const absl::Status& status) {
        if (status.ok()) return opened(session->View());
        sessions_.Remove(*session);
        opened(status);
      };
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
  // Use Status and not Find, because the model may have failed in the meantime.
  const absl::StatusOr<ModelStatus> model = models_->Status(session->model());
  if (!model.ok()) return closed(model.status());
  model->engine->Close(session, [this, closed = std::move(closed)](uint64_t position) {
    heap_trim_.NoteWork();
    closed(position);
  });
}

absl::StatusOr<SessionView> SessionManager::View(const SessionId& id) const {
  const absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(id);
  if (!session.ok()) return session.status();
  return (*session)->View();
}

absl::StatusOr<NewTurn> SessionManager::TurnOf(const SessionId& id) const {
  heap_trim_.NoteWork();
  absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(id);
  if (!session.ok()) return session.status();
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find((*session)->model());
  if (!engine.ok()) return engine.status();
  return NewTurn(*std::move(session), *std::move(engine), models_->host_memory());
}

absl::StatusOr<NewTurn> SessionManager::ScoreWith(std::string_view model) const {
  heap_trim_.NoteWork();
  absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(model);
  if (!engine.ok()) return engine.status();
  NewTurn turn(nullptr, *std::move(engine), models_->host_memory());
  if (turn.model().backend().plugin().Can(LS_CAP_SCORE)) return turn;
  return turn.Refuse(absl::UnimplementedError(
      absl::StrCat("the backend of model ", turn.model().name(), " cannot score a text")));
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
  // Repeat this: a turn may have passed its check for draining just before, and may start after the
  // first round.
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
    if (options_.metrics != nullptr) {
      options_.metrics->SetHostBytes(models_->host_memory()->held_bytes());
    }
    const MonotonicTime now = MonotonicTime::Now();
    for (const std::shared_ptr<Session>& session : sessions_.Expired(now)) {
      if (session->CloseIfExpired(now)) Release(session, [](const absl::StatusOr<uint64_t>&) {});
    }
    if (heap_trim_.IsDue(now, NumTurns() > 0, sessions_.size() > 0)) malloc_trim(0);
  }
}

}  // namespace longstream
