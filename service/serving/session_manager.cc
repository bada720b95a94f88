// Opens, closes and expires sessions.
#include "service/serving/session_manager.h"

#include <malloc.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/core/physical_memory.h"
#include "service/clock/monotonic_time.h"
#include "service/config/names.h"
#include "service/metrics/tenant_metrics.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/memory/memory_room.h"

namespace longstream {
namespace {

constexpr absl::Duration kExpiryPeriod = absl::Seconds(1);
// Threads that read the store. With four, up to three slow reads delay no other call.
constexpr int kReadThreads = 4;

// If there are several tenants, the reads of one of them leave a thread to the others.
ReadQueue::Limits ReadLimits(const Tenants& tenants) {
  return {.most_waiting = 4096,
          .most_running = tenants.are_configured() ? kReadThreads - 1 : kReadThreads};
}
constexpr absl::Duration kDrainPeriod = absl::Milliseconds(20);

std::string TimeoutText(std::optional<absl::Duration> timeout) {
  return timeout.has_value() ? absl::FormatDuration(*timeout) : "default";
}

// Different for different requests; empty if the request says nothing, as all did before a request
// could say it, here and below.
std::string TextOf(const RouteAsk& ask) {
  if (ask == RouteAsk()) return "";
  const auto text = [](const std::optional<absl::Duration>& time) {
    return time.has_value() ? absl::FormatDuration(*time) : "-";
  };
  return absl::StrCat(" expects ", ask.prompt_tokens, " ", ask.prompt_bytes, " ", ask.max_tokens,
                      " ", text(ask.budgets.time_to_first_token), " ",
                      text(ask.budgets.time_per_token), " ", ask.budgets.session_bytes);
}

std::string TtlText(std::optional<absl::Duration> ttl) {
  return ttl.has_value() ? absl::StrCat(" ttl ", absl::FormatDuration(*ttl)) : "";
}

// Checks the choices that only a session in the store can have.
absl::Status CheckStored(const SessionTerms& terms, bool has_store) {
  if (terms.durability == Durability::kTurn && !has_store) {
    return absl::FailedPreconditionError(
        "durability: the server has no store; expected DURABILITY_MEMORY or unspecified");
  }
  if (!terms.ttl.has_value()) return absl::OkStatus();
  if (terms.durability == Durability::kMemory) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ttl: expected none, because a session with DURABILITY_MEMORY ends after its idle_timeout; "
        "found ",
        absl::FormatDuration(*terms.ttl)));
  }
  if (has_store) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "ttl: the server has no store, so sessions end after their idle_timeout; expected none");
}

// INVALID_ARGUMENT: not in the range of the options.
absl::Status CheckLimit(const char* field, absl::Duration value, absl::Duration max) {
  if (value > absl::ZeroDuration() && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected more than 0 and at most ",
                                                 absl::FormatDuration(max), ", found ",
                                                 absl::FormatDuration(value)));
}

}  // namespace

SessionManager::SessionManager(const ModelRegistry* models, const Options& options)
    : models_(models),
      options_(options),
      keeper_(options.store == nullptr
                  ? nullptr
                  : std::make_shared<CacheKeeper>(models->shared_host_memory(), options.store,
                                                  options.commits, options.metrics)),
      sessions_(options.max_sessions),
      transfers_(options.max_transfers),
      alone_(options.engine_patience),
      reads_(options.store == nullptr ? 0 : kReadThreads, ReadLimits(models->tenants())),
      fleet_(options.gate == nullptr || options.store == nullptr
                 ? nullptr
                 : std::make_unique<FleetCalls>(this, options.gate)),
      expiry_([this] { ExpireSessions(); }) {}

SessionManager::~SessionManager() {
  if (fleet_ != nullptr) fleet_->copies().StopReading();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  expiry_.join();
  StopSaving();
  // A callback of an engine may make a change in the store, and the other way round. A late session
  // is closed by an engine, and then in the store.
  for (int i = 0; i < 2; ++i) {
    FlushEngines();
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* pending) { return *pending == 0; }, &pending_));
  }
  FlushEngines();
}

std::optional<ServedSession> SessionManager::Remove(Session& session) const {
  std::optional<ServedSession> removed = sessions_.Remove(session);
  // The place of a session in the store is given back when the store has closed it.
  if (!session.View().durable) session.GivePlaceBack();
  return removed;
}

