// Turns, changes and ends of sessions that a fleet shares.
#include "service/serving/fleet_calls.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/answer_in_time.h"

namespace longstream {
namespace {

absl::Status HasMoved(const SessionKey& key) {
  return absl::AbortedError(absl::StrCat("session ", key.id.ToString(),
                                         " has changed on another server; send the request again"));
}

// An expired session whose owner is another replica is closed by that one, or, if it has ended, by
// any other this much later.
constexpr absl::Duration kExpiryOfOthers = absl::Minutes(5);

}  // namespace

FleetCalls::FleetCalls(SessionManager* manager, fleet::SessionGate* gate)
    : manager_(manager), gate_(gate), copies_(&manager->sessions_, ServiceOf(manager)) {}

ServedCopies::Service FleetCalls::ServiceOf(SessionManager* manager) {
  ServedCopies::Service service;
  service.find_model = [models = manager->models_](const std::string& model) {
    return models->Find(model);
  };
  service.find_tenant = [models = manager->models_](const std::string& name) {
    return models->tenants().Find(name);
  };
  service.remove = [manager](const ServedSession& served) { manager->EndInMemory(served); };
  service.restore = [this, manager](const fleet::Fence& at,
                                    const std::function<void(const absl::Status&)>& done) {
    manager->RunRead({at.key.tenant, at.key.id}, done,
                     [this, at, done] { done(RestoreArrived(at)); });
  };
  service.lost = [gate = gate_](const SessionKey& key, const absl::Status& why) {
    gate->CachesLost(key, why);
  };
  return service;
}

bool FleetCalls::Shares(const SessionKey& key) const {
  const absl::StatusOr<ServedSession> served = manager_->sessions_.Find(key);
  return !served.ok() || IsShared(*served);
}

absl::Status FleetCalls::Explained(const SessionKey& key, const absl::Status& status) const {
  return absl::IsNotFound(status) ? manager_->ended_.Explain(key) : status;
}

// ---------------------------------------------------------------- turns

void FleetCalls::LoadTurn(const SessionKey& key, const std::optional<TurnId>& id, Loaded loaded,
                          Relayed relayed) {
  const Wanted wanted{key, id.value_or(TurnId::Random()), id.has_value()};
  gate_->EnterTurn(key, wanted.turn,
                   [this, pending = manager_->Pending(), wanted, loaded = std::move(loaded),
                    relayed = std::move(relayed)](absl::StatusOr<fleet::Entry> entry) {
                     Enter(wanted, std::move(entry), loaded, relayed);
                   });
}

void FleetCalls::AttachRunning(const SessionKey& key, const TurnId& id, Loaded loaded) {
  const Wanted wanted{key, id, /*is_named=*/true};
  gate_->AttachRunning(key, id,
                       [this, pending = manager_->Pending(), wanted,
                        loaded = std::move(loaded)](absl::StatusOr<fleet::Entry> entry) {
                         Enter(wanted, std::move(entry), loaded, nullptr);
                       });
}

void FleetCalls::Enter(const Wanted& wanted, absl::StatusOr<fleet::Entry> entry,
                       const Loaded& loaded, const Relayed& relayed) {
  if (!entry.ok()) return loaded(Explained(wanted.key, entry.status()));
  switch (entry->how) {
    case fleet::Entry::How::kUse:
      break;
    case fleet::Entry::How::kReplay:
      return manager_->Read<NewTurn>(
          {wanted.key.tenant, wanted.key.id},
          [this, wanted] { return ReplayOf(wanted.key, wanted.turn); }, loaded);
    case fleet::Entry::How::kRelay:
      if (relayed) return relayed(*entry);
      gate_->RelayEnded(entry->relay, absl::AbortedError("not relayed"));
      return loaded(absl::AbortedError(
          absl::StrCat("turn_id: turn ", wanted.turn.ToString(), " is running on another server")));
    case fleet::Entry::How::kClosed:
      return loaded(manager_->ended_.Explain(wanted.key));
  }
  const Use use = std::move(entry->use);
  if (std::optional<absl::StatusOr<NewTurn>> turn = TurnInMemory(wanted, use); turn.has_value()) {
    return loaded(*std::move(turn));
  }
  const Loaded in_time = AnswerInTime(&manager_->timers_, manager_->CommitTimeout(), loaded, {},
                                      "send the request again");
  manager_->RunRead({wanted.key.tenant, wanted.key.id}, in_time,
                    [this, wanted, use, in_time] { LoadUsed(wanted, use, in_time); });
}

bool FleetCalls::Fits(const ServedSession& served, const Wanted& wanted,
                      const fleet::SessionUse& use) {
  return served.turns->stored().log->IsAt(use.fence()) || served.turns->IsRunning(wanted.turn);
}

std::optional<absl::StatusOr<NewTurn>> FleetCalls::TurnInMemory(const Wanted& wanted,
                                                                const Use& use) {
  // Null: another call restores the session, and perhaps its caches.
  const std::shared_ptr<void> alone = manager_->alone_.Try(wanted.key);
  if (alone == nullptr) return std::nullopt;
  const absl::StatusOr<FoundSession> found = manager_->FindInMemory(wanted.key);
  if (!found.ok() || !IsShared(found->served) || !Fits(found->served, wanted, *use) ||
      copies_.HasArrived(use->fence())) {
    return std::nullopt;
  }
  const bool is_known =
      !wanted.is_named || found->served.turns->IsRunning(wanted.turn) ||
      (!use->resumes() && found->served.turns->LookInMemory(wanted.turn).has_value());
  if (!is_known) return std::nullopt;
  return MakeUsed(found->served, wanted, use);
}

absl::StatusOr<NewTurn> FleetCalls::MakeUsed(const ServedSession& served, const Wanted& wanted,
                                             const Use& use) {
  manager_->heap_trim_.NoteWork();
  std::optional<SessionTurns::Looked> looked;
  if (wanted.is_named) {
    const absl::StatusOr<SessionTurns::Looked> found =
        use->resumes() ? served.turns->LookStarted(wanted.turn) : served.turns->Look(wanted.turn);
    if (!found.ok()) return found.status();
    looked = *found;
  }
  absl::StatusOr<NewTurn> turn = manager_->MakeTurn(served, looked);
  if (turn.ok()) turn->SetUse(use, wanted.turn);
  return turn;
}

void FleetCalls::LoadUsed(const Wanted& wanted, const Use& use, const Loaded& loaded) {
  absl::StatusOr<Arriving> arriving = FindFor(wanted, *use);
  if (!arriving.ok()) return loaded(arriving.status());
  if (!arriving->caches.valid()) return loaded(MakeUsed(arriving->found.served, wanted, use));
  Attach(*std::move(arriving),
         [this, wanted, use, loaded](const std::shared_ptr<FoundSession>& held) {
           manager_->RunRead(
               {wanted.key.tenant, wanted.key.id}, loaded,
               [this, wanted, use, loaded, held] { loaded(MakeUsed(held->served, wanted, use)); });
         });
}

void FleetCalls::Attach(Arriving arriving,
                        std::function<void(std::shared_ptr<FoundSession>)> then) {
  const std::shared_ptr<Session> session = arriving.found.served.session;
  std::move(arriving.caches)
      .Attach(session, [this, pending = manager_->Pending(), alone = std::move(arriving.alone),
                        // The session does not expire meanwhile.
                        held = std::make_shared<FoundSession>(std::move(arriving.found)),
                        then = std::move(then)](const absl::Status& attached) mutable {
        if (!attached.ok()) gate_->CachesLost(held->served.session->key(), attached);
        SessionMetrics* const metrics = manager_->options_.metrics;
        if (attached.ok() && metrics != nullptr) metrics->CountRestore("peer", "ok");
        alone = nullptr;
        then(std::move(held));
      });
}

absl::StatusOr<FleetCalls::Arriving> FleetCalls::FindFor(const Wanted& wanted,
                                                         const fleet::SessionUse& use) {
  const SessionKey& key = wanted.key;
  const absl::StatusOr<std::shared_ptr<void>> alone = manager_->alone_.Wait(key);
  if (!alone.ok()) return alone.status();
  // As in FindOrRestore, a session may leave the memory when it has been found.
  for (const bool is_last : {false, true}) {
    absl::StatusOr<ServedSession> served = manager_->FindServed(key);
    if (served.ok() && manager_->IsBeingMade(*served->session)) return HasMoved(key);
    if (served.ok() && !Fits(*served, wanted, use)) {
      copies_.RemoveStale(*served);
      served = absl::NotFoundError("");
    }
    if (!served.ok()) {
      if (manager_->IsClosing(key)) break;
      const absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
      if (!row.ok()) return Explained(key, row.status());
      if (row->epoch != use.fence().epoch || row->version != use.fence().version) {
        return HasMoved(key);
      }
      served = manager_->Restore(*row);
      if (!served.ok()) return served.status();
    }
    AwaitedSession awaited(served->session);
    if (!served->session->closed()) {
      ArrivedCaches caches = copies_.TakeArrived(use.fence(), *served->engine);
      const bool arrives = caches.valid();
      return Arriving{
          {*std::move(served), std::move(awaited)}, std::move(caches), arrives ? *alone : nullptr};
    }
    if (is_last || manager_->IsClosing(key)) break;
  }
  return manager_->ended_.Explain(key);
}

absl::StatusOr<FoundSession> FleetCalls::Find(const SessionKey& key, const fleet::SessionUse& use) {
  // No turn of the session has this id.
  absl::StatusOr<Arriving> arriving = FindFor({key, TurnId::Random(), false}, use);
  if (!arriving.ok()) return arriving.status();
  if (!arriving->caches.valid()) return std::move(arriving->found);
  struct Attached {
    FoundSession found;
    absl::Notification done;
  };
  // Shared with the engine, which may be late.
  const auto attached = std::make_shared<Attached>();
  Attach(*std::move(arriving), [attached](const std::shared_ptr<FoundSession>& held) {
    attached->found = std::move(*held);
    attached->done.Notify();
  });
  // This is a thread that reads the store. It may wait, because the engine attaches the caches
  // between two of its steps: that takes about as long as a slow read.
  if (!attached->done.WaitForNotificationWithTimeout(manager_->options_.engine_patience)) {
    return absl::UnavailableError(
        "the model was too busy to give the session its caches; send the request again");
  }
  return std::move(attached->found);
}

// ---------------------------------------------------------------- changes

absl::StatusOr<SessionManager::Leased> FleetCalls::FindAndLease(const SessionKey& key,
                                                                const fleet::SessionUse& use) {
  absl::StatusOr<FoundSession> found = Find(key, use);
  if (!found.ok()) return found.status();
  absl::StatusOr<TurnLease> lease = TurnLease::Take(found->served.session);
  if (!lease.ok()) return lease.status();
  if (absl::Status home = found->served.session->CheckHome(found->served.engine.get());
      !home.ok()) {
    return home;
  }
  return SessionManager::Leased{std::move(found->served), *std::move(lease)};
}

void FleetCalls::ChangeLeased(const ServedSession& served, std::function<void(Use)> change) {
  gate_->EnterChangeHere(
      served.session->key(), [pending = manager_->Pending(), turns = served.turns,
                              change = std::move(change)](absl::StatusOr<fleet::Entry> entry) {
        const bool may_change =
            entry.ok() && entry->use != nullptr && turns->stored().log->IsAt(entry->use->fence());
        change(may_change ? std::move(entry->use) : nullptr);
      });
}

void FleetCalls::Close(const SessionKey& key, SessionManager::Closed closed) {
  closed = AnswerInTime(&manager_->timers_, manager_->CommitTimeout(), std::move(closed));
  gate_->EnterClose(key, [this, pending = manager_->Pending(), key,
                          closed = std::move(closed)](absl::StatusOr<fleet::Entry> entry) {
    if (!entry.ok()) return closed(Explained(key, entry.status()));
    if (entry->how != fleet::Entry::How::kUse) return closed(manager_->ended_.Explain(key));
    manager_->RunRead(
        {key.tenant, key.id}, closed,
        [this, key, use = std::move(entry->use), closed] { CloseNow(key, use, closed); });
  });
}

// This is a change for the gate, because an end would stop the turn of a client that came at the
// last moment.
void FleetCalls::CloseExpired(const store::SessionRow& row, SessionManager::Closed closed) {
  const SessionKey& key = row.key;
  closed = [this, key, closed = std::move(closed)](const absl::StatusOr<uint64_t>& position) {
    if (position.ok()) Evicted(key);
    closed(position);
  };
  Change(key, closed,
         [this, at = store::Fence{key, row.epoch, row.version}, closed](const Use& use) {
           if (use->fence().epoch != at.epoch || use->fence().version != at.version) {
             return closed(absl::AbortedError("the session is in use"));
           }
           CloseNow(at.key, use, closed);
         });
}

void FleetCalls::CloseNow(const SessionKey& key, const Use& use,
                          const SessionManager::Closed& closed) {
  absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
  if (!row.ok()) return closed(Explained(key, row.status()));
  const absl::StatusOr<SessionView> view = manager_->ViewOf(*row);
  const uint64_t position = view.ok() ? view->position : row->position;
  std::shared_ptr<void> closing;
  {
    const absl::StatusOr<std::shared_ptr<void>> alone = manager_->alone_.Wait(key);
    if (!alone.ok()) return closed(alone.status());
    closing = manager_->Closing(key);  // none restores it from now on
  }
  const absl::StatusOr<ServedSession> served = manager_->sessions_.Find(key);
  if (served.ok() && IsShared(*served)) manager_->EndInMemory(*served);
  manager_->options_.commits->Submit(
      store::CloseSession{key, use->fence(), absl::Now()},
      [this, pending = manager_->Pending(), key, use, position, closing = std::move(closing),
       closed](const absl::StatusOr<store::Applied>& applied) mutable {
        if (applied.ok()) manager_->ReturnStored(key);
        use->Changed(applied.status());
        closing.reset();
        applied.ok() ? closed(position) : closed(applied.status());
      });
}

absl::StatusOr<store::SessionRow> FleetCalls::OwnRowAt(const store::Fence& at) const {
  absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(at.key);
  if (!row.ok()) return row;
  const bool fits = row->owner == manager_->options_.owner && row->epoch == at.epoch &&
                    row->version == at.version;
  return fits ? std::move(row) : HasMoved(at.key);
}

// Until the transaction has been made, the row is as the peer had it: then the caches wait on.
absl::Status FleetCalls::RestoreArrived(const store::Fence& at) {
  const absl::StatusOr<std::shared_ptr<void>> alone = manager_->alone_.Wait(at.key);
  if (!alone.ok()) return alone.status();
  // Caches are taken, and given to their session, only by a call that is alone with it. So another
  // one has done that meanwhile, and a turn may run.
  if (!copies_.HasArrived(at)) return absl::OkStatus();
  if (manager_->IsClosing(at.key)) return manager_->ended_.Explain(at.key);
  absl::StatusOr<ServedSession> served = manager_->FindServed(at.key);
  TurnLease lease;
  if (served.ok()) {
    if (!IsShared(*served) || manager_->IsBeingMade(*served->session)) return HasMoved(at.key);
    // A turn that was loaded before the caches came goes on without them.
    lease = TurnLease::TakeUnused(served->session);
    if (!lease || !served->turns->IsSettled()) return absl::OkStatus();
  }
  const absl::StatusOr<store::SessionRow> row = OwnRowAt(at);
  if (!row.ok()) return row.status();
  if (served.ok() && !IsCurrent(*served, *row)) {
    lease.Drop();
    copies_.RemoveStale(*served);
    served = absl::NotFoundError("");
  }
  const bool is_new = !served.ok();
  if (is_new) served = manager_->Restore(*row);
  if (!served.ok()) return served.status();
  AwaitedSession awaited(served->session);
  ArrivedCaches caches = copies_.TakeArrived(at, *served->engine);
  lease.Drop();
  if (is_new && HasLeft(at.key)) {
    copies_.RemoveStale(*served);
    if (caches.valid()) gate_->CachesLost(at.key, HasMoved(at.key));
    return HasMoved(at.key);
  }
  if (!caches.valid()) return absl::OkStatus();
  // A turn that came before the caches would compute them.
  Attach({{*std::move(served), std::move(awaited)}, std::move(caches), *alone},
         [](const std::shared_ptr<FoundSession>& /*held*/) {});
  return absl::OkStatus();
}

// Another replica may have taken the session just before it was in memory, so it was not dropped.
// A row of this replica may have another version meanwhile: Keep tells the copy, or has come too
// early for it, and then the next call does not use the copy.
bool FleetCalls::HasLeft(const SessionKey& key) const {
  const absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
  return row.ok() ? row->owner != manager_->options_.owner : absl::IsNotFound(row.status());
}

// Another call is alone with the session until it has caches that were taken for it.
absl::StatusOr<std::shared_ptr<void>> FleetCalls::AloneWithCaches(const SessionKey& key) {
  const std::optional<store::Fence> waiting = copies_.WaitingFor(key);
  if (waiting.has_value()) (void)RestoreArrived(*waiting);
  return manager_->alone_.Wait(key);
}

void FleetCalls::SettleArrived(MonotonicTime now) {
  RestoreAllArrived();
  for (const SessionKey& key : copies_.FreeLate(now)) {
    gate_->CachesLost(key, absl::DeadlineExceededError(
                               "caches: they have waited for too long, or their model goes"));
    if (!manager_->sessions_.Find(key).ok()) Evicted(key);
  }
}

// One read at a time, whatever the number of caches that wait: the store may be slow, or hang.
void FleetCalls::RestoreAllArrived() {
  std::vector<store::Fence> waiting = copies_.Waiting();
  if (waiting.empty()) return;
  manager_->RunReadAlone(&restoring_, [this, waiting = std::move(waiting)] {
    for (const store::Fence& at : waiting) (void)RestoreArrived(at);
  });
}

bool FleetCalls::CountsSessionsOf(const std::string& owner) const {
  return owner == manager_->options_.owner || (!Lives(owner) && gate_->IsFirst());
}

bool FleetCalls::MayExpire(const store::SessionRow& row) const {
  const bool is_own = row.owner.empty() || row.owner == manager_->options_.owner;
  return is_own || (!Lives(row.owner) && row.delete_time + kExpiryOfOthers < absl::Now());
}

}  // namespace longstream
