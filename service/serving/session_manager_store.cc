// Sessions in the store: added, restored when they are used, and removed.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/engine/turn/turn_history.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

// Rows that are read at once to find those of an alias.
constexpr size_t kRowsOfAllAliases = 1000;

}  // namespace

absl::Status SessionManager::NotServed(const store::SessionRow& row, const absl::Status& why) {
  if (!absl::IsNotFound(why)) return why;
  return absl::FailedPreconditionError(absl::StrCat("session_id: session ", row.key.id.ToString(),
                                                    " is of model ", row.model,
                                                    ", which the server does not serve now"));
}

std::shared_ptr<void> SessionManager::Pending() {
  {
    absl::MutexLock lock(&mutex_);
    ++pending_;
  }
  return std::shared_ptr<void>(nullptr, [this](void*) {
    absl::MutexLock lock(&mutex_);
    --pending_;
  });
}

absl::Duration SessionManager::CommitTimeout() const {
  return drained_ ? std::min(options_.commit_timeout, kLastCommits) : options_.commit_timeout;
}

SessionManager::Opened SessionManager::InTime(Opened opened) {
  return AnswerInTime(&timers_, CommitTimeout(), std::move(opened));
}

SessionManager::Opened SessionManager::InTimeOrClose(const std::string& tenant, Opened opened) {
  Opened late = [this, tenant](const absl::StatusOr<SessionView>& session) {
    if (!session.ok()) return;
    CloseSession({tenant, session->id}, [pending = Pending()](const absl::StatusOr<uint64_t>&) {});
  };
  return AnswerInTime(&timers_, CommitTimeout(), std::move(opened), std::move(late));
}

SessionTurns::Stored SessionManager::StoredOf(const Session& session, const Engine& engine) const {
  SessionTurns::Stored stored;
  stored.store = options_.store;
  stored.log = std::make_shared<SessionLog>(options_.commits, session.key());
  stored.model = ModelIdentity::Of(engine.model());
  stored.ttl = options_.ttl;
  stored.commit_timeout = options_.commit_timeout;
  stored.host_memory = session.tenant()->shared_host_memory();
  stored.gate = options_.gate;
  return stored;
}

void SessionManager::KeepCaches(const std::shared_ptr<Session>& session,
                                const std::shared_ptr<SessionTurns>& turns,
                                std::shared_ptr<Engine> engine) const {
  const auto present_turn = [weak = std::weak_ptr(turns)]() -> std::optional<KeptCaches::Turn> {
    const std::shared_ptr<SessionTurns> found = weak.lock();
    if (found == nullptr) return std::nullopt;
    const SessionTurns::Head head = found->head();
    const bool is_cut = head.properties.CutOf(head.number).has_value();
    if (head.number == store::kNoTurn || is_cut) return std::nullopt;
    return KeptCaches::Turn{head.number, head.position};
  };
  session->SetStoredCaches(std::make_shared<KeptCaches>(keeper_, session, session->key().tenant,
                                                        std::move(engine), present_turn));
}

RestoreOptions SessionManager::RestoringOptions(HostMemory* host_memory) const {
  return {options_.store, options_.render_messages, options_.on_model_change, host_memory,
          [this](const std::string& model, const ModelIdentity& version) {
            return replaced_.Moves(model, version);
          }};
}

void SessionManager::ReturnStored(const SessionKey& key) const {
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant = models_->tenants().Find(key.tenant);
  if (tenant.ok()) (*tenant)->ReturnStored();  // the configuration may have lost the tenant
}