uint32_t SessionManager::WeightOf(const std::string& tenant) const {
  const absl::StatusOr<std::shared_ptr<Tenant>> found = models_->tenants().Find(tenant);
  return found.ok() ? (*found)->weight() : 1;
}

absl::Status SessionManager::CheckIdleTimeout(absl::Duration timeout) const {
  return CheckLimit("idle_timeout", timeout, options_.max_idle_timeout);
}

absl::StatusOr<SessionManager::Made> SessionManager::MakeSession(
    const std::shared_ptr<Engine>& engine, const SessionMaking& making,
    const SessionState* source) {
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError("the server is draining");
  }
  const absl::Duration timeout = making.idle_timeout.value_or(options_.default_idle_timeout);
  if (absl::Status status = CheckIdleTimeout(timeout); !status.ok()) return status;
  if (making.ttl.has_value()) {
    absl::Status status = CheckLimit("ttl", *making.ttl, options_.max_ttl);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant = models_->tenants().Find(making.tenant);
  if (!tenant.ok()) return tenant.status();
  TurnLease lease = TurnLease::OfNewSession(making.new_id, engine->model().name(),
                                            engine->model().backend().info().context_limit, timeout,
                                            (*tenant)->host_memory(), *tenant);
  if (absl::Status status = lease.session()->TakePlace(); !status.ok()) return status;
  if (making.id.has_value()) lease.session()->set_origin(making.origin);
  lease.session()->set_alias(making.alias);
  lease.session()->set_routing(making.routing);
  if (making.durable) lease.session()->SetDurable();
  if (absl::Status status = lease.ChargeNew(source); !status.ok()) return status;
  auto turns = std::make_shared<SessionTurns>(
      lease.session(),
      making.durable ? StoredOf(*lease.session(), *engine) : SessionTurns::Stored{});
  if (making.durable) KeepCaches(lease.session(), turns, engine);
  lease.session()->MoveTo(engine.get(), lease.session()->context_limit());
  {
    absl::MutexLock lock(&mutex_);
    making_[lease.session().get()];
  }
  absl::Status status = sessions_.Insert({lease.session(), turns, engine}, making.id_field);
  if (status.ok()) {
    ended_.Forget(lease.session()->key());
    return Made{std::move(lease), std::move(turns)};
  }
  absl::MutexLock lock(&mutex_);
  making_.erase(lease.session().get());
  return status;
}

void SessionManager::OpenSession(const std::string& tenant, std::string_view model,
                                 std::optional<SessionId> id,
                                 std::optional<absl::Duration> idle_timeout, Opened opened,
                                 const SessionTerms& terms) {
  // Only a repeat of a call with an id reads the store. A name that no model and no alias can have
  // may be long, and is not copied.
  const bool is_name = CheckName("model", model).ok() || CheckKnown(model).ok();
  if (options_.store == nullptr || !id.has_value() || !is_name) {
    return OpenNow(tenant, model, id, idle_timeout, std::move(opened), terms);
  }
  opened = InTime(std::move(opened));
  RunRead({tenant, id}, opened, [=, this, model = std::string(model)] {
    OpenNow(tenant, model, id, idle_timeout, opened, terms);
  });
}

