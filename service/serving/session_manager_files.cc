// Sessions as files: exports and imports.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/fleet_calls.h"
#include "service/serving/session_manager.h"

namespace longstream {
namespace {

absl::Status NeedsStore(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(
      what, "; a file is made of the session's log, which only a server with --store has"));
}

}  // namespace

void SessionManager::ExportSession(const SessionKey& key, Exported exported, bool sealed) {
  const SessionId& id = key.id;
  if (options_.store == nullptr) {
    return exported(
        sessions_.Find(key).ok()
            ? NeedsStore(absl::StrCat("session_id: session ", id.ToString(), " lives in memory"))
            : ended_.Explain(key));
  }
  if (sealed && options_.files.sealing.keys == nullptr) {
    return exported(absl::FailedPreconditionError(
        "sealed: the server has no keys; its configuration names a key file with store.keys"));
  }
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant = models_->tenants().Find(key.tenant);
  if (!tenant.ok()) return exported(ended_.Explain(key));
  const absl::StatusOr<std::shared_ptr<TransferPlace>> place = transfers_.Take(*tenant);
  if (!place.ok()) return exported(place.status());
  exported =
      AnswerInTime(&timers_, CommitTimeout(), std::move(exported), {}, "send the request again");
  // The place is free again before the caller gets an error. After a success, the export has it.
  exported = [place = *place, exported = std::move(exported)](auto made) {
    if (!made.ok()) place->Return();
    exported(std::move(made));
  };
  RunRead({key.tenant, key.id}, exported, [this, key, exported, sealed, place = *place] {
    ExportNow(key, exported, sealed, place);
  });
}

void SessionManager::ExportNow(const SessionKey& key, const Exported& exported, bool sealed,
                               const std::shared_ptr<TransferPlace>& place) {
  const SessionId& id = key.id;
  std::optional<TurnLease> lease;
  std::shared_ptr<Engine> on;
  std::shared_ptr<SessionTurns> turns;  // of the lease
  absl::StatusOr<std::shared_ptr<void>> alone = nullptr;
  if (fleet_ != nullptr) alone = fleet_->AloneWithCaches(key);
  if (!alone.ok()) return exported(alone.status());
  if (const absl::StatusOr<FoundSession> found = FindInMemory(key); found.ok()) {
    const ServedSession& served = found->served;
    on = served.engine;
    turns = served.turns;
    if (!served.turns->durable()) {
      return exported(
          NeedsStore(absl::StrCat("session_id: session ", id.ToString(), " lives in memory")));
    }
    // While the lease is held, the row has the head of the caches.
    absl::StatusOr<TurnLease> taken = TurnLease::Take(served.session);
    // Its model may have been unloaded meanwhile: then the session is only in the store.
    const bool has_left = !sessions_.Of(*served.session).has_value() && !IsClosing(key);
    const bool is_stale = fleet_ != nullptr && !fleet_->IsCurrent(served);
    if (!taken.ok() && !is_stale && !(has_left && absl::IsNotFound(taken.status()))) {
      return exported(taken.status());
    }
    if (taken.ok() && !has_left) lease = *std::move(taken);
  }
  *alone = nullptr;
  if (!lease.has_value() && IsClosing(key)) return exported(ended_.Explain(key));
  absl::StatusOr<store::SessionRow> row = options_.store->Session(key);
  if (!row.ok()) {
    lease.reset();  // the session is free before the caller learns of the error
    return exported(absl::IsNotFound(row.status()) ? ended_.Explain(key) : row.status());
  }
  // Another replica may have changed the session; then only the log is right.
  if (lease.has_value() && fleet_ != nullptr &&
      !turns->stored().log->IsAt({row->key, row->epoch, row->version})) {
    lease.reset();
  }
  const auto export_with = [store = options_.store, row = *std::move(row), place,
                            sealing = sealed ? options_.files.sealing : Sealing()](
                               std::shared_ptr<Engine> engine, Snapshot snapshot) {
    return std::make_shared<SessionExport>(store, row, std::move(engine), std::move(snapshot),
                                           sealing, place);
  };
  if (!lease.has_value() || !models_->Check(*on).ok()) {
    lease.reset();
    return exported(export_with(nullptr, Snapshot()));
  }
  on->BeginSnapshot(
      *std::move(lease), &place->caches(),
      [pending = Pending(), export_with, on, exported](absl::StatusOr<Snapshot> snapshot) {
        if (!snapshot.ok()) return exported(snapshot.status());
        exported(export_with(on, *std::move(snapshot)));
      });
}