void SessionManager::AddToStore(TurnLease& lease, const SessionTurns& turns,
                                std::function<void(const absl::Status&)> next) {
  const SessionView view = lease.session()->View();
  store::SessionRow row;
  row.key = lease.session()->key();
  row.model = view.model;
  row.owner = options_.owner;
  const SessionTurns::Head head = turns.head();
  row.head = head.number;
  row.create_time = row.last_use_time = view.create_time;
  row.delete_time = view.create_time + turns.ttl();
  row.forked_from = view.forked_from;
  row.properties = EncodeProperties(head.properties);
  turns.stored().log->Submit(
      [row = std::move(row)](const store::Fence&) -> absl::StatusOr<store::Change> {
        return store::OpenSession{row};
      },
      [pending = Pending(), session = lease.session(),
       next = std::move(next)](const absl::StatusOr<store::Applied>& applied) {
        applied.ok() ? session->LeavePlaceToStore() : session->GivePlaceBack();
        next(applied.status());
      });
}

std::shared_ptr<void> SessionManager::Closing(const SessionKey& key) {
  {
    absl::MutexLock lock(&mutex_);
    ++closing_[key].count;
  }
  return std::shared_ptr<void>(this, [this, pending = Pending(), key](void*) {
    std::vector<std::function<void()>> waiting;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = closing_.find(key);
      if (--found->second.count > 0) return;
      waiting = std::move(found->second.waiting);
      closing_.erase(found);
    }
    for (const std::function<void()>& call : waiting) call();
  });
}

bool SessionManager::IsClosing(const SessionKey& key) const {
  absl::MutexLock lock(&mutex_);
  return closing_.contains(key);
}

void SessionManager::RemoveMade(const std::shared_ptr<SessionTurns>& turns,
                                std::shared_ptr<void> closing) {
  turns->stored().log->Submit(
      [](const store::Fence& fence) -> absl::StatusOr<store::Change> {
        if (fence.version == 0) return absl::NotFoundError("the session is not in the store");
        return store::CloseSession{fence.key, fence, absl::Now()};
      },
      [this, pending = Pending(), key = turns->stored().log->key(),
       closing = std::move(closing)](const absl::StatusOr<store::Applied>& applied) mutable {
        if (applied.ok()) ReturnStored(key);
        closing.reset();
      });
}

void SessionManager::RemoveFromStore(const std::shared_ptr<SessionTurns>& turns, uint64_t position,
                                     std::shared_ptr<void> closing, Closed closed) {
  turns->stored().log->Submit(
      [key = turns->stored().log->key()](const store::Fence&) -> absl::StatusOr<store::Change> {
        return store::CloseSession{key, std::nullopt, absl::Now()};
      },
      [this, pending = Pending(), key = turns->stored().log->key(), position,
       closing = std::move(closing),
       closed = std::move(closed)](const absl::StatusOr<store::Applied>& applied) mutable {
        if (applied.ok()) ReturnStored(key);
        closing.reset();
        applied.ok() ? closed(position) : closed(applied.status());
      });
}

void SessionManager::CloseStored(const SessionKey& key, Closed closed) {
  closed = AnswerInTime(&timers_, CommitTimeout(), std::move(closed));
  RunRead({key.tenant, key.id}, closed,
          [this, key, closed] { CloseStoredNow(key, /*only_expired=*/false, closed); });
}