void SessionManager::OpenNow(const std::string& tenant, std::string_view model,
                             std::optional<SessionId> id,
                             std::optional<absl::Duration> idle_timeout, Opened opened,
                             const SessionTerms& terms) {
  SessionMaking making(tenant, id, "session_id", idle_timeout);
  const auto chosen = options_.aliases->Choose(model, making.new_id, terms.ask, Served());
  const absl::StatusOr<FoundEngine> found = FindNamed(model, chosen);
  // A repeat of a call that has named an alias gets its session, whatever the alias chooses now,
  // and if the alias was deleted.
  const bool may_be_deleted = !chosen.has_value() && absl::IsNotFound(found.status()) &&
                              id.has_value() && CheckName("model", model).ok();
  if (!chosen.has_value() && !found.ok() && !may_be_deleted) return opened(found.status());
  if (may_be_deleted) opened = UnlessInUse(found.status(), std::move(opened));
  if (absl::Status s = CheckStored(terms, options_.store != nullptr); !s.ok()) return opened(s);
  making.durable = options_.store != nullptr && terms.durability != Durability::kMemory;
  making.ttl = terms.ttl;
  making.ComeBy(chosen);
  making.origin = absl::StrCat(
      chosen.has_value() || may_be_deleted ? absl::StrCat("open-alias ", std::string(model))
                                           : absl::StrCat("open ", found->engine->model().name()),
      " ", TimeoutText(idle_timeout), " ", static_cast<int>(terms.recompute), " ",
      making.durable ? "durable" : "in memory", TextOf(terms.ask), TtlText(terms.ttl));
  making.again = [=, this, model = std::string(model)] {
    OpenNow(tenant, model, id, idle_timeout, opened, terms);
  };
  if (AnswerRepeat(making, opened)) return;
  if (!found.ok()) {
    CountSession(chosen, found.status());
    return opened(found.status());
  }
  const std::shared_ptr<Engine>& engine = found->engine;
  absl::StatusOr<Made> made = MakeSession(engine, making, /*source=*/nullptr);
  if (!made.ok()) {
    // An equal call may have made the session meanwhile.
    if (absl::IsAlreadyExists(made.status()) && AnswerRepeat(making, opened)) return;
    // Another version may have the name now.
    if (engine->unloading()) {
      return OpenNow(tenant, model, id, idle_timeout, std::move(opened), terms);
    }
    CountSession(chosen, made.status());
    return opened(made.status());
  }
  made->lease.state().recompute = terms.recompute;
  if (making.durable && !id.has_value()) opened = InTimeOrClose(tenant, std::move(opened));
  Engine::Done done = WhenMade(made->lease.session(), found->hold, std::move(opened));
  if (!making.durable) return engine->Open(std::move(made->lease), std::move(done));
  // std::function can only hold what can be copied.
  auto lease = std::make_shared<TurnLease>(std::move(made->lease));
  const std::shared_ptr<SessionTurns>& turns = made->turns;
  SessionTurns::Head head;
  head.properties = PropertiesOf(*lease);
  // The store has microseconds, of which 0 is none.
  if (terms.ttl.has_value()) head.properties.ttl = absl::Ceil(*terms.ttl, absl::Microseconds(1));
  turns->SetHead(std::move(head));
  AddToStore(*lease, *turns, [lease, engine, done = std::move(done)](const absl::Status& status) {
    if (status.ok()) return engine->Open(std::move(*lease), done);
    lease->session()->Close();
    lease->Drop();
    done(status);
  });
}

Engine::Done SessionManager::WhenMade(std::shared_ptr<Session> session, std::shared_ptr<void> hold,
                                      Opened opened) {
  return [this, session = std::move(session), hold = std::move(hold),
          opened = std::move(opened)](const absl::Status& status) {
    CountMade(*session, status);
    if (!status.ok()) {
      // First, so that a repeat of the call that finds no session in memory waits for the store.
      const std::optional<ServedSession> made = sessions_.Of(*session);
      const bool is_stored =
          made.has_value() && made->turns->durable() && made->turns->version() > 0;
      std::shared_ptr<void> closing = is_stored ? Closing(session->key()) : nullptr;
      const bool is_first = Remove(*session).has_value();
      if (is_first && is_stored) RemoveMade(made->turns, std::move(closing));
    } else if (fleet_ != nullptr && session->View().durable) {
      const std::optional<ServedSession> made = sessions_.Of(*session);
      if (made.has_value()) fleet_->Opened(*made);
    }
    std::vector<Opened> callers;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = making_.find(session.get());
      if (found != making_.end()) {
        callers = std::move(found->second);
        making_.erase(found);
      }
    }
    callers.push_back(opened);
    for (const Opened& caller : callers) {
      status.ok() ? caller(Described(*session)) : caller(status);
    }
  };
}

void SessionManager::CloseSession(const SessionKey& key, Closed closed) {
  if (fleet_ != nullptr && fleet_->Shares(key)) return fleet_->Close(key, std::move(closed));
  const absl::StatusOr<ServedSession> served = FindServed(key);
  if (!served.ok() && options_.store != nullptr) return CloseStored(key, std::move(closed));
  if (!served.ok()) return closed(served.status());
  CloseNow(served->session, std::move(closed));
}

