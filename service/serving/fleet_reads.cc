// Reads of sessions that a fleet shares: another replica may have changed them.
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/serving/fleet_calls.h"

namespace longstream {

bool FleetCalls::IsCurrent(const ServedSession& served, const store::SessionRow& row) {
  return served.turns->stored().log->IsAt({row.key, row.epoch, row.version});
}

bool FleetCalls::IsCurrent(const ServedSession& served) const {
  if (!IsShared(served) || manager_->IsBeingMade(*served.session)) return true;
  const absl::StatusOr<store::SessionRow> row =
      manager_->options_.store->Session(served.session->key());
  return row.ok() && IsCurrent(served, *row);
}

absl::Status FleetCalls::RemoveIfStale(const SessionKey& key) {
  const absl::StatusOr<ServedSession> served = manager_->sessions_.Find(key);
  if (!served.ok() || !IsShared(*served)) return absl::OkStatus();
  // While the lease is held, nothing changes the copy.
  TurnLease lease = TurnLease::TakeUnused(served->session);
  if (!lease || !served->turns->IsSettled()) return absl::OkStatus();
  const absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
  const bool is_stale = absl::IsNotFound(row.status()) || (row.ok() && !IsCurrent(*served, *row));
  lease.Drop();
  if (is_stale) copies_.RemoveStale(*served);
  return row.ok() || is_stale ? absl::OkStatus() : row.status();
}

absl::StatusOr<SessionView> FleetCalls::View(const SessionKey& key) const {
  const absl::StatusOr<ServedSession> served = manager_->FindServed(key);
  if (served.ok() && IsCurrent(*served)) return manager_->Described(*served->session);
  return manager_->StoredView(key);
}

void FleetCalls::Opened(const ServedSession& served) {
  const store::Fence at = served.turns->stored().log->fence();
  gate_->Opened(at.key, at.epoch, at.version);
}

absl::StatusOr<SessionManager::Leased> FleetCalls::LeaseToRead(const SessionKey& key) {
  absl::StatusOr<std::shared_ptr<void>> alone = AloneWithCaches(key);
  if (!alone.ok()) return alone.status();
  const absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
  if (!row.ok()) return Explained(key, row.status());
  absl::StatusOr<FoundSession> found = manager_->FindInMemory(key);
  if (found.ok() && IsCurrent(found->served, *row)) {
    absl::StatusOr<TurnLease> lease = TurnLease::Take(found->served.session);
    if (lease.ok()) return SessionManager::Leased{std::move(found->served), *std::move(lease)};
    const bool turn_runs =
        absl::IsAborted(lease.status()) && !manager_->IsBeingMade(*found->served.session);
    if (!turn_runs) return lease.status();
    // As on every other replica, the committed head is read.
  }
  *alone = nullptr;
  const absl::StatusOr<FoundEngine> engine = manager_->FindVersionOf(*row);
  if (!engine.ok()) return SessionManager::NotServed(*row, engine.status());
  absl::StatusOr<ServedSession> copy = manager_->Restored(*row, engine->engine);
  if (!copy.ok()) return copy.status();
  absl::StatusOr<TurnLease> lease = TurnLease::Take(copy->session);
  if (!lease.ok()) return lease.status();
  return SessionManager::Leased{*std::move(copy), *std::move(lease)};
}

absl::StatusOr<NewTurn> FleetCalls::HistoryOf(const SessionKey& key) {
  absl::StatusOr<SessionManager::Leased> leased = LeaseToRead(key);
  if (!leased.ok()) return leased.status();
  leased->lease.Drop();  // the caller copies the tokens
  return manager_->MakeTurn(leased->served, std::nullopt);
}

absl::StatusOr<ServedSession> FleetCalls::WithoutState(const store::SessionRow& row,
                                                       const std::shared_ptr<Engine>& engine) {
  const absl::StatusOr<LoggedProperties> properties = DecodeProperties(row.properties);
  if (!properties.ok()) return properties.status();
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant =
      manager_->models_->tenants().Find(row.key.tenant);
  if (!tenant.ok()) return tenant.status();
  const ServedModel& model = engine->model();
  TurnLease lease =
      TurnLease::OfNewSession(row.key.id, model.name(), model.backend().info().context_limit,
                              properties->idle_timeout, (*tenant)->host_memory(), *tenant);
  const std::shared_ptr<Session> session = lease.session();
  session->set_alias(properties->alias);
  session->SetRestored(row.create_time, row.last_use_time, row.forked_from);
  if (absl::Status status = lease.ChargeNew(/*source=*/nullptr); !status.ok()) return status;
  auto turns = std::make_shared<SessionTurns>(session, manager_->StoredOf(*session, *engine));
  turns->stored().log->SetVersion(row.epoch, row.version);
  return ServedSession{session, std::move(turns), engine};
}

absl::StatusOr<NewTurn> FleetCalls::ReplayOf(const SessionKey& key, const TurnId& turn) {
  const absl::StatusOr<store::SessionRow> row = manager_->options_.store->Session(key);
  if (!row.ok()) return Explained(key, row.status());
  const absl::StatusOr<FoundEngine> engine = manager_->FindVersionOf(*row);
  if (!engine.ok()) return SessionManager::NotServed(*row, engine.status());
  const absl::StatusOr<ServedSession> copy = WithoutState(*row, engine->engine);
  if (!copy.ok()) return copy.status();
  const absl::StatusOr<SessionTurns::Looked> looked = copy->turns->Look(turn);
  if (!looked.ok()) return looked.status();
  absl::StatusOr<NewTurn> replay = manager_->MakeTurn(*copy, *looked);
  if (replay.ok()) replay->SetReplayOnly();
  return replay;
}

}  // namespace longstream
