// A session manager with a store, which can be destroyed and made again, for one model.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_CACHES_KEPT_SESSIONS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_CACHES_KEPT_SESSIONS_H_

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/metrics/session_metrics.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/sessions/store/faulty_directory.h"
#include "tests/temporary_directory.h"

namespace longstream {

// A turn that has ended.
struct KeptTurn {
  TurnEnd end;
  TurnId id;
  std::vector<int32_t> tokens;
};

class KeptSessions {
 public:
  // `model`: as for TestEngine. `cache_bytes`: 0: unlimited. `restore_limit`: the least limit of a
  // restore.
  explicit KeptSessions(const TestModel& model, uint64_t cache_bytes = 0,
                        const std::string& options_json = "{}",
                        absl::Duration restore_limit = absl::Hours(1))
      : restore_limit_(restore_limit),
        model_(model.plugin),
        source_(model_.Source(options_json, cache_bytes)) {
    if (!model.directory.empty()) source_.directory = model.directory;
    Start();
  }

  // Ends everything as a server does that stops, and starts it again.
  void Restart() {
    Stop();
    Start();
  }
  void Stop() {
    sessions_.reset();
    models_.reset();
    commits_.reset();
    store_.reset();
  }
  void Start() {
    auto store = store::SqliteStore::Open(directory_.string() + "/store", store_options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
    registry_ = std::make_unique<prometheus::Registry>();
    metrics_ = std::make_unique<SessionMetrics>(registry_.get(), 0);
    ModelRegistry::Options options;
    options.plugins = model_.plugins();
    options.host = model_.host();
    options.metrics = registry_.get();
    options.engine.restored_safe = absl::ZeroDuration();
    options.engine.least_restore_limit = restore_limit_;
    models_ = std::make_unique<ModelRegistry>(options, std::vector<ModelSource>{source_}, nullptr);
    ASSERT_TRUE(models_->WaitUntilLoaded().ok());
    SessionManager::Options manager;
    manager.store = store_.get();
    manager.commits = commits_.get();
    manager.metrics = metrics_.get();
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
  }

  // From the next start on, segments are on this disk, which outlives the object.
  void SetDisk(store::FaultyDirectory* disk) {
    store_options_.segments = [disk] { return disk->View(); };
  }
  SessionManager& operator*() { return *sessions_; }
  SessionManager* operator->() { return sessions_.get(); }
  store::SessionStore& store() { return *store_; }
  Engine& engine() { return **models_->Find("m"); }
  std::string segments() const { return directory_.string() + "/store/segments"; }

  SessionId Open() {
    const auto session = WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", "m", std::nullopt, std::nullopt, std::move(opened));
    });
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? session->id : SessionId();
  }
  SessionView Fork(const SessionId& source, const Place& place = {}) {
    const auto session = WaitForSession([&](SessionManager::Opened opened) {
      sessions_->ForkSession({"", source}, std::nullopt, std::nullopt, std::move(opened), place);
    });
    EXPECT_TRUE(session.ok()) << session.status();
    return session.value_or(SessionView());
  }
  SessionView Rewind(const SessionId& session, const Place& place) {
    const auto rewound = WaitForSession([&](const SessionManager::Opened& opened) {
      sessions_->RewindSession({"", session}, place, std::nullopt, opened);
    });
    EXPECT_TRUE(rewound.ok()) << rewound.status();
    return rewound.value_or(SessionView());
  }

  // Exports a session to a file, and makes another session of the file.
  SessionId Copy(const SessionId& session) {
    absl::Notification exported;
    std::shared_ptr<SessionExport> file;
    sessions_->ExportSession({"", session},
                             [&](absl::StatusOr<std::shared_ptr<SessionExport>> made) {
                               EXPECT_TRUE(made.ok()) << made.status();
                               file = made.value_or(nullptr);
                               exported.Notify();
                             });
    exported.WaitForNotification();
    SessionImport::Wanted wanted;
    wanted.id = SessionId::Random();
    const auto import = sessions_->ImportSession("", wanted);
    EXPECT_TRUE(import.ok()) << import.status();
    if (file == nullptr || !import.ok()) return {};
    for (;;) {
      std::string bytes;
      EXPECT_TRUE(file->Read(size_t{1} << 20, &bytes).ok());
      if (bytes.empty()) break;
      absl::Notification written;
      (*import)->Write(bytes, [&](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        written.Notify();
      });
      written.WaitForNotification();
    }
    const auto made = WaitForSession(
        [&](SessionManager::Opened opened) { (*import)->Finish(std::move(opened)); });
    EXPECT_TRUE(made.ok()) << made.status();
    return *wanted.id;
  }