void SessionManager::CloseNow(const std::shared_ptr<Session>& session, Closed closed) {
  // First, so that a call that finds the session closed knows whether it stays in the store.
  std::shared_ptr<void> closing = session->View().durable ? Closing(session->key()) : nullptr;
  if (session->Close()) return Release(session, std::move(closing), std::move(closed));
  closing.reset();
  // It may have expired meanwhile, or its model was unloaded: then the session is only in the
  // store, or soon.
  const bool stays = session->View().durable && !IsClosing(session->key());
  if (stays) return CloseStored(session->key(), std::move(closed));
  closed(ended_.Explain(session->key()));
}

absl::StatusOr<std::vector<TurnView>> SessionManager::ListTurns(const SessionKey& key,
                                                                uint64_t begin, size_t limit,
                                                                uint64_t* next) const {
  const absl::StatusOr<ServedSession> served = FindServed(key);
  if (served.ok() && (fleet_ == nullptr || fleet_->IsCurrent(*served))) {
    return served->turns->List(begin, limit, next);
  }
  if (options_.store == nullptr) return served.status();
  // A list needs no model, so the session stays where it is.
  const absl::StatusOr<store::SessionRow> row = RowOf(key);
  if (!row.ok()) return row.status();
  return SessionTurns::ListOf(options_.store, *row, begin, limit, next);
}

void SessionManager::Release(const std::shared_ptr<Session>& session, std::shared_ptr<void> closing,
                             Closed closed) {
  const std::optional<ServedSession> removed = Remove(*session);
  const bool leaves_store = closing != nullptr;
  if (!removed.has_value()) {  // it has moved, and another version will read it from the store
    closing.reset();
    return leaves_store ? CloseStored(session->key(), std::move(closed))
                        : closed(ended_.Explain(session->key()));
  }
  std::shared_ptr<SessionTurns> turns = leaves_store ? removed->turns : nullptr;
  if (leaves_store) closed = AnswerInTime(&timers_, CommitTimeout(), std::move(closed));
  if (fleet_ != nullptr && !leaves_store && session->View().durable) {
    fleet_->Evicted(session->key());
  }
  removed->engine->Close(session, [this, turns = std::move(turns), closing = std::move(closing),
                                   closed = std::move(closed)](uint64_t position) mutable {
    heap_trim_.NoteWork();
    if (turns == nullptr) return closed(position);
    RemoveFromStore(turns, position, std::move(closing), closed);
  });
}

SessionView SessionManager::Described(const Session& session) const {
  SessionView view = session.View();
  const std::optional<ServedSession> served = sessions_.Of(session);
  if (served.has_value()) served->turns->Describe(&view);
  return view;
}

absl::StatusOr<SessionView> SessionManager::View(const SessionKey& key) const {
  if (fleet_ != nullptr) return fleet_->View(key);
  const absl::StatusOr<ServedSession> served = FindServed(key);
  return served.ok() ? Described(*served->session) : StoredView(key);
}

SessionPage SessionManager::List(const std::string& tenant, const std::optional<SessionId>& after,
                                 size_t limit, const SessionFilter& filter) const {
  // With one session more than the page holds, there is another page.
  SessionPage page;
  for (const std::shared_ptr<Session>& session : sessions_.List(tenant, after, limit + 1, filter)) {
    // The rows of a fleet say more than this replica's memory.
    if (fleet_ == nullptr || !session->View().durable) {
      page.sessions.push_back(Described(*session));
    }
  }
  AddStoredViews(tenant, after, limit + 1, filter, &page);
  if (page.sessions.size() > limit) {
    page.sessions.resize(limit);
    page.next = page.sessions.back().id;
  }
  return page;
}

size_t SessionManager::NumTurns() const {
  size_t turns = 0;
  for (const std::shared_ptr<Engine>& engine : models_->Engines()) turns += engine->num_turns();
  return turns;
}

bool SessionManager::StoreHangs() const {
  return options_.commits != nullptr && options_.commits->BusyFor() >= kLastCommits;
}