void SessionManager::CloseStoredNow(const SessionKey& key, bool only_expired,
                                    const Closed& closed) {
  absl::StatusOr<ServedSession> restored = absl::NotFoundError("");
  absl::StatusOr<store::SessionRow> row = absl::NotFoundError("");
  std::shared_ptr<void> closing;
  {
    const absl::StatusOr<std::shared_ptr<void>> alone = alone_.Wait(key);
    if (!alone.ok()) return closed(alone.status());
    restored = FindServed(key);  // another call may have restored it
    if (!restored.ok() || only_expired) row = options_.store->Session(key);
    // A call may have used the session since it was found expired.
    const bool is_used =
        only_expired && ((restored.ok() && restored->session->View().turn_running) ||
                         (row.ok() && row->delete_time > absl::Now()));
    if (is_used) return closed(absl::AbortedError("the session is in use"));
    if (only_expired && fleet_ != nullptr && row.ok() && !fleet_->MayExpire(*row)) {
      return closed(absl::AbortedError("another server has the session"));
    }
    if (row.ok() && !restored.ok()) closing = Closing(key);  // none restores it from now on
  }
  if (restored.ok() && fleet_ != nullptr && restored->turns->durable()) {
    if (!only_expired) return fleet_->Close(key, closed);
    return row.ok() ? fleet_->CloseExpired(*row, closed) : closed(row.status());
  }
  if (restored.ok()) return CloseNow(restored->session, closed);
  if (!row.ok()) {
    return closed(absl::IsNotFound(row.status()) ? ended_.Explain(key) : row.status());
  }
  std::optional<store::Fence> fence;
  if (only_expired) fence = store::Fence{row->key, row->epoch, row->version};
  options_.commits->Submit(
      store::CloseSession{row->key, std::move(fence), absl::Now()},
      [this, pending = Pending(), key, position = row->position, closing = std::move(closing),
       closed](const absl::StatusOr<store::Applied>& applied) mutable {
        if (applied.ok()) ReturnStored(key);
        if (applied.ok() && fleet_ != nullptr) fleet_->Evicted(key);
        closing.reset();
        applied.ok() ? closed(position) : closed(applied.status());
      });
}

bool SessionManager::RunReadAlone(std::atomic<bool>* running, const std::function<void()>& call) {
  if (running->exchange(true)) return false;
  const auto ended = [running](const absl::Status& /*refused*/) { *running = false; };
  RunRead({}, ended, [ended, call] {
    call();
    ended(absl::OkStatus());
  });
  return true;
}

absl::StatusOr<FoundSession> SessionManager::FindInMemory(const SessionKey& key) const {
  absl::StatusOr<ServedSession> served = FindServed(key);
  if (!served.ok()) return served.status();
  if (options_.found) options_.found(served->session);
  AwaitedSession awaited(served->session);
  // It may have expired before it was awaited. Then it is not in the table any more, or soon.
  if (served->session->closed()) return ended_.Explain(key);
  return FoundSession{*std::move(served), std::move(awaited)};
}

absl::StatusOr<FoundSession> SessionManager::FindOrRestore(const SessionKey& key) const {
  absl::StatusOr<FoundSession> found = FindInMemory(key);
  if (found.ok() || options_.store == nullptr) return found;
  const absl::StatusOr<std::shared_ptr<void>> alone = alone_.Wait(key);
  if (!alone.ok()) return alone.status();
  // When its version is unloaded, a session may leave the memory after the first try has found it.
  // Then the second try finds it in the store.
  for (const bool is_last : {false, true}) {
    // Another call may have restored it. If it has expired, it has left the table.
    absl::StatusOr<ServedSession> served = FindServed(key);
    if (!served.ok()) {
      if (IsClosing(key)) break;
      const absl::StatusOr<store::SessionRow> row = options_.store->Session(key);
      if (!row.ok()) return absl::IsNotFound(row.status()) ? served.status() : row.status();
      served = Restore(*row);
      if (!served.ok()) return served.status();
    }
    AwaitedSession awaited(served->session);
    if (!served->session->closed()) return FoundSession{*std::move(served), std::move(awaited)};
    if (is_last || IsClosing(key)) break;
  }
  return ended_.Explain(key);
}

absl::StatusOr<ServedSession> SessionManager::Restore(const store::SessionRow& row) const {
  while (true) {
    const absl::StatusOr<FoundEngine> found = FindVersionOf(row);
    if (!found.ok()) return NotServed(row, found.status());
    absl::StatusOr<ServedSession> restored = RestoreOn(found->engine, row);
    if (restored.ok() || !found->engine->unloading()) return restored;
  }
}

absl::StatusOr<ServedSession> SessionManager::RestoreOn(const std::shared_ptr<Engine>& engine,
                                                        const store::SessionRow& row) const {
  absl::StatusOr<ServedSession> served = Restored(row, engine);
  if (!served.ok()) return served;
  // A turn of the session reaches the engine after this.
  engine->Adopt(served->session);
  if (absl::Status status = sessions_.Insert(*served); !status.ok()) {
    served->session->Close();
    engine->Close(served->session, [](uint64_t /*position*/) {});
    return status;
  }
  if (options_.restored) options_.restored(served->session);
  return served;
}

