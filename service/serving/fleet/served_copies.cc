// Drops, stops and copies sessions in memory for the fleet.
#include "service/serving/fleet/served_copies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/serving/caches/cache_keys.h"
#include "service/serving/turns/session_turns.h"

namespace longstream {
namespace {

// Between two looks whether caches can be read: a reader waits for a few milliseconds, or for long.
constexpr absl::Duration kShortestPeriod = absl::Milliseconds(2);
constexpr absl::Duration kLongestPeriod = absl::Milliseconds(50);

absl::Status ServerStops() { return absl::UnavailableError("the server is shutting down"); }

// UNAVAILABLE would say that the session is in use, and NOT_FOUND that it was evicted.
absl::Status NotRestored(const absl::Status& why) {
  const std::string text = absl::StrCat("the session was not restored: ", why.message());
  const bool means_else = absl::IsUnavailable(why) || absl::IsNotFound(why);
  return means_else ? absl::AbortedError(text) : absl::Status(why.code(), text);
}

absl::Status TooManyWait() {
  return absl::ResourceExhaustedError(
      absl::StrCat("caches: those of ", kMostArrivedCaches, " sessions wait already"));
}

}  // namespace

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
  const auto is_from = [&from](const fleet::Fence& at) {
    return at.epoch == from.epoch && at.version == from.version;
  };
  {
    absl::MutexLock lock(&arrived_->mutex);
    const auto waiting = arrived_->waiting.find(from.key);
    if (waiting != arrived_->waiting.end() && is_from(waiting->second.at)) waiting->second.at = to;
    const auto taken = arrived_->taken.find(from.key);
    if (taken != arrived_->taken.end() && is_from(taken->second)) taken->second = to;
  }
  const std::optional<ServedSession> served = FindAt(from);
  if (served.has_value()) served->turns->stored().log->SetVersion(to.epoch, to.version);
}

// ---------------------------------------------------------------- caches that leave

absl::Status ServedCopies::FindCaches(const fleet::Fence& at) const {
  if (HasArrived(at)) return absl::OkStatus();
  const std::optional<ServedSession> served = FindAt(at);
  if (!served.has_value()) return absl::NotFoundError("the session is not in memory");
  if (!served->engine->model().backend().CanSnapshot()) {
    return absl::UnimplementedError("the backend of the model cannot copy caches");
  }
  const SessionView view = served->session->View();
  // The turn that has just been committed may not have ended.
  if (view.bytes.kv + view.bytes.window + view.bytes.state > 0 || view.turn_running) {
    return absl::OkStatus();
  }
  return view.position == 0 ? absl::OutOfRangeError("the session has no tokens")
                            : absl::NotFoundError("the caches of the session were evicted");
}

void ServedCopies::ReadCaches(const fleet::Fence& at, std::function<void(Reading)> ready) {
  const auto reader = std::make_shared<Reader>(
      Reader{at, std::move(ready), MonotonicTime::Now() + kReadPatience, kShortestPeriod});
  bool has_ended = false;
  {
    absl::MutexLock lock(&reading_mutex_);
    has_ended = reads_ended_;
    readers_.insert(reader);
  }
  has_ended ? Refuse(reader, ServerStops()) : TryToRead(reader);
}

void ServedCopies::StopReading() {
  std::set<std::shared_ptr<Reader>> readers;
  {
    absl::MutexLock lock(&reading_mutex_);
    reads_ended_ = true;
    readers = readers_;
  }
  for (const std::shared_ptr<Reader>& reader : readers) Refuse(reader, ServerStops());
}

std::function<void(ServedCopies::Reading)> ServedCopies::TakeReady(
    const std::shared_ptr<Reader>& reader) {
  absl::MutexLock lock(&reading_mutex_);
  readers_.erase(reader);
  return std::exchange(reader->ready, nullptr);
}

void ServedCopies::Refuse(const std::shared_ptr<Reader>& reader, const absl::Status& why) {
  const std::function<void(Reading)> ready = TakeReady(reader);
  if (ready) ready(why);
}

// The gate lets no turn and no change begin meanwhile. But the last one may not have ended, an
// earlier reader or a fork may hold the lease, or the session is being given the caches that have
// arrived for it. All of these take a moment.
void ServedCopies::TryToRead(const std::shared_ptr<Reader>& reader) {
  {
    absl::MutexLock lock(&reading_mutex_);
    if (reader->ready == nullptr) return;
  }
  if (!HasArrived(reader->at)) {
    const std::optional<ServedSession> served = FindAt(reader->at);
    if (!served.has_value()) {
      return Refuse(reader, absl::NotFoundError("the session has left memory"));
    }
    if (served->engine->unloading()) {
      return Refuse(reader, absl::NotFoundError("the model is being unloaded"));
    }
    TurnLease lease = TurnLease::TakeUnused(served->session);
    // The session may have changed before the lease was taken.
    if (lease && FindAt(reader->at).has_value()) {
      std::function<void(Reading)> ready = TakeReady(reader);
      return ready ? BeginToRead(*served, std::move(lease), std::move(ready)) : void();
    }
  } else if (!std::exchange(reader->has_asked, true)) {
    service_.restore(reader->at, [this, reader](const absl::Status& restored) {
      if (!restored.ok()) Refuse(reader, NotRestored(restored));
    });
  }
  const MonotonicTime now = MonotonicTime::Now();
  if (now >= reader->until) {
    return Refuse(reader, absl::UnavailableError("the session was in use for too long"));
  }
  const absl::Duration period = reader->period;
  reader->period = std::min(2 * period, kLongestPeriod);
  timers_.Set(now + period, [this, reader] { TryToRead(reader); });
}

