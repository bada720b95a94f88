// Connects the store with the log and the metrics.
#include "service/program/server_store.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/config/read_store.h"
#include "service/security/watched_files.h"
#include "service/sessions/store/sqlite/sqlite_store.h"

namespace longstream {
namespace {

constexpr absl::Duration kUpdate = absl::Seconds(1);
// The first collection runs soon after the start, because a server may be started often.
constexpr absl::Duration kFirstCollection = absl::Minutes(1);
constexpr absl::Duration kCollection = absl::Hours(1);
constexpr absl::Duration kSegmentCollection = absl::Minutes(1);

// The errors of the store itself. The others are answers to the change, such as ABORTED.
bool IsError(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnknown(status) || absl::IsDataLoss(status) ||
         absl::IsResourceExhausted(status) || absl::IsInternal(status);
}

store::CommitQueue::Options QueueOptions(StoreMetrics* metrics) {
  store::CommitQueue::Options options;
  options.on_commit = [metrics](absl::Span<const absl::StatusOr<store::Applied>> results,
                                absl::Duration duration) {
    metrics->ObserveCommit(duration);
    for (const absl::StatusOr<store::Applied>& result : results) {
      if (IsError(result.status())) {
        metrics->CountError(absl::StatusCodeToString(result.status().code()));
      }
    }
  };
  return options;
}

StoreStateMetric MetricOf(store::StoreState state) {
  switch (state) {
    case store::StoreState::kOk:
      return StoreStateMetric::kOk;
    case store::StoreState::kFull:
      return StoreStateMetric::kFull;
    case store::StoreState::kReadOnly:
      return StoreStateMetric::kReadOnly;
    case store::StoreState::kUnreachable:
      return StoreStateMetric::kUnreachable;
  }
  return StoreStateMetric::kReadOnly;
}

const char* NameOf(StoreStateMetric state) {
  switch (state) {
    case StoreStateMetric::kOk:
      return "ok";
    case StoreStateMetric::kFull:
      return "full";
    case StoreStateMetric::kReadOnly:
      return "read_only";
    case StoreStateMetric::kSlow:
      return "slow";
    case StoreStateMetric::kUnreachable:
      return "unreachable";
  }
  return "";
}

}  // namespace

absl::StatusOr<Sealing> SealingOf(const ServerConfig& config) {
  Sealing sealing;
  if (config.store_keys.empty()) return sealing;
  absl::StatusOr<std::shared_ptr<const SealingKeys>> keys =
      SealingKeys::Read(config.store_keys, "store.keys");
  if (!keys.ok()) return keys.status();
  sealing.keys = *std::move(keys);
  if (config.store_compress == "zstd") sealing.compression = Compression::kZstd;
  return sealing;
}

absl::StatusOr<store::PostgresStore::Options> PostgresOptionsOf(const ServerConfig& config) {
  store::PostgresStore::Options options;
  options.url = config.store_url;
  options.commit_timeout = config.store_commit_timeout;
  options.require_standby = config.store_require_standby;
  options.segments = config.store_segments;
  if (config.store_password_file.empty()) return options;
  const absl::StatusOr<FileContents> contents =
      ReadFiles({config.store_password_file}, FileUsers::kOwner);
  if (!contents.ok()) {
    return absl::Status(contents.status().code(),
                        absl::StrCat("store.password_file: ", contents.status().message()));
  }
  const std::string& text = contents->front();
  options.password = text.substr(0, text.find('\n'));
  if (options.password.ends_with('\r')) options.password.pop_back();  // a file from Windows
  if (options.password.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("store.password_file: no password in the first ",
                                                   "line of ", config.store_password_file));
  }
  return options;
}

