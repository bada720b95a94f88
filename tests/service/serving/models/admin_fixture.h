// A registry whose models an operator loads and unloads, with sessions on them.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_MODELS_ADMIN_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_MODELS_ADMIN_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/model_registry.h"
#include "service/serving/models/model_admin.h"
#include "service/serving/session_manager.h"
#include "service/sessions/store/commit_queue.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/serving/wait_for_session.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {

// The operator's directory has the models "tiny" and "other", which are equal, and "seeded" and
// "third", which have other weights. At the start the server has no model.
class ModelAdminTest : public testing::Test {
 protected:
  struct Options {
    std::string plugin = MinimalModel::PluginFile();
    uint64_t memory_bytes = 0;
    bool has_store = false;
    store::SqliteStore::Options store = {};
    store::CommitQueue::Options commits = {};
    OnModelChange on_model_change = OnModelChange::kRefuse;
    std::vector<std::string> at_start = {};  // names of models
    std::string options_json = "{}";         // of these
    Engine::Options engine = {};
  };

  ModelAdminTest() : ModelAdminTest(Options{}) {}
  explicit ModelAdminTest(const Options& options) : options_(options), minimal_(options.plugin) {
    for (const char* name : {"tiny", "other"}) AddDirectory(name);
    AddDirectory("seeded", R"({"model_type": "minimal", "seed": 99})");
    AddDirectory("third", R"({"model_type": "minimal", "seed": 7})");
    Start();
  }
  ~ModelAdminTest() override { Stop(); }

  void AddDirectory(const std::string& name, const std::string& config = "") {
    std::filesystem::copy(minimal_.directory(), roots_.path() / name,
                          std::filesystem::copy_options::recursive);
    if (!config.empty()) std::ofstream(roots_.path() / name / "config.json") << config;
  }

  void Start() {
    if (options_.has_store) {
      store_ = *store::SqliteStore::Open(store_directory_.string(), options_.store);
      commits_ = std::make_unique<store::CommitQueue>(store_.get(), options_.commits);
    }
    ModelRegistry::Options options;
    options.plugins = minimal_.plugins();
    options.host = minimal_.host();
    options.metrics = minimal_.registry();
    options.memory_bytes = options_.memory_bytes;
    options.engine = options_.engine;
    std::vector<ModelSource> sources;
    for (const std::string& name : options_.at_start) {
      sources.push_back(minimal_.Source(options_.options_json));
      sources.back().name = name;
    }
    models_ = std::make_unique<ModelRegistry>(options, sources, nullptr);
    SessionManager::Options manager;
    manager.store = store_.get();
    manager.commits = commits_.get();
    manager.on_model_change = options_.on_model_change;
    manager.restored = [this](const std::shared_ptr<Session>&) {
      if (const std::function<void()> restored = std::exchange(restored_, nullptr)) restored();
    };
    sessions_ = std::make_unique<SessionManager>(models_.get(), manager);
    admin_ = std::make_unique<ModelAdmin>(models_.get(), sessions_.get(),
                                          ModelAdmin::Options{{roots_.string()}});
    EXPECT_TRUE(models_->WaitUntilLoaded().ok());
  }
  void Stop() {
    admin_.reset();
    sessions_.reset();
    models_.reset();
    commits_.reset();
    store_.reset();
  }

  // ------------------------------------------------------------ operations

  // The states of a model, and the result.
  struct Loaded {
    absl::StatusOr<ModelStatus> result = absl::UnknownError("not called");
    std::vector<ModelState> states;
    std::atomic<bool> has_begun{false};  // the loading thread has begun with it
    absl::Notification done;
  };
  static ModelAdmin::Wanted Model(const std::string& name, const std::string& directory = "tiny") {
    ModelAdmin::Wanted wanted;
    wanted.name = name;
    wanted.directory = directory;
    return wanted;
  }
  static ModelAdmin::Progress Note(const std::shared_ptr<Loaded>& loaded) {
    return [loaded](const ModelStatus& status) {
      loaded->states.push_back(status.state);
      loaded->has_begun = true;
    };
  }
  static ModelAdmin::Loaded End(const std::shared_ptr<Loaded>& loaded) {
    return [loaded](absl::StatusOr<ModelStatus> result) {
      loaded->result = std::move(result);
      loaded->done.Notify();
    };
  }
  std::shared_ptr<Loaded> BeginLoad(const ModelAdmin::Wanted& wanted) {
    auto loaded = std::make_shared<Loaded>();
    admin_->Load(wanted, Note(loaded), End(loaded));
    return loaded;
  }
  absl::Status Load(const ModelAdmin::Wanted& wanted) {
    const std::shared_ptr<Loaded> loaded = BeginLoad(wanted);
    loaded->done.WaitForNotification();
    return loaded->result.status();
  }
  absl::Status Swap(const ModelAdmin::Wanted& wanted, const ModelAdmin::Moving& moving = {}) {
    auto loaded = std::make_shared<Loaded>();
    admin_->Swap(wanted, moving, Note(loaded), End(loaded));
    loaded->done.WaitForNotification();
    return loaded->result.status();
  }
  struct Unloaded {
    absl::Status status;
    absl::Notification done;
  };
  std::shared_ptr<Unloaded> BeginUnload(const std::string& name,
                                        absl::Duration grace = absl::InfiniteDuration()) {
    auto unloaded = std::make_shared<Unloaded>();
    admin_->Unload(name, grace, [unloaded](const absl::Status& status) {
      unloaded->status = status;
      unloaded->done.Notify();
    });
    return unloaded;
  }
  absl::Status Unload(const std::string& name, absl::Duration grace = absl::InfiniteDuration()) {
    const std::shared_ptr<Unloaded> unloaded = BeginUnload(name, grace);
    unloaded->done.WaitForNotification();
    return unloaded->status;
  }
  // "NAME VERSION STATE" of each version, with the state as a number.
  std::vector<std::string> Versions() const {
    std::vector<std::string> versions;
    for (const ModelAdmin::Model& model : admin_->List()) {
      versions.push_back(model.status.name + " " + model.status.version + " " +
                         std::to_string(static_cast<int>(model.status.state)));
    }
    return versions;
  }
  // The number of time series with this label.
  size_t SeriesOf(const std::string& label, const std::string& value) const {
    size_t series = 0;
    for (const prometheus::MetricFamily& family : minimal_series_->Collect()) {
      for (const prometheus::ClientMetric& metric : family.metric) {
        for (const auto& found : metric.label) {
          series += found.name == label && found.value == value ? 1 : 0;
        }
      }
    }
    return series;
  }