absl::StatusOr<ServedSession> SessionManager::Restored(
    const store::SessionRow& row, const std::shared_ptr<Engine>& engine) const {
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row.properties);
  if (!properties.ok()) return properties.status();
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant = models_->tenants().Find(row.key.tenant);
  if (!tenant.ok()) return tenant.status();
  HostMemory* const host_memory = (*tenant)->host_memory();
  const ServedModel& model = engine->model();
  absl::StatusOr<RestoredSession> restored =
      RestoreSession(RestoringOptions(host_memory), row, *properties, model);
  if (!restored.ok()) return restored.status();
  TurnLease lease =
      TurnLease::OfNewSession(row.key.id, model.name(), model.backend().info().context_limit,
                              properties->idle_timeout, host_memory, *tenant);
  std::shared_ptr<Session> session = lease.session();
  session->set_origin(properties->origin);
  session->set_alias(properties->alias);
  session->SetRestored(row.create_time, row.last_use_time, row.forked_from);
  lease.state() = std::move(restored->state);
  if (absl::Status status = lease.ChargeNew(/*source=*/nullptr); !status.ok()) return status;
  // No engine knows the session yet, so this thread may use its caches.
  SessionCaches& caches = session->caches();
  const size_t size = lease.state().tokens.size();
  caches.computed_tokens = size > 0 ? size - 1 : 0;
  caches.recompute_reason = restored->read_anew;
  caches.evicted = caches.restored = restored->read_anew.empty();
  caches.lowest_rewind = restored->lowest_rewind;
  caches.decode_tokens = lease.state().feed.decode_tokens();
  caches.prefill_tokens = lease.state().feed.end() - caches.decode_tokens;
  auto turns = std::make_shared<SessionTurns>(session, StoredOf(*session, *engine));
  KeepCaches(session, turns, engine);
  if (restored->head != store::kNoTurn) session->stored_caches()->Reload(restored->head);
  const std::optional<StoredPlace> place = ChooseStored(*session, model.backend(), {});
  if (place.has_value()) caches.stored_position = place->position;
  lease.Publish();
  turns->stored().log->SetVersion(row.epoch, row.version);
  SessionTurns::Head head;
  head.number = restored->head;
  if (head.number != store::kNoTurn) head.id = restored->head_id;
  head.position = size;
  head.properties = std::move(restored->properties);
  turns->SetHead(std::move(head));
  session->MoveTo(engine.get(), session->context_limit());
  // The lease is free before a call can find the session.
  return ServedSession{std::move(session), std::move(turns), engine};
}

absl::StatusOr<SessionView> SessionManager::StoredView(const SessionKey& key) const {
  if (options_.store == nullptr) return ended_.Explain(key);
  const absl::StatusOr<store::SessionRow> row = RowOf(key);
  if (!row.ok()) return row.status();
  absl::StatusOr<SessionView> view = ViewOf(*row);
  if (!view.ok() || row->head == store::kNoTurn) return view;
  // The id of the head, without the turn's request and result.
  absl::Status status = options_.store->VisitLinks(row->head, [&view](const store::TurnRow& turn) {
    view->head_turn = turn.id;
    return false;
  });
  if (!status.ok()) return status;
  return view;
}

absl::StatusOr<SessionView> SessionManager::FullView(const SessionKey& key) const {
  absl::StatusOr<SessionView> view = View(key);
  if (!view.ok() || !view->durable || options_.store == nullptr) return view;
  const absl::StatusOr<store::SessionRow> row = options_.store->Session(key);
  if (absl::IsNotFound(row.status())) return view;  // it is being made, or was closed meanwhile
  if (!row.ok()) return row.status();
  const absl::StatusOr<uint64_t> bytes = options_.store->HeadBytes(key.tenant, row->head);
  if (!bytes.ok()) return bytes.status();
  view->stored_bytes = *bytes + row->properties.size();
  return view;
}

