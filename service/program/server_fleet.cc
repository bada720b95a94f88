// Connects the parts of a replica: database, peers, driver and sessions.
#include "service/program/server_fleet.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/clock/monotonic_time.h"
#include "service/config/read_fleet.h"
#include "service/server/to_proto.h"
#include "service/server/turn_reactor.h"
#include "service/serving/fleet_calls.h"

namespace longstream {
namespace {

// How long the start waits for the database.
constexpr absl::Duration kJoinPatience = absl::Seconds(30);
// How often the log tells how many sessions are left.
constexpr absl::Duration kProgress = absl::Seconds(1);
// A drain begins when the database has said which replicas there are, or after this time.
constexpr absl::Duration kLastRenewal = absl::Seconds(2);
// The end of the time for handovers: the driver ends what is being done, and the lease is released.
constexpr absl::Duration kLastEvents = absl::Seconds(1);

store::PostgresFleet::Options FleetOptions(const ServerConfig& config,
                                           const store::PostgresStore::Options& store) {
  store::PostgresFleet::Options options;
  options.url = store.url;
  options.password = store.password;
  options.timeout = config.fleet.lease_ttl / 4;
  return options;
}

PeerClient::Options ClientOptions(const ServerConfig& config, const ServerSecurity& security) {
  PeerClient::Options options;
  options.channels.certificates = security.certificates();
  options.channels.plaintext_tokens = config.security.plaintext_tokens;
  if (security.fleet_token() != nullptr) {
    options.channels.token = [token = security.fleet_token()] { return token->Get(); };
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerFleet>> ServerFleet::Join(const ServerConfig& config,
                                                               const ServerSecurity& security,
                                                               ServerStore* store,
                                                               const JsonLog* log,
                                                               prometheus::Registry* registry) {
  if (!config.fleet.enabled()) return nullptr;
  const absl::StatusOr<store::PostgresStore::Options> database = PostgresOptionsOf(config);
  if (!database.ok()) return database.status();
  auto fleet = std::make_unique<store::PostgresFleet>(FleetOptions(config, *database));
  const absl::StatusOr<fleet::ReplicaName> name =
      fleet::ReplicaLease::Join(fleet.get(), ReplicaIdOf(config.fleet), kJoinPatience);
  if (!name.ok()) return name.status();
  log->Write(LogLevel::kInfo, "fleet_joined", {{"replica", *name}});
  return std::unique_ptr<ServerFleet>(
      new ServerFleet(config, security, store, log, registry, std::move(fleet), *name));
}

ServerFleet::ServerFleet(const ServerConfig& config, const ServerSecurity& security,
                         ServerStore* store, const JsonLog* log, prometheus::Registry* registry,
                         std::unique_ptr<store::PostgresFleet> fleet,
                         const fleet::ReplicaName& name)
    : config_(config),
      log_(log),
      name_(name),
      metrics_(registry),
      connections_(registry, "peer"),
      store_(std::move(fleet)),
      driver_(DriverOptions(name), store_.get(), store->commits()),
      client_(ClientOptions(config, security)) {}

ServerFleet::~ServerFleet() { Stop(); }

fleet::FleetDriverOptions ServerFleet::DriverOptions(const fleet::ReplicaName& name) {
  fleet::FleetDriverOptions options;
  options.self = name;
  options.redirect = config_.fleet.foreign == "redirect";
  options.times.commit = config_.store_commit_timeout;
  options.times.residency = config_.fleet.min_residency;
  options.metrics = &metrics_;
  options.on_refused = [this](const fleet::ReplicaName& peer, const absl::Status& why) {
    const auto line = refusals_.Pass(why.ToString(), LineLimit::Clock::now());
    if (!line.has_value()) return;
    log_->Write(LogLevel::kWarning, "peer_refuses", {{"peer", peer}, {"error", *line}});
  };
  options.on_lost_caches = [this](const fleet::LostCaches& lost) {
    const bool is_sent = lost.where == fleet::LostCaches::Where::kSent;
    if (!is_sent && restores_ != nullptr) restores_->CountRestore("peer", lost.reason);
    const auto line = lost_caches_.Pass(lost.why.ToString(), LineLimit::Clock::now());
    if (!line.has_value()) return;
    log_->Write(LogLevel::kWarning, "caches_lost",
                {{"op", lost.op},
                 {"reason", lost.reason},
                 {"session", lost.session.id.ToString()},
                 {"peer", lost.peer},
                 {"error", *line}});
  };
  options.on_exit = [this](bool release_lease) { OnExit(release_lease); };
  return options;
}

void ServerFleet::AddTo(SessionManager::Options* options) {
  restores_ = options->metrics;
  options->gate = &driver_;
  options->owner = name_;
}

void ServerFleet::Drive(SessionManager* sessions) {
  sessions_ = sessions;
  client_.SetSelf(name_);
  client_.SetEvents(&driver_);
  driver_.Start(&sessions->fleet()->copies(), &client_);
}

absl::Status ServerFleet::Start(const GrpcServer& server, const GrpcServer::Options& options) {
  threads_.emplace(/*num_threads=*/1, config_.max_transit_bytes);
  PeerServer::Options peers;
  peers.listen = config_.fleet.peer_listen;
  peers.guard = options.guard;
  peers.certificates = options.certificates;
  peers.client_certificates = options.client_certificates;
  peers.max_message_bytes = options.max_message_bytes;
  peers.max_transit_bytes = options.max_transit_bytes;
  peers.on_call_end = options.on_call_end;
  peers.connection_metrics = &connections_;
  peers.attach = [this](grpc::CallbackServerContext* context, AttachCall call) {
    return NewAttachReactor(context, std::move(call), sessions_, &*threads_, &calls_);
  };
  peers.cancel = [this](const SessionKey& session, const TurnId& turn, const auto& cancelled) {
    sessions_->CancelRunning(session, turn, [cancelled](const absl::StatusOr<TurnView>& view) {
      if (!view.ok()) return cancelled(view.status());
      v1::Turn message;
      ToProto(*view, &message);
      cancelled(message);
    });
  };
  absl::StatusOr<std::unique_ptr<PeerServer>> listening = PeerServer::Start(peers, &client_);
  if (!listening.ok()) return listening.status();
  server_ = *std::move(listening);
  fleet::ReplicaLease::Options lease;
  lease.ttl = config_.fleet.lease_ttl;
  lease.self.name = name_;
  lease.self.peer_address =
      AdvertisedAddress(config_.fleet.peer_address, config_.fleet.peer_listen, server_->port());
  lease.self.client_address =
      AdvertisedAddress(config_.fleet.client_address, config_.listen, server.port());
  fleet::LeaseEvents* const events = this;  // which only this class may know
  lease_ = std::make_unique<fleet::ReplicaLease>(store_.get(), events, lease);
  log_->Write(LogLevel::kInfo, "fleet",
              {{"replica", name_},
               {"peer_address", lease.self.peer_address},
               {"client_address", lease.self.client_address}});
  return absl::OkStatus();
}

void ServerFleet::OnExit(bool release_lease) {
  // Nothing is left here. A turn of a session in memory may still use the time for turns.
  {
    absl::MutexLock lock(&mutex_);
    releasing_ = releasing_ || release_lease;
  }
  if (release_lease) lease_->BeginRelease();
  {
    absl::MutexLock lock(&mutex_);
    exited_ = true;
    if (release_lease || draining_) return;
    replaced_ = true;
  }
  log_->Write(LogLevel::kError, "fleet_replaced",
              {{"replica", name_},
               {"error", absl::StrCat("a later start of this replica has taken its place; two "
                                      "servers have fleet.replica_id: ",
                                      ReplicaIdOf(config_.fleet),
                                      ", or this one was started again while it still ran")}});
  kill(getpid(), SIGTERM);
}

bool ServerFleet::replaced() const {
  absl::MutexLock lock(&mutex_);
  return replaced_;
}

bool ServerFleet::WaitForExit(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&exited_), timeout);
}

void ServerFleet::LeaseOver() {
  driver_.LeaseOver();
  metrics_.SetLeaseLeft(absl::ZeroDuration());
  {
    absl::MutexLock lock(&mutex_);
    if (releasing_ || std::exchange(lease_lost_, true)) return;
  }
  log_->Write(
      LogLevel::kError, "lease_lost",
      {{"replica", name_},
       {"error", absl::StrCat("the database has not renewed the lease for fleet.lease_ttl, ",
                              absl::FormatDuration(config_.fleet.lease_ttl),
                              "; no session is served until it does")}});
}

void ServerFleet::UpdateMetrics() {
  const fleet::FleetCounts counts = driver_.Counts();
  metrics_.SetSessions(counts.sessions);
  metrics_.SetToHandOver(counts.drain.waiting + counts.drain.offered);
}

MonotonicTime ServerFleet::Drain(SessionManager& sessions, absl::Duration goodbye) {
  const MonotonicTime grace_over = end_ - config_.drain_timeout;
  goodbye = std::min(goodbye, config_.drain_timeout / 4);
  BeginDrain(grace_over);
  sessions.Drain(grace_over - MonotonicTime::Now(), [this] { driver_.GraceOver(); });
  HandOver(end_ - 2 * goodbye);
  Stop();
  return end_ - goodbye;
}

void ServerFleet::LimitEnd() {
  end_ = MonotonicTime::Now() + config_.grace + config_.drain_timeout;
  exit_.Set(end_, [this] {
    log_->Write(LogLevel::kWarning, "stopped",
                {{"error", "grace and drain_timeout are over, and not all parts had ended"}});
    std::_Exit(replaced() ? 1 : 0);
  });
}

void ServerFleet::BeginDrain(MonotonicTime deadline) {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    renewed_ = false;
  }
  lease_->BeginDrain();
  {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&renewed_),
                            std::min(kLastRenewal, deadline - MonotonicTime::Now()));
  }
  driver_.BeginDrain();
}

