// Connects the store with the log and the metrics.
#include "service/program/server_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

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

absl::StatusOr<std::unique_ptr<ServerStore>> ServerStore::Open(const ServerConfig& config,
                                                               const JsonLog* log,
                                                               prometheus::Registry* registry) {
  absl::StatusOr<Sealing> sealing = SealingOf(config);
  if (!sealing.ok()) return sealing.status();
  absl::StatusOr<std::unique_ptr<store::SqliteStore>> store =
      store::SqliteStore::Open(config.store_url, {.sealing = *sealing});
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::string> id = (*store)->Id();
  if (!id.ok()) return id.status();
  log->Write(LogLevel::kInfo, "store_opened",
             {{"directory", config.store_url},
              {"id", *id},
              {"key", sealing->keys == nullptr ? "" : sealing->keys->first().id}});
  return std::unique_ptr<ServerStore>(
      new ServerStore(config, log, registry, *std::move(sealing), *std::move(store)));
}

ServerStore::ServerStore(const ServerConfig& config, const JsonLog* log,
                         prometheus::Registry* registry, Sealing sealing,
                         std::unique_ptr<store::SqliteStore> store)
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
  watch_.join();
}

bool ServerStore::Settle(std::function<void()> before, MonotonicTime deadline) {
  const auto settled = std::make_shared<absl::Notification>();
  std::thread([this, settled, before = std::move(before)] {
    before();
    store_->CopyLog();
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