namespace {

// A store, and how logs name it.
struct OpenedStore {
  std::unique_ptr<store::SqlStore> store;
  std::string name;
};

absl::StatusOr<OpenedStore> OpenPostgres(const ServerConfig& config, const Sealing& sealing,
                                         const JsonLog* log) {
  absl::StatusOr<store::PostgresStore::Options> options = PostgresOptionsOf(config);
  if (!options.ok()) return options.status();
  options->sealing = sealing;
  options->on_other_server = [log](const store::ServerIdentity& before,
                                   const store::ServerIdentity& now) {
    log->Write(LogLevel::kWarning, "store_server_changed",
               {{"timeline_before", before.timeline},
                {"timeline", now.timeline},
                {"start_time", now.start_time}});
  };
  absl::StatusOr<std::unique_ptr<store::PostgresStore>> store =
      store::PostgresStore::Open(*options);
  if (!store.ok()) return store.status();
  return OpenedStore{*std::move(store), store::PublicName(config.store_url).value_or("")};
}

absl::StatusOr<OpenedStore> OpenSqlite(const ServerConfig& config, const Sealing& sealing) {
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> store =
      store::SqliteStore::Open(config.store_url, {.sealing = sealing});
  if (!store.ok()) return store.status();
  return OpenedStore{*std::move(store), config.store_url};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerStore>> ServerStore::Open(const ServerConfig& config,
                                                               const JsonLog* log,
                                                               prometheus::Registry* registry) {
  absl::StatusOr<Sealing> sealing = SealingOf(config);
  if (!sealing.ok()) return sealing.status();
  absl::StatusOr<OpenedStore> opened = IsPostgresUrl(config.store_url)
                                           ? OpenPostgres(config, *sealing, log)
                                           : OpenSqlite(config, *sealing);
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<std::string> id = opened->store->Id();
  if (!id.ok()) return id.status();
  log->Write(LogLevel::kInfo, "store_opened",
             {{IsPostgresUrl(config.store_url) ? "server" : "directory", opened->name},
              {"id", *id},
              {"key", sealing->keys == nullptr ? "" : sealing->keys->first().id}});
  return std::unique_ptr<ServerStore>(
      new ServerStore(config, log, registry, *std::move(sealing), std::move(opened->store)));
}

ServerStore::ServerStore(const ServerConfig& config, const JsonLog* log,
                         prometheus::Registry* registry, Sealing sealing,
                         std::unique_ptr<store::SqlStore> store)
    : commit_timeout_(config.store_commit_timeout),
      keep_rewound_(config.keep_rewound),
      snapshot_bytes_(config.store_snapshot_bytes == 0
                          ? std::nullopt
                          : std::optional(config.store_snapshot_bytes)),
      log_(log),
      metrics_(registry),
      sealing_(std::move(sealing)),
      store_(std::move(store)),
      commits_(store_.get(), QueueOptions(&metrics_)),
      watch_([this] { Watch(); }) {}

ServerStore::~ServerStore() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  store_->StopWaiting();
  watch_.join();
}

bool ServerStore::Settle(std::function<void()> before, MonotonicTime deadline) {
  const auto settled = std::make_shared<absl::Notification>();
  std::thread([this, settled, before = std::move(before)] {
    before();
    store_->PrepareToClose();
    settled->Notify();
  }).detach();
  return settled->WaitForNotificationWithTimeout(deadline - MonotonicTime::Now());
}

void ServerStore::SetListener(Serving serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = std::move(serving);
  if (serving_) serving_(state_ == StoreStateMetric::kOk);
}

void ServerStore::Watch() {
  MonotonicTime next_collection = MonotonicTime::Now() + kFirstCollection;
  MonotonicTime next_segments = next_collection;
  while (true) {
    UpdateMetrics();
    if (MonotonicTime::Now() >= next_collection) {
      Collect();
      next_collection = MonotonicTime::Now() + kCollection;
    }
    if (MonotonicTime::Now() >= next_segments) {
      CollectSegments();
      next_segments = MonotonicTime::Now() + kSegmentCollection;
    }
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kUpdate)) return;
  }
}

void ServerStore::UpdateMetrics() {
  store_->Probe();
  for (const store::StoreBytes& part : store_->Bytes()) metrics_.SetBytes(part.kind, part.bytes);
  const store::StoreHealth health = store_->Health();
  StoreStateMetric state = MetricOf(health.state);
  std::string reason = health.reason;
  if (state == StoreStateMetric::kOk && commits_.BusyFor() > commit_timeout_) {
    state = StoreStateMetric::kSlow;
    reason = absl::StrCat("store: a transaction takes longer than store.commit_timeout, ",
                          absl::FormatDuration(commit_timeout_));
  }
  metrics_.SetState(state);
  absl::MutexLock lock(&mutex_);
  if (state == state_) return;
  state_ = state;
  const bool ok = state == StoreStateMetric::kOk;
  log_->Write(ok ? LogLevel::kInfo : LogLevel::kError, "store_state",
              {{"state", NameOf(state)}, {"error", reason}});
  if (serving_) serving_(ok);
}

void ServerStore::Collect() {
  const absl::StatusOr<size_t> collected = store_->Collect(absl::Now() - keep_rewound_);
  if (collected.ok()) {
    log_->Write(LogLevel::kDebug, "store_collected", {{"turns", std::to_string(*collected)}});
  } else {
    log_->Write(LogLevel::kWarning, "store_collected",
                {{"error", absl::StrCat(collected.status().message())}});
  }
}

void ServerStore::CollectSegments() {
  const absl::StatusOr<uint64_t> removed =
      store_->CollectSegments({.now = absl::Now(), .max_bytes = snapshot_bytes_});
  if (!removed.ok()) {
    log_->Write(LogLevel::kWarning, "store_segments_collected",
                {{"error", absl::StrCat(removed.status().message())}});
  } else if (*removed > 0) {
    log_->Write(LogLevel::kDebug, "store_segments_collected",
                {{"bytes", std::to_string(*removed)}});
  }
}

}  // namespace longstream
