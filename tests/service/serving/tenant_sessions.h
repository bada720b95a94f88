// A session manager with tenants, with or without a store, which can be destroyed and made again.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_TENANT_SESSIONS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_TENANT_SESSIONS_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/reads/stored_count.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/temporary_directory.h"

namespace longstream {

class TenantSessions {
 public:
  struct Options {
    std::vector<TenantConfig> tenants;
    bool has_store = false;
    uint64_t cache_bytes = 0;  // 0: unlimited
    uint64_t host_bytes = 0;   // the same
    size_t max_sessions = 0;   // the same
    absl::Duration least_idle = absl::Seconds(10);
    Engine::Options engine = {};
    uint64_t max_transfers = 64;
    MonotonicClock quota_clock = MonotonicTime::Now;
  };

  explicit TenantSessions(Options options) : options_(std::move(options)) { Start(); }

  // Ends everything as a server does that stops, and starts it again.
  void Restart() {
    Stop();
    Start();
  }
  void Stop() {
    sessions_.reset();
    metrics_.reset();
    models_.reset();
    commits_.reset();
    store_.reset();
    registry_.reset();
  }
  void Start() {
    registry_ = std::make_unique<prometheus::Registry>();
    ModelRegistry::Options options;
    options.plugins = model_.plugins();
    options.host = model_.host();
    options.metrics = registry_.get();
    options.engine = options_.engine;
    options.engine.restored_safe = absl::ZeroDuration();
    options.tenants = options_.tenants;
    options.session_host_bytes = options_.host_bytes;
    options.quota_clock = options_.quota_clock;
    models_ = std::make_unique<ModelRegistry>(
        options, std::vector<ModelSource>{model_.Source("{}", options_.cache_bytes)}, nullptr);
    ASSERT_TRUE(models_->WaitUntilLoaded().ok());
    SessionManager::Options manager;
    manager.max_transfers = options_.max_transfers;
    manager.max_sessions = options_.max_sessions;
    manager.least_idle = options_.least_idle;
    metrics_ = std::make_unique<SessionMetrics>(registry_.get(), options_.host_bytes);
    manager.metrics = metrics_.get();
    if (options_.has_store) {
      auto store = store::SqliteStore::Open(directory_.string() + "/store", {});
      ASSERT_TRUE(store.ok()) << store.status();
      store_ = *std::move(store);
      commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
      manager.store = store_.get();
      manager.commits = commits_.get();
      const absl::Status counted = CountStoredSessions(*store_, models_->tenants());
      ASSERT_TRUE(counted.ok()) << counted;
    }
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
  }

  SessionManager* operator->() { return sessions_.get(); }
  store::CommitQueue& commits() { return *commits_; }
  prometheus::Registry& registry() { return *registry_; }
  HostMemory& host_memory() { return *models_->host_memory(); }
  Engine& engine() { return **models_->Find("m"); }
  std::shared_ptr<Tenant> Of(const std::string& tenant) { return *models_->tenants().Find(tenant); }
  TenantUse UseOf(const std::string& tenant) { return Of(tenant)->use(); }

  absl::StatusOr<SessionView> Open(const std::string& tenant,
                                   std::optional<SessionId> id = std::nullopt,
                                   std::string_view model = "m",
                                   std::optional<absl::Duration> timeout = std::nullopt,
                                   Durability durability = Durability::kDefault) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession(tenant, model, id, timeout, std::move(opened),
                             {.durability = durability});
    });
  }
  absl::StatusOr<SessionView> Fork(const SessionKey& source,
                                   std::optional<SessionId> id = std::nullopt,
                                   const Place& place = {}) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->ForkSession(source, id, std::nullopt, std::move(opened), place);
    });
  }
  absl::StatusOr<SessionView> Rewind(const SessionKey& key, const Place& place) {
    return WaitForSession([&](const SessionManager::Opened& opened) {
      sessions_->RewindSession(key, place, std::nullopt, opened);
    });
  }
  absl::Status Close(const SessionKey& key) { return CloseAndWait(*sessions_, key); }
  absl::Status Cancel(const SessionKey& key, const TurnId& turn) {
    absl::Status status;
    absl::Notification done;
    sessions_->CancelTurn(key, turn, [&](const absl::StatusOr<TurnView>& view) {
      status = view.status();
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }
  absl::StatusOr<std::shared_ptr<SessionExport>> Export(const SessionKey& key) {
    absl::StatusOr<std::shared_ptr<SessionExport>> exported = absl::UnknownError("not called");
    absl::Notification done;
    sessions_->ExportSession(key, [&](absl::StatusOr<std::shared_ptr<SessionExport>> made) {
      exported = std::move(made);
      done.Notify();
    });
    done.WaitForNotification();
    return exported;
  }
  absl::StatusOr<std::shared_ptr<SessionImport>> BeginImport(const std::string& tenant) {
    SessionImport::Wanted wanted;
    wanted.id = SessionId::Random();
    return sessions_->ImportSession(tenant, wanted);
  }
  // Makes a session of the tenant from an export.
  absl::StatusOr<SessionView> Import(const std::string& tenant, SessionExport& file) {
    const auto taker = BeginImport(tenant);
    if (!taker.ok()) return taker.status();
    absl::StatusOr<SessionView> session = ImportInto(*taker, file);
    (*taker)->ReturnPlace();
    return session;
  }
  static absl::StatusOr<SessionView> ImportInto(const std::shared_ptr<SessionImport>& taker,
                                                SessionExport& file) {
    for (;;) {
      std::string bytes;
      EXPECT_TRUE(file.Read(size_t{1} << 20, &bytes).ok());
      if (bytes.empty()) break;
      absl::Notification written;
      absl::Status status;
      taker->Write(bytes, [&](const absl::Status& outcome) {
        status = outcome;
        written.Notify();
      });
      written.WaitForNotification();
      if (!status.ok()) return status;
    }
    return WaitForSession([&](SessionManager::Opened opened) { taker->Finish(std::move(opened)); });
  }

  // Begins a turn. Returns an error if it is refused.
  absl::StatusOr<TurnHandle> Begin(const SessionKey& key, const std::string& text,
                                   uint64_t max_tokens, TurnRequest* changed = nullptr) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf(key);
    if (!turn.ok()) return turn.status();
    if (absl::Status status = turn->Lease(); !status.ok()) return status;
    TurnRequest request = changed != nullptr ? *changed : Generate(nullptr, text, max_tokens);
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    if (absl::Status status = turn->Start(handle); !status.ok()) return status;
    return handle;
  }
  static TurnEnd ReadToEnd(TurnHandle handle) {
    while (true) {
      TurnStream::Item item = handle.Next();
      if (auto* end = std::get_if<TurnEnd>(&item)) return std::move(*end);
      if (std::holds_alternative<std::monostate>(item)) absl::SleepFor(absl::Microseconds(100));
    }
  }
  // Runs a turn to its end.
  absl::StatusOr<TurnEnd> Turn(const SessionKey& key, const std::string& text,
                               uint64_t max_tokens) {
    absl::StatusOr<TurnHandle> handle = Begin(key, text, max_tokens);
    if (!handle.ok()) return handle.status();
    TurnEnd end = ReadToEnd(*std::move(handle));
    if (!end.status.ok()) return end.status;
    return end;
  }

 private:
  const TemporaryDirectory directory_;
  const Options options_;
  MinimalModel model_;
  std::unique_ptr<prometheus::Registry> registry_;
  std::unique_ptr<SessionMetrics> metrics_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_TENANT_SESSIONS_H_