void ServedCopies::BeginToRead(const ServedSession& served, TurnLease lease,
                               std::function<void(Reading)> ready) {
  // Shared, because std::function can only hold what can be copied.
  const auto charge = std::make_shared<std::unique_ptr<CacheCharge>>(
      std::make_unique<CacheCharge>(served.session->tenant()));
  CacheCharge* const counted = charge->get();
  served.engine->BeginSnapshot(
      std::move(lease), counted,
      [charge, engine = served.engine, session = served.session,
       ready = std::move(ready)](absl::StatusOr<Snapshot> snapshot) {
        if (!snapshot.ok()) return ready(snapshot.status());
        PeerCachesHeader header;
        header.model = engine->model().name();
        header.identity = ModelIdentity::Of(engine->model());
        // This is the engine thread, which may read the caches.
        SessionCaches& caches = session->caches();
        if (!snapshot->valid()) {
          if (!caches.sequence.valid()) {
            return ready(absl::NotFoundError("the caches of the session were evicted"));
          }
          return ready(caches.sequence.position() == 0
                           ? absl::OutOfRangeError("the caches have read no tokens")
                           : absl::ResourceExhaustedError("the tenant's quota has no room"));
        }
        if (!caches.other_kernels.empty()) header.identity.kernels = caches.other_kernels;
        header.position = snapshot->info().position;
        header.span_bytes = snapshot->info().span_bytes;
        header.fixed_bytes = snapshot->info().fixed_bytes;
        ready(std::make_shared<PeerCachesReader>(engine, std::move(*charge), *std::move(snapshot),
                                                 header));
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
      return ready(TooManyWait());
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
            std::move(caches), bytes, [arrived, at](ArrivedCaches complete) -> absl::Status {
              const MonotonicTime until = MonotonicTime::Now() + kArrivedCachesWait;
              Arrived::Waiting freed;  // after the lock
              absl::MutexLock lock(&arrived->mutex);
              const bool has_place =
                  arrived->waiting.size() < kMostArrivedCaches || arrived->waiting.contains(at.key);
              if (arrived->ended) return ServerStops();
              if (!has_place) return TooManyWait();
              Arrived::Waiting& waiting = arrived->waiting[at.key];
              freed = std::exchange(waiting, {at, std::move(complete), until});
              return absl::OkStatus();
            }));
      });
}

ArrivedCaches ServedCopies::TakeArrived(const fleet::Fence& at, const Engine& engine) {
  Arrived::Waiting taken;
  {
    absl::MutexLock lock(&arrived_->mutex);
    const auto found = arrived_->waiting.find(at.key);
    if (found == arrived_->waiting.end()) return {};
    // The transaction that gives the session to this replica is being made.
    if (found->second.at.epoch > at.epoch) return {};
    taken = std::move(found->second);
    arrived_->waiting.erase(found);
    arrived_->taken.insert_or_assign(at.key, taken.at);
  }
  taken.caches.SetMark(std::shared_ptr<void>(nullptr, [arrived = arrived_, key = at.key](void*) {
    absl::MutexLock lock(&arrived->mutex);
    arrived->taken.erase(key);
  }));
  return CheckArrived(std::move(taken), at, engine);
}

ArrivedCaches ServedCopies::CheckArrived(Arrived::Waiting taken, const fleet::Fence& at,
                                         const Engine& engine) {
  const bool is_at = taken.at.epoch == at.epoch && taken.at.version == at.version;
  if (is_at && taken.caches.engine().get() == &engine) return std::move(taken.caches);
  service_.lost(at.key,
                is_at ? absl::FailedPreconditionError("caches: the session has another model now")
                      : absl::AbortedError("caches: the session has changed since they were sent"));
  return {};
}

std::optional<fleet::Fence> ServedCopies::ArrivedFor(const SessionKey& session) const {
  absl::MutexLock lock(&arrived_->mutex);
  const auto waiting = arrived_->waiting.find(session);
  if (waiting != arrived_->waiting.end()) return waiting->second.at;
  const auto taken = arrived_->taken.find(session);
  if (taken != arrived_->taken.end()) return taken->second;
  return std::nullopt;
}

std::optional<fleet::Fence> ServedCopies::WaitingFor(const SessionKey& session) const {
  absl::MutexLock lock(&arrived_->mutex);
  const auto waiting = arrived_->waiting.find(session);
  if (waiting == arrived_->waiting.end()) return std::nullopt;
  return waiting->second.at;
}

bool ServedCopies::HasArrived(const fleet::Fence& at) const {
  const std::optional<fleet::Fence> arrived = ArrivedFor(at.key);
  return arrived.has_value() && arrived->epoch == at.epoch && arrived->version == at.version;
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
