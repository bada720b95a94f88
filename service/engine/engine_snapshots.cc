// Snapshots of sessions' caches, and caches that are made from them.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/engine.h"
#include "service/engine/policy/turn_demand.h"

namespace longstream {

void Engine::BeginSnapshot(TurnLease session, CacheCharge* charge,
                           std::function<void(absl::StatusOr<Snapshot>)> done) {
  Post([this, lease = std::move(session), charge, done = std::move(done)]() mutable {
    const Session& of = *lease.session();
    const Sequence& sequence = lease.session()->caches().sequence;
    absl::StatusOr<Snapshot> snapshot = Snapshot();
    if (of.closed()) {
      snapshot = NoSession(of.id());
    } else if (sequence.valid() && sequence.position() > 0 && model_->backend().CanSnapshot()) {
      const uint64_t bytes = TurnDemand::CacheBytes(model_->backend().info(), sequence.position());
      const bool fits =
          WithQuota(of.tenant().get(), bytes, &of, [&] { return charge->TryGrow(bytes); });
      if (fits) snapshot = MakeSnapshot(sequence, 0);
      if (!snapshot.ok()) charge->Set(0);
    }
    lease.Drop();
    done(std::move(snapshot));
  });
}

absl::StatusOr<Snapshot> Engine::MakeSnapshot(const Sequence& sequence, uint64_t from) {
  absl::StatusOr<Snapshot> snapshot = model_->backend().BeginSnapshot(sequence, from);
  if (snapshot.ok()) snapshot_bytes_ += snapshot->info().span_bytes;
  return snapshot;
}

void Engine::BeginImport(uint64_t position, std::shared_ptr<Tenant> tenant, CacheCharge* charge,
                         std::function<void(absl::StatusOr<SnapshotImport>)> done) {
  Post([this, position, tenant = std::move(tenant), charge, done = std::move(done)] {
    absl::StatusOr<SnapshotImport> import = SnapshotImport();
    const auto begin = [&]() -> absl::Status {
      import = model_->backend().BeginImport(position);
      return import.status();
    };
    const uint64_t wanted = TurnDemand::Held(model_->backend().info(), position);
    absl::Status status = ChargeCaches(tenant, nullptr, *charge, wanted);
    if (status.ok()) status = WithRoomOrReason(wanted, nullptr, "import", begin);
    if (!status.ok()) {
      charge->Set(0);
      import = std::move(status);
    }
    done(std::move(import));
  });
}

absl::Status Engine::AttachCaches(const std::shared_ptr<Session>& session, SnapshotImport import,
                                  std::optional<std::string> other_kernels) {
  absl::StatusOr<TurnLease> lease = TurnLease::Take(session);
  if (!lease.ok()) return lease.status();
  if (absl::Status status = session->CheckHome(this); !status.ok()) return status;
  SessionCaches& caches = session->caches();
  if (caches.sequence.valid()) {
    return absl::AbortedError(
        absl::StrCat("session ", session->id().ToString(), " has caches already"));
  }
  absl::StatusOr<Sequence> sequence = import.Attach();
  if (!sequence.ok()) return sequence.status();
  const uint64_t end = lease->state().feed.end();
  if (sequence->position() > end) {
    return absl::DataLossError(absl::StrCat("the caches have read ", sequence->position(),
                                            " tokens, the session at most ", end));
  }
  if (sequence->position() < end) {
    caches.recompute_reason = "the snapshot of the session's caches was of an earlier position";
  }
  const uint64_t bytes = TurnDemand::CacheBytes(model_->backend().info(), sequence->position());
  absl::Status charged =
      ChargeCaches(session->tenant(), session.get(), session->cache_charge(), bytes);
  if (!charged.ok()) return charged;
  caches.sequence = *std::move(sequence);
  session->ChargeCaches();
  caches.evicted = caches.restored = false;
  const bool from_peer = other_kernels.has_value();
  caches.other_kernels =
      from_peer ? *std::move(other_kernels) : std::string(kFromFile) + session->id().ToString();
  caches.peer_position = from_peer ? caches.sequence.position() : 0;
  caches.span_ends.clear();
  caches.restored_at = MonotonicTime::Now();
  lease->Publish();
  return absl::OkStatus();
}

void Engine::Attach(std::shared_ptr<Session> session, SnapshotImport import, Done done,
                    std::optional<std::string> other_kernels) {
  Post([this, session = std::move(session), import = std::move(import), done = std::move(done),
        other_kernels = std::move(other_kernels)]() mutable {
    const absl::Status status = AttachCaches(session, std::move(import), std::move(other_kernels));
    session.reset();
    done(status);
  });
}

// The destructors of the arguments must run on the engine thread.
void Engine::Free(Snapshot snapshot) {
  Post([this, snapshot = std::move(snapshot)]() mutable {
    snapshot_bytes_ -= snapshot.info().span_bytes;
    snapshot = Snapshot();
  });
}

void Engine::Free(SnapshotImport import) {
  Post([import = std::move(import)]() mutable { import = SnapshotImport(); });
}

}  // namespace longstream
