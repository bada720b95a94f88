// Drops, stops and copies sessions in memory for the fleet.
#include "service/serving/fleet/served_copies.h"

#include "absl/strings/str_cat.h"
#include "service/serving/caches/cache_keys.h"
#include "service/serving/turns/session_turns.h"
#include "service/sessions/turn_lease.h"

namespace longstream {

ServedCopies::~ServedCopies() {
  std::map<SessionKey, Arrived::Waiting> freed;
  absl::MutexLock lock(&arrived_->mutex);
  arrived_->ended = true;
  freed.swap(arrived_->waiting);
}

std::optional<ServedSession> ServedCopies::Find(const SessionKey& session) const {
  absl::StatusOr<ServedSession> served = sessions_->Find(session);
  if (!served.ok() || !served->turns->durable()) return std::nullopt;
  return *std::move(served);
}

std::optional<ServedSession> ServedCopies::FindAt(const fleet::Fence& at) const {
  std::optional<ServedSession> served = Find(at.key);
  if (served.has_value() && !served->turns->stored().log->IsAt(at)) return std::nullopt;
  return served;
}

// ---------------------------------------------------------------- copies that end

void ServedCopies::RemoveStale(const ServedSession& served) const {
  served.turns->StopRunning(absl::AbortedError(
      absl::StrCat("session ", served.session->id().ToString(),
                   " has moved to another server; send the request again with the same turn_id")));
  service_.remove(served);
  served.engine->Wake();
}

void ServedCopies::Drop(const SessionKey& session) {
  ArrivedCaches freed;
  {
    absl::MutexLock lock(&arrived_->mutex);
    const auto found = arrived_->waiting.find(session);
    if (found != arrived_->waiting.end()) {
      freed = std::move(found->second.caches);
      arrived_->waiting.erase(found);
    }
  }
  const std::optional<ServedSession> served = Find(session);
  if (served.has_value()) RemoveStale(*served);
}

void ServedCopies::Stop(const SessionKey& session, const absl::Status& why) {
  const std::optional<ServedSession> served = Find(session);
  if (!served.has_value()) return;
  served->turns->StopRunning(why);
  served->engine->Wake();
}

void ServedCopies::Keep(const fleet::Fence& from, const fleet::Fence& to) {
  const std::optional<ServedSession> served = FindAt(from);
  if (served.has_value()) served->turns->stored().log->SetVersion(to.epoch, to.version);
}

// ---------------------------------------------------------------- caches that leave

bool ServedCopies::HasCaches(const fleet::Fence& at) const {
  const std::optional<ServedSession> served = FindAt(at);
  if (!served.has_value() || !served->engine->model().backend().CanSnapshot()) return false;
  const SessionBytes bytes = served->session->View().bytes;
  return bytes.kv + bytes.window + bytes.state > 0;
}

void ServedCopies::ReadCaches(const fleet::Fence& at,
                              std::function<void(std::shared_ptr<fleet::CacheReader>)> ready) {
  const std::optional<ServedSession> served = FindAt(at);
  if (!served.has_value() || served->engine->unloading()) return ready(nullptr);
  TurnLease lease = TurnLease::TakeUnused(served->session);
  // The session may have changed before the lease was taken.
  if (!lease || !FindAt(at).has_value()) return ready(nullptr);
  // Shared, because std::function can only hold what can be copied.
  const auto charge = std::make_shared<std::unique_ptr<CacheCharge>>(
      std::make_unique<CacheCharge>(served->session->tenant()));
  CacheCharge* const counted = charge->get();
  served->engine->BeginSnapshot(std::move(lease), counted,
                                [charge, engine = served->engine, session = served->session,
                                 ready = std::move(ready)](absl::StatusOr<Snapshot> snapshot) {
                                  if (!snapshot.ok() || !snapshot->valid()) return ready(nullptr);
                                  PeerCachesHeader header;
                                  header.model = engine->model().name();
                                  header.identity = ModelIdentity::Of(engine->model());
                                  // This is the engine thread, which may read the caches.
                                  const std::string& other = session->caches().other_kernels;
                                  if (!other.empty()) header.identity.kernels = other;
                                  header.position = snapshot->info().position;
                                  header.span_bytes = snapshot->info().span_bytes;
                                  header.fixed_bytes = snapshot->info().fixed_bytes;
                                  ready(std::make_shared<PeerCachesReader>(
                                      engine, std::move(*charge), *std::move(snapshot), header));
                                });
}

// ---------------------------------------------------------------- caches that arrive

void ServedCopies::TakeCaches(
    const SessionKey& session, const std::string& header, const fleet::Fence& at,
    std::function<void(absl::StatusOr<std::shared_ptr<fleet::CacheWriter>>)> ready) {
  const absl::StatusOr<PeerCachesHeader> read = PeerCachesHeader::Decode(header);
  if (!read.ok()) return ready(read.status());
  const absl::StatusOr<std::shared_ptr<Tenant>> tenant = service_.find_tenant(session.tenant);
  if (!tenant.ok()) return ready(tenant.status());
  const absl::StatusOr<std::shared_ptr<Engine>> engine = service_.find_model(read->model);
  if (!engine.ok()) return ready(engine.status());
  const ServedModel& model = (*engine)->model();
  const ModelIdentity identity = ModelIdentity::Of(model);
  if (!identity.HasCachesOf(read->identity) || !model.backend().CanSnapshot() ||
      read->position == 0 || read->position > model.backend().info().context_limit) {
    return ready(absl::FailedPreconditionError(
        absl::StrCat("caches: model ", read->model, " has others here")));
  }
  {
    absl::MutexLock lock(&arrived_->mutex);
    if (arrived_->waiting.size() >= kMostArrivedCaches) {
      return ready(absl::ResourceExhaustedError(
          absl::StrCat("caches: those of ", kMostArrivedCaches, " sessions wait already")));
    }
  }
  std::string other;
  if (read->identity.kernels != identity.kernels) {
    other = MixedKernels(read->identity.kernels, identity.kernels);
  }
  const auto charge =
      std::make_shared<std::unique_ptr<CacheCharge>>(std::make_unique<CacheCharge>(*tenant));
  CacheCharge* const counted = charge->get();
  const uint64_t bytes = read->span_bytes + read->fixed_bytes;
  (*engine)->BeginImport(
      read->position, *tenant, counted,
      [arrived = arrived_, charge, engine = *engine, at, other, bytes,
       ready = std::move(ready)](absl::StatusOr<SnapshotImport> import) {
        if (!import.ok()) return ready(import.status());
        ArrivedCaches caches(engine, std::move(*charge), *std::move(import), other);
        ready(std::make_shared<PeerCachesWriter>(
            std::move(caches), bytes, [arrived, at](ArrivedCaches complete) {
              const MonotonicTime until = MonotonicTime::Now() + kArrivedCachesWait;
              Arrived::Waiting freed;  // after the lock
              absl::MutexLock lock(&arrived->mutex);
              const bool has_place =
                  arrived->waiting.size() < kMostArrivedCaches || arrived->waiting.contains(at.key);
              if (arrived->ended || !has_place) return;
              Arrived::Waiting& waiting = arrived->waiting[at.key];
              freed = std::exchange(waiting, {at, std::move(complete), until});
            }));
      });
}

ArrivedCaches ServedCopies::TakeArrived(const fleet::Fence& at, const Engine& engine) {
  Arrived::Waiting taken;
  {
    absl::MutexLock lock(&arrived_->mutex);
    const auto found = arrived_->waiting.find(at.key);
    if (found == arrived_->waiting.end()) return {};
    taken = std::move(found->second);
    arrived_->waiting.erase(found);
  }
  const bool fits = taken.at.epoch == at.epoch && taken.at.version == at.version &&
                    taken.caches.engine().get() == &engine;
  return fits ? std::move(taken.caches) : ArrivedCaches();
}

std::vector<fleet::Fence> ServedCopies::Waiting() const {
  std::vector<fleet::Fence> waiting;
  absl::MutexLock lock(&arrived_->mutex);
  waiting.reserve(arrived_->waiting.size());
  for (const auto& [key, arrived] : arrived_->waiting) waiting.push_back(arrived.at);
  return waiting;
}

std::vector<SessionKey> ServedCopies::FreeLate(MonotonicTime now) {
  std::vector<SessionKey> sessions;
  std::vector<ArrivedCaches> freed;  // after the lock
  absl::MutexLock lock(&arrived_->mutex);
  for (auto it = arrived_->waiting.begin(); it != arrived_->waiting.end();) {
    if (it->second.until > now && !it->second.caches.engine()->unloading()) {
      ++it;
      continue;
    }
    sessions.push_back(it->first);
    freed.push_back(std::move(it->second.caches));
    it = arrived_->waiting.erase(it);
  }
  return sessions;
}

}  // namespace longstream