void SessionManager::ShowSession(const SessionKey& key, Opened shown) {
  Read<SessionView>(
      {key.tenant}, [this, key] { return FullView(key); },
      [this, key, shown = std::move(shown)](absl::StatusOr<SessionView> view) {
        // Another replica of a fleet may have changed or closed a session that is in the store.
        if (!view.ok() && (fleet_ == nullptr || !fleet_->Shares(key))) {
          const absl::StatusOr<ServedSession> served = sessions_.Find(key);
          if (served.ok()) return shown(Described(*served->session));
        }
        shown(std::move(view));
      });
}

absl::StatusOr<SessionView> SessionManager::ViewOf(const store::SessionRow& row) const {
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row.properties);
  if (!properties.ok()) return properties.status();
  SessionView view;
  view.id = row.key.id;
  view.model = row.model;
  view.alias = properties->alias;
  view.position = properties->CutOf(row.head).value_or(row.position);
  view.recompute_tokens = view.position > 0 ? view.position - 1 : 0;
  view.version = static_cast<uint64_t>(row.version);
  const absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(row.model);
  if (engine.ok()) view.context_limit = (*engine)->model().backend().info().context_limit;
  view.create_time = row.create_time;
  view.last_use_time = row.last_use_time;
  view.idle_timeout = properties->idle_timeout;
  view.ttl = properties->ttl.value_or(options_.ttl);
  view.forked_from = row.forked_from;
  view.durable = true;
  if (fleet_ != nullptr && row.owner != options_.owner) {
    view.owner = row.owner;
    view.owner_ended = !row.owner.empty() && !fleet_->Lives(row.owner);
    // An owner that lives may have caches that this replica does not know of.
    if (!view.owner_ended) view.recompute_tokens = 0;
  } else if (fleet_ != nullptr && fleet_->copies().HasArrived({row.key, row.epoch, row.version})) {
    view.recompute_tokens = 0;
  }
  return view;
}

void SessionManager::AddStoredViews(const std::string& tenant,
                                    const std::optional<SessionId>& after, size_t limit,
                                    const SessionFilter& filter, SessionPage* page) const {
  if (options_.store == nullptr) return;
  // The store finds the rows of a model, but not those of an alias.
  const size_t most_rows =
      filter.alias.empty() ? limit : std::min(kRowsOfAllAliases, options_.most_listed_rows);
  std::vector<SessionView>& views = page->sessions;
  std::optional<SessionId> read_to = after;
  size_t found = 0;
  for (size_t read = 0; found < limit;) {
    if (read >= options_.most_listed_rows) {
      page->next = read_to;
      break;
    }
    const absl::StatusOr<std::vector<store::SessionRow>> rows =
        options_.store->Sessions(tenant, read_to, most_rows, filter.model);
    if (!rows.ok()) {
      page->status = rows.status();
      break;
    }
    for (const store::SessionRow& row : *rows) {
      read_to = row.key.id;
      const absl::StatusOr<SessionView> view = ViewOf(row);
      if (!view.ok() || !filter.Takes(view->model, view->alias)) continue;
      ++found;
      const absl::StatusOr<ServedSession> served = sessions_.Find(row.key);
      if (!served.ok() || (fleet_ != nullptr && !FleetCalls::IsCurrent(*served, row))) {
        views.push_back(*view);
      } else if (fleet_ != nullptr) {
        views.push_back(Described(*served->session));
      }
    }
    if (rows->size() < most_rows) break;
    read += rows->size();
  }
  if (page->next.has_value()) {
    std::erase_if(views, [&](const SessionView& view) { return *page->next < view.id; });
  }
  std::sort(views.begin(), views.end(),
            [](const SessionView& a, const SessionView& b) { return a.id < b.id; });
}

}  // namespace longstream