void ServerFleet::LeaseRenewed(const fleet::RenewedLease& renewed) {
  driver_.LeaseRenewed(renewed);
  metrics_.SetLeaseLeft(config_.fleet.lease_ttl);
  UpdateMetrics();
  bool was_lost = false;
  {
    absl::MutexLock lock(&mutex_);
    renewed_ = true;
    was_lost = std::exchange(lease_lost_, false);
  }
  if (was_lost) log_->Write(LogLevel::kInfo, "lease_renewed", {{"replica", name_}});
}

void ServerFleet::HandOver(MonotonicTime deadline) {
  const absl::Duration whole = std::max(deadline - MonotonicTime::Now(), absl::ZeroDuration());
  const MonotonicTime until = deadline - std::min(kLastEvents, whole / 4);
  const auto report = [this](const char* event) {
    UpdateMetrics();
    const fleet::FleetCounts counts = driver_.Counts();
    log_->Write(LogLevel::kInfo, event,
                {{"handed_over", absl::StrCat(counts.handed_over)},
                 {"waiting", absl::StrCat(counts.drain.waiting)},
                 {"offered", absl::StrCat(counts.drain.offered)},
                 {"busy", absl::StrCat(counts.drain.busy)}});
  };
  while (MonotonicTime::Now() < until) {
    if (WaitForExit(std::min(kProgress, until - MonotonicTime::Now()))) break;
    report("handing_over");
  }
  driver_.DrainOver();
  WaitForExit(std::min(kLastEvents, deadline - MonotonicTime::Now()));
  report("handed_over");
  {
    absl::MutexLock lock(&mutex_);
    releasing_ = true;
  }
  const absl::Status released = lease_->Release(deadline);
  if (released.ok()) return;
  log_->Write(LogLevel::kWarning, "fleet",
              {{"error", absl::StrCat("the lease ends by itself: ", released.message())}});
}

void ServerFleet::Stop() {
  driver_.Stop();
  lease_ = nullptr;
  if (server_ != nullptr) server_->Shutdown();
  server_ = nullptr;
  client_.SetEvents(nullptr);
  threads_.reset();
}

}  // namespace longstream
