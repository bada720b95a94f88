// The sessions of models that are unloaded or replaced.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// Sessions of one version that move at the same time. The store can take them in one transaction,
// and the engine in one round, without a delay for others.
constexpr size_t kMostMoves = 64;
// Sessions that are looked at together. The lock of the sessions is held that long, and as many are
// held at once.
constexpr size_t kSessionsOfPart = 1024;

// The models that have computed the caches of a session or will do it, the best first. `last`: of
// the last turn.
std::array<std::optional<ModelIdentity>, 2> ModelsOf(const LoggedProperties& properties,
                                                     store::TurnNumber head, ModelIdentity last) {
  const bool has_moved = properties.model.has_value() && properties.model_head == head;
  if (has_moved) return {properties.model, std::move(last)};
  return {std::move(last), properties.model};
}

}  // namespace

// ---------------------------------------------------------------- the engine for a call

absl::StatusOr<FoundEngine> SessionManager::FindModel(std::string_view model) const {
  std::shared_ptr<Engine> before;
  while (true) {
    absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(model);
    if (!engine.ok()) return engine.status();
    std::shared_ptr<void> hold = sessions_.uses().Hold(*engine);
    if (hold != nullptr) return FoundEngine{*std::move(engine), std::move(hold)};
    // A version that was replaced has been unloaded since it was found.
    if (*engine == before) return (*engine)->CheckOpen();
    before = *std::move(engine);
  }
}

absl::StatusOr<FoundEngine> SessionManager::FindVersionOf(const store::SessionRow& row) const {
  absl::StatusOr<FoundEngine> present = FindModel(row.model);
  std::vector<std::shared_ptr<Engine>> versions;
  for (ModelStatus& version : models_->ListVersions()) {
    const bool is_served =
        version.state == ModelState::kReady || version.state == ModelState::kDraining;
    if (version.name == row.model && is_served) versions.push_back(std::move(version.engine));
  }
  const bool is_one = present.ok() && versions.size() == 1 && versions[0] == present->engine;
  if (is_one || row.head == store::kNoTurn) return present;
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row.properties);
  if (!properties.ok()) return properties.status();
  const absl::StatusOr<store::TurnRow> turn = options_.store->Turn(row.head);
  if (absl::IsNotFound(turn.status())) return present;  // the session was closed meanwhile
  if (!turn.ok()) return turn.status();
  absl::StatusOr<LoggedStart> start = DecodeStart(turn->request);
  if (!start.ok()) return start.status();
  for (const std::optional<ModelIdentity>& model :
       ModelsOf(*properties, row.head, std::move(start->model))) {
    for (const std::shared_ptr<Engine>& engine : versions) {
      if (!model.has_value() || !model->HasCachesOf(ModelIdentity::Of(engine->model()))) continue;
      std::shared_ptr<void> hold = sessions_.uses().Hold(engine);
      if (hold != nullptr) return FoundEngine{engine, std::move(hold)};
    }
  }
  return present;
}

absl::StatusOr<ServedSession> SessionManager::FindServed(const SessionKey& key) const {
  absl::StatusOr<ServedSession> served = sessions_.Find(key);
  if (!served.ok()) return ended_.Explain(key);
  if (!served->engine->model().backend().closed()) return served;
  EndInMemory(*served);
  if (fleet_ != nullptr && served->turns->durable()) fleet_->Evicted(key);
  return ended_.Explain(key);
}

absl::StatusOr<SessionManager::Leased> SessionManager::FindAndLease(const SessionKey& key) const {
  // Between the two steps the session may leave memory or move, because its model goes. Then the
  // second try finds it in the store or on the other engine.
  for (const bool is_last : {false, true}) {
    absl::StatusOr<FoundSession> found = FindOrRestore(key);
    if (!found.ok()) return found.status();
    ServedSession& served = found->served;
    absl::StatusOr<TurnLease> lease = TurnLease::Take(served.session);
    if (!lease.ok() && (is_last || !absl::IsNotFound(lease.status()))) return lease.status();
    if (!lease.ok()) continue;
    absl::Status home = served.session->CheckHome(served.engine.get());
    if (home.ok()) return Leased{std::move(served), *std::move(lease)};
    if (is_last) return home;
  }
  return ended_.Explain(key);
}

// ---------------------------------------------------------------- the end of a model

void SessionManager::EndInMemory(const ServedSession& served) const {
  Session& session = *served.session;
  const SessionView view = session.View();
  if (!sessions_.CloseAndRemove(session)) return;
  if (!view.durable) ended_.Add(session.key(), view.model);
  if (!view.durable) session.GivePlaceBack();
  served.engine->Close(served.session, [](uint64_t) {});
}

bool SessionManager::IsBeingMade(const Session& session) const {
  absl::MutexLock lock(&mutex_);
  return making_.contains(&session);
}

void SessionManager::EndSessionsOn(const Engine& engine) {
  const Session* next = nullptr;
  do {
    const ServedSessions::Part part = sessions_.On(engine, next, kSessionsOfPart);
    for (const ServedSession& served : part.sessions) {
      if (IsBeingMade(*served.session)) continue;
      EndInMemory(served);
      if (fleet_ != nullptr && served.turns->durable()) fleet_->Evicted(served.session->key());
    }
    next = part.next;
  } while (next != nullptr);
  heap_trim_.NoteWork();
}

// ---------------------------------------------------------------- sessions that move