  // The snapshots of the turns of a session, the last turn first. Empty if its last turn has none.
  std::vector<store::SnapshotRow> Snapshots(const SessionId& session) {
    const auto row = store_->Session({"", session});
    EXPECT_TRUE(row.ok()) << row.status();
    const auto found = store_->Snapshots(row->head, 100);
    EXPECT_TRUE(found.ok()) << found.status();
    if (found->empty() || found->front().turn != row->head) return {};
    return *found;
  }

  // Evicts the caches of all idle sessions, but for small ones.
  void Evict() {
    const BackendModel& backend = engine().model().backend();
    const uint64_t budget = backend.memory().budget;
    for (const uint64_t bytes : {TurnDemand::Held(backend.info(), 1), budget}) {
      absl::Notification done;
      engine().SetBudget(bytes, [&done](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        done.Notify();
      });
      done.WaitForNotification();
    }
  }

  // Starts a turn. `id`: set to that of the turn; may be nullptr.
  TurnHandle StartTurn(const SessionId& session, const std::string& text, uint64_t max_tokens,
                       std::optional<uint64_t> kept_tokens = std::nullopt, TurnId* id = nullptr) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", session});
    EXPECT_TRUE(turn.ok()) << turn.status();
    if (!turn.ok()) return {};
    if (id != nullptr) *id = *SessionId::Parse(turn->Id(TurnKind::kGenerate), "id");
    EXPECT_TRUE(turn->Lease().ok());
    TurnRequest request = Generate(nullptr, text, max_tokens, /*seed=*/5);
    request.kept_tokens = kept_tokens;
    TurnHandle handle = turn->Make(std::move(request), nullptr);
    const absl::Status started = turn->Start(handle);
    EXPECT_TRUE(started.ok()) << started;
    return started.ok() ? handle : TurnHandle();
  }
  // Reads a turn to its end.
  KeptTurn ReadTurn(TurnHandle handle) {
    KeptTurn result;
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) {
        result.end = *end;
        return result;
      }
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        absl::SleepFor(absl::Microseconds(100));
      } else if (const auto* delta = std::get_if<DeltaEvent>(event)) {
        result.tokens.insert(result.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      }
    }
  }

  // Runs a turn to its end. Its caches are being saved, or wait for it, when this returns.
  KeptTurn Turn(const SessionId& session, const std::string& text, uint64_t max_tokens,
                std::optional<uint64_t> kept_tokens = std::nullopt) {
    TurnId id;
    const TurnHandle handle = StartTurn(session, text, max_tokens, kept_tokens, &id);
    KeptTurn result;
    if (handle) result = ReadTurn(handle);
    result.id = id;
    EXPECT_TRUE(result.end.status.ok()) << result.end.status;
    engine().Flush();
    return result;
  }

  // Waits until so many snapshots have been written since the start.
  void WaitForSaves(int count) {
    const absl::Time until = absl::Now() + absl::Seconds(60);
    while (Saves("ok") < count && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(Saves("ok"), count);
  }
  int Saves(const std::string& outcome) {
    return static_cast<int>(
        MetricValue(*registry_, "longstream_session_saves_total", {{"outcome", outcome}}));
  }
  int Restores(const std::string& outcome) {
    return static_cast<int>(MetricValue(*registry_, "longstream_session_restores_total",
                                        {{"from", "store"}, {"outcome", outcome}}));
  }

 private:
  const absl::Duration restore_limit_;
  const TemporaryDirectory directory_;
  store::SqliteStore::Options store_options_;
  MinimalModel model_;
  ModelSource source_;
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::unique_ptr<prometheus::Registry> registry_;
  std::unique_ptr<SessionMetrics> metrics_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_CACHES_KEPT_SESSIONS_H_