absl::StatusOr<std::shared_ptr<SessionImport>> SessionManager::ImportSession(
    const std::string& tenant, const SessionImport::Wanted& wanted) {
  if (options_.store == nullptr) return NeedsStore("the server has no store");
  {
    absl::MutexLock lock(&mutex_);
    if (draining_) return absl::UnavailableError("the server is draining");
  }
  if (wanted.idle_timeout.has_value()) {
    if (absl::Status status = CheckIdleTimeout(*wanted.idle_timeout); !status.ok()) return status;
  }
  const absl::StatusOr<std::shared_ptr<Tenant>> found = models_->tenants().Find(tenant);
  if (!found.ok()) return found.status();
  absl::StatusOr<std::shared_ptr<TransferPlace>> place = transfers_.Take(*found);
  if (!place.ok()) return place.status();
  heap_trim_.NoteWork();
  SessionImport::Service service;
  service.aliases = options_.aliases;
  service.find_model = [this](
                           std::string_view model,
                           std::shared_ptr<void>* hold) -> absl::StatusOr<std::shared_ptr<Engine>> {
    absl::StatusOr<FoundEngine> engine = FindModel(model);
    if (!engine.ok()) return engine.status();
    *hold = std::move(engine->hold);
    return std::move(engine->engine);
  };
  service.tenant = *found;
  service.place = *std::move(place);
  service.restoring = RestoringOptions((*found)->host_memory());
  service.files = options_.files;
  service.max_idle_timeout = options_.max_idle_timeout;
  service.ttl = options_.ttl;
  service.max_ttl = options_.max_ttl;
  service.check_id = [this, tenant](const SessionId& id,
                                    std::function<void(absl::Status)> checked) {
    checked =
        AnswerInTime(&timers_, CommitTimeout(), std::move(checked), {}, "send the file again");
    RunRead({tenant, id}, checked,
            [this, key = SessionKey{tenant, id}, checked] { checked(CheckUnused(key)); });
  };
  service.commit = [this, of = *found](store::ImportSession change,
                                       std::function<void(absl::StatusOr<store::Fence>)> done) {
    if (absl::Status status = of->TakeSession(); !status.ok()) return done(std::move(status));
    change.row.key.tenant = of->name();
    change.row.owner = options_.owner;
    const SessionKey key = change.row.key;
    // A session whose commit is late is restored when it is used, without the caches of the file.
    const auto late = [this](const absl::StatusOr<store::Fence>& made) {
      if (made.ok() && fleet_ != nullptr) fleet_->Evicted(made->key);
    };
    done = AnswerInTime(&timers_, CommitTimeout(), std::move(done), {late});
    options_.commits->Submit(
        std::move(change), [this, pending = Pending(), key, of,
                            done = std::move(done)](const absl::StatusOr<store::Applied>& applied) {
          applied.ok() ? of->MoveSessionToStore() : of->ReturnSession();
          if (!applied.ok()) return done(applied.status());
          if (options_.gate != nullptr) {
            options_.gate->Opened(key, applied->epoch, applied->version);
          }
          done(store::Fence{key, applied->epoch, applied->version});
        });
  };
  service.restore = [this](const store::Fence& made, const std::shared_ptr<Engine>& engine,
                           SnapshotImport import, Opened opened) {
    RestoreImported(made, engine, std::move(import), std::move(opened));
  };
  return std::make_shared<SessionImport>(std::move(service), wanted);
}

void SessionManager::CountTransfer(const char* op, const absl::Status& status,
                                   uint64_t bytes) const {
  if (options_.metrics == nullptr) return;
  options_.metrics->CountTransfer(op, absl::StatusCodeToString(status.code()), bytes);
}

absl::Status SessionManager::CheckUnused(const SessionKey& key) const {
  absl::Status found = sessions_.Find(key).status();
  if (!found.ok()) found = options_.store->Session(key).status();
  if (absl::IsNotFound(found)) return absl::OkStatus();
  if (!found.ok()) return found;
  return absl::AlreadyExistsError(absl::StrCat("session_id: ", key.id.ToString(), " is in use"));
}

void SessionManager::RestoreImported(const store::Fence& made,
                                     const std::shared_ptr<Engine>& engine, SnapshotImport import,
                                     Opened opened) {
  // std::function can only hold what can be copied.
  const auto held = std::make_shared<SnapshotImport>(std::move(import));
  opened = InTime(std::move(opened));
  const auto refused = [this, made, engine, held, opened](const absl::Status& status) {
    if (held->valid()) engine->Free(std::move(*held));
    if (fleet_ != nullptr) fleet_->Evicted(made.key);
    opened(
        absl::Status(status.code(), absl::StrCat("the session was imported, and is restored when "
                                                 "it is used: ",
                                                 status.message())));
  };
  RunRead({made.key.tenant, made.key.id}, refused, [this, made, engine, held, opened] {
    RestoreImportedNow(made, engine, std::move(*held), opened);
  });
}

void SessionManager::RestoreImportedNow(const store::Fence& made,
                                        const std::shared_ptr<Engine>& engine,
                                        SnapshotImport import, const Opened& opened) {
  const absl::StatusOr<FoundSession> found = FindOrRestore(made.key);
  // The caches are of the engine on which the import began, and of the history that it has made:
  // another call may have changed the session meanwhile.
  const bool fits =
      found.ok() && found->served.engine == engine && found->served.turns->stored().log->IsAt(made);
  if (!fits) {
    if (import.valid()) engine->Free(std::move(import));
    if (!found.ok() && fleet_ != nullptr) fleet_->Evicted(made.key);
    // A session in the store is restored when it is used.
    return opened(found.ok() ? Described(*found->served.session) : StoredView(made.key));
  }
  const std::shared_ptr<Session>& session = found->served.session;
  if (!import.valid()) return opened(Described(*session));
  // Without its caches, the session computes them in its next turn. So every outcome is good.
  engine->Attach(session, std::move(import),
                 [this, pending = Pending(), session, opened](const absl::Status&) {
                   opened(Described(*session));
                 });
}

}  // namespace longstream