  // ------------------------------------------------------------ sessions

  absl::StatusOr<SessionView> TryOpen(const std::string& model,
                                      std::optional<absl::Duration> timeout = std::nullopt) {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->OpenSession("", model, std::nullopt, timeout, std::move(opened));
    });
  }
  SessionId Open(const std::string& model) {
    const absl::StatusOr<SessionView> session = TryOpen(model);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? session->id : SessionId();
  }
  absl::StatusOr<SessionView> TryFork(const SessionId& source, const std::string& model = "") {
    return WaitForSession([&](SessionManager::Opened opened) {
      sessions_->ForkSession({"", source}, std::nullopt, std::nullopt, std::move(opened), {},
                             model);
    });
  }
  absl::StatusOr<SessionView> RewindTo(const SessionId& id, uint64_t position) {
    return WaitForSession([&](SessionManager::Opened rewound) {
      Place place;
      place.position = position;
      sessions_->RewindSession({"", id}, place, std::nullopt, rewound);
    });
  }
  absl::Status Close(const SessionId& id) { return CloseAndWait(*sessions_, {"", id}); }
  // Starts a turn, without reading it.
  absl::StatusOr<TurnHandle> Begin(const SessionId& id, const std::string& text,
                                   uint64_t max_tokens) {
    absl::StatusOr<NewTurn> turn = sessions_->TurnOf({"", id});
    if (!turn.ok()) return turn.status();
    absl::Status leased;
    // A turn keeps its lease for a moment after its end.
    EXPECT_TRUE(WaitUntil([&] {
      leased = turn->Lease();
      return !absl::IsAborted(leased);
    }));
    if (!leased.ok()) return leased;
    TurnHandle handle = turn->Make(Generate(nullptr, text, max_tokens, /*seed=*/5), nullptr);
    if (absl::Status status = turn->Start(handle); !status.ok()) return status;
    return handle;
  }
  struct Answer {
    TurnEnd end;
    std::vector<int32_t> tokens;
  };
  static Answer Read(TurnHandle handle) {
    Answer answer;
    while (true) {
      const TurnStream::Item item = handle.Next();
      if (const auto* end = std::get_if<TurnEnd>(&item)) {
        answer.end = *end;
        return answer;
      }
      const auto* event = std::get_if<TurnEvent>(&item);
      if (event == nullptr) {
        absl::SleepFor(absl::Microseconds(100));
      } else if (const auto* delta = std::get_if<DeltaEvent>(event)) {
        answer.tokens.insert(answer.tokens.end(), delta->tokens.begin(), delta->tokens.end());
      }
    }
  }
  Answer Turn(const SessionId& id, const std::string& text, uint64_t max_tokens) {
    const absl::StatusOr<TurnHandle> handle = Begin(id, text, max_tokens);
    if (handle.ok()) return Read(*handle);
    Answer answer;
    answer.end.status = handle.status();
    return answer;
  }

  // The answer of a turn of the session on `model`, which reads the whole history anew.
  std::vector<int32_t> TurnOn(const std::string& model, const SessionId& id,
                              const std::string& text, uint64_t max_tokens) {
    const absl::StatusOr<SessionView> fork = TryFork(id, model);
    EXPECT_TRUE(fork.ok()) << fork.status();
    if (!fork.ok()) return {};
    const Answer answer = Turn(fork->id, text, max_tokens);
    EXPECT_TRUE(answer.end.status.ok()) << answer.end.status;
    EXPECT_TRUE(Close(fork->id).ok());
    return answer.tokens;
  }
  // Waits until these are the versions.
  void AwaitVersions(const std::vector<std::string>& versions) {
    EXPECT_TRUE(WaitUntil([&] { return Versions() == versions; }))
        << testing::PrintToString(Versions());
  }

  const Options options_;
  std::function<void()> restored_;  // called once, when the next session has been restored
  const TemporaryDirectory roots_;
  const TemporaryDirectory store_directory_;
  MinimalModel minimal_;
  prometheus::Registry* const minimal_series_ = minimal_.registry();
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
  std::unique_ptr<ModelRegistry> models_;
  std::unique_ptr<SessionManager> sessions_;
  std::unique_ptr<ModelAdmin> admin_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_MODELS_ADMIN_FIXTURE_H_