void SessionManager::Drain(absl::Duration grace, const std::function<void()>& grace_over) {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  for (const std::shared_ptr<Engine>& engine : models_->Engines()) engine->BeginDrain();
  const MonotonicTime until = MonotonicTime::Now() + grace;
  while (NumTurns() > 0 && MonotonicTime::Now() < until) absl::SleepFor(kDrainPeriod);
  if (grace_over) grace_over();
  const MonotonicTime last = MonotonicTime::Now() + kLastCommits;
  // Repeat this: a turn may have passed its check for draining just before, and may start after the
  // first round.
  while (NumTurns() > 0 && (MonotonicTime::Now() < last || !StoreHangs())) {
    for (const std::shared_ptr<Engine>& engine : models_->Engines()) {
      engine->BeginDrain();  // its model may have been loaded meanwhile
      engine->AbortAll(
          absl::UnavailableError("the server is shutting down and the grace time has passed"));
    }
    absl::SleepFor(kDrainPeriod);
  }
  for (const std::shared_ptr<Engine>& engine : models_->Engines()) {
    engine->DismissReaders(
        absl::UnavailableError("the server is shutting down, and the store has not answered; send "
                               "the request again with the same turn_id"));
  }
  drained_ = true;
  timers_.CallBy(MonotonicTime::Now() + kLastCommits);
}

void SessionManager::FlushEngines() const {
  for (const std::shared_ptr<Engine>& engine : models_->Engines()) engine->Flush();
}

void SessionManager::StopSaving() {
  reads_.Stop();
  if (keeper_ == nullptr) return;
  FlushEngines();  // the caches of turns that have ended are being saved now
  keeper_->Stop();
}

void SessionManager::TrimHeap(MonotonicTime now) {
  const auto measure = [] { return HeapTrim::Memory{AnonymousMemory(), mallinfo2().fordblks}; };
  const bool has_turns = NumTurns() > 0;
  // mallinfo2 locks the heap's arenas, one after the other.
  if (!has_turns) heap_trim_.Measure(measure());
  if (heap_trim_.IsCacheDue(now)) {
    for (const std::shared_ptr<Engine>& engine : models_->Engines()) engine->ReturnIdleMemory();
  }
  if (!heap_trim_.IsDue(now, has_turns, sessions_.size() > 0)) return;
  malloc_trim(0);
  heap_trim_.SetTrimmed(measure());
}

void SessionManager::PublishTenants() const {
  if (options_.metrics == nullptr || !models_->tenants().are_configured()) return;
  for (const std::shared_ptr<Tenant>& tenant : models_->tenants().all()) {
    const TenantUse use = tenant->use();
    TenantMetrics::Use shown{use.sessions, use.host_bytes, use.cache_bytes, use.turns, use.tokens};
    for (size_t i = 0; i < kNumQuotas; ++i) {
      shown.refusals.emplace_back(NameOf(static_cast<Quota>(i)), use.refusals[i]);
    }
    options_.metrics->SetTenant(tenant->name(), shown);
  }
}

void SessionManager::ExpireSessions() {
  MemoryRoom room(models_->host_memory(), &models_->tenants(), &sessions_, options_.least_idle);
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kExpiryPeriod)) return;
    }
    if (options_.metrics != nullptr) {
      options_.metrics->SetHostBytes(models_->host_memory()->held_bytes());
    }
    PublishTenants();
    const MonotonicTime now = MonotonicTime::Now();
    const auto expire = [this, now](const std::shared_ptr<Session>& session,
                                    absl::Duration most_idle) {
      // A call that looks for the session again, alone, finds it in the table or in the store.
      const std::shared_ptr<void> alone = alone_.Try(session->key());
      if (alone == nullptr || !session->CloseIfExpired(now, most_idle)) return false;
      Release(session, /*closing=*/nullptr, [](const absl::StatusOr<uint64_t>&) {});
      return true;
    };
    for (const std::shared_ptr<Session>& session : sessions_.Expired(now)) {
      expire(session, absl::InfiniteDuration());
    }
    for (const MemoryRoom::Leaving& leaving : room.Choose(now)) {
      if (expire(leaving.session, room.least_idle()) && options_.metrics != nullptr) {
        options_.metrics->CountEarlyRelease(leaving.reason);
      }
    }
    CloseExpired();
    if (fleet_ != nullptr) fleet_->SettleArrived(now);
    TrimHeap(now);
  }
}

}  // namespace longstream