bool SessionManager::CanMove(const ServedSession& served, const Engine& to) {
  const ServedModel& from = served.engine->model();
  const ServedModel& model = to.model();
  return from.tokenizer().fingerprint() == model.tokenizer().fingerprint() &&
         served.session->View().position <= model.backend().info().context_limit;
}

void SessionManager::MoveSessions(const Engine& from, MovePass* pass) {
  pass->begun = 0;
  if (pass->next == nullptr) pass->left = 0;
  const absl::StatusOr<FoundEngine> to = FindModel(from.model().name());
  if (!to.ok() || to->engine.get() == &from) {
    *pass = {};
    return;
  }
  const MonotonicTime now = MonotonicTime::Now();
  std::shared_ptr<void> place;
  do {
    const ServedSessions::Part part = sessions_.On(from, pass->next, kSessionsOfPart);
    for (const ServedSession& served : part.sessions) {
      if (!CanMove(served, *to->engine)) continue;
      const bool may_move = now >= served.moves_at;
      if (may_move && place == nullptr) place = uses().BeginMove(served.engine, kMostMoves);
      if (may_move && place == nullptr) {
        pass->next = served.session.get();
        return;
      }
      ++pass->left;
      if (!may_move || !MoveSession(served, *to, place)) continue;
      ++pass->begun;
      place = nullptr;
    }
    pass->next = part.next;
  } while (pass->next != nullptr);
}

void SessionManager::MoveStoredSessionsOf(const ServedModel& version) {
  replaced_.Add(version.name(), ModelIdentity::Of(version));
}

bool SessionManager::MoveSession(const ServedSession& served, const FoundEngine& to,
                                 std::shared_ptr<void> place) {
  TurnLease taken = TurnLease::TakeUnused(served.session);
  if (!taken) return false;
  if (served.turns->durable()) {
    if (!served.turns->IsSettled()) return false;
    // std::function can only hold what can be copied.
    const auto lease = std::make_shared<TurnLease>(std::move(taken));
    if (fleet_ == nullptr) {
      MoveStored(lease, served, to, std::move(place), nullptr);
      return true;
    }
    fleet_->ChangeLeased(served,
                         [this, lease, served, to, place = std::move(place)](const Use& use) {
                           if (use != nullptr) return MoveStored(lease, served, to, place, use);
                           sessions_.DelayMove(*served.session);
                           lease->Drop();
                         });
    return true;
  }
  served.engine->Release(std::move(taken), [this, pending = Pending(), place = std::move(place),
                                            from = served.engine, to](TurnLease released) mutable {
    EndMove(std::move(released), from, to);
  });
  return true;
}

void SessionManager::EndMove(TurnLease lease, const std::shared_ptr<Engine>& from,
                             const FoundEngine& to) {
  const std::shared_ptr<Session> session = lease.session();
  if (session->closed()) return;
  // The version may have been unloaded since it was found. No engine has the session now, so
  // whichever it stays on reads it anew or computes its caches again.
  absl::StatusOr<FoundEngine> present = to;
  if (to.engine->unloading()) present = FindModel(session->model());
  const bool can_move = present.ok() && present->engine != from &&
                        CanMove({session, nullptr, from}, *present->engine);
  if (can_move) ReadAnew(kMovedToVersion, &lease);
  lease.Publish();
  std::shared_ptr<Engine> home = from;
  if (can_move) {
    Engine& engine = *present->engine;
    session->MoveTo(&engine, engine.model().backend().info().context_limit);
    if (sessions_.Move(*session, present->engine)) {
      home = present->engine;
    } else {  // it was closed, or its models are all being unloaded
      session->MoveTo(from.get(), from->model().backend().info().context_limit);
    }
  }
  home->Adopt(session);
}

void SessionManager::MoveStored(std::shared_ptr<TurnLease> lease, const ServedSession& served,
                                const FoundEngine& to, std::shared_ptr<void> place,
                                const Use& use) {
  SessionTurns::Head head = served.turns->head();
  head.properties.GoOnWith(ModelIdentity::Of(to.engine->model()), head.number, /*moves=*/true);
  served.turns->stored().log->Submit(
      [number = head.number, properties = EncodeProperties(head.properties)](
          const store::Fence& fence) -> absl::StatusOr<store::Change> {
        return store::MoveHead{fence, number, std::nullopt, properties};
      },
      [this, pending = Pending(), place = std::move(place), lease = std::move(lease),
       turns = served.turns, from = served.engine, to,
       use](const absl::StatusOr<store::Applied>& applied) {
        if (use != nullptr) use->Changed(applied.status());
        const std::shared_ptr<Session> session = lease->session();
        if (!applied.ok()) sessions_.DelayMove(*session);
        // If the version has been replaced or unloaded meanwhile, or if a turn will still change
        // the session in the store, the session stays where it is, and moves again later.
        const absl::StatusOr<FoundEngine> present = FindModel(session->model());
        const bool is_present = present.ok() && present->engine == to.engine;
        if (!applied.ok() || !is_present || !turns->Leave()) return lease->Drop();
        // The next call reads it from the store. A call that has found it before is ABORTED.
        session->MoveTo(to.engine.get(), session->context_limit());
        const bool is_first = Remove(*session).has_value();  // otherwise it was closed
        lease->Drop();
        if (is_first) from->Close(session, [](uint64_t) {});
      });
}

}  // namespace longstream
