// The registry alone: which models have names, what the listener hears, and how it stops.
#include "service/serving/model_registry.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/connections/descriptor.h"
#include "service/serving/models/model_admin.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSlowPlugin[] = LONGSTREAM_BINARY_DIR "/test_plugins/slow_open.so";

// Models of the directory "slow" are loaded when OpenGate is called, others at once.
class ModelRegistryTest : public testing::Test {
 protected:
  ModelRegistryTest() {
    for (const char* name : {"quick", "slow"}) {
      std::filesystem::copy(minimal_.directory(), roots_.path() / name,
                            std::filesystem::copy_options::recursive);
    }
    EXPECT_EQ(mkfifo(gate_.c_str(), 0600), 0);
  }

  ModelSource Source(const std::string& name, const std::string& directory = "quick") const {
    ModelSource source = minimal_.Source();
    source.name = name;
    source.directory = (roots_.path() / directory).string();
    return source;
  }
  void Start(const std::vector<ModelSource>& sources, bool load_at_once = true) {
    ModelRegistry::Options options{minimal_.plugins(), minimal_.host(), minimal_.registry(), {}};
    options.load_at_once = load_at_once;
    models_ = std::make_unique<ModelRegistry>(options, sources, [this](const ModelStatus& status) {
      if (on_state_) on_state_(status);
      absl::MutexLock lock(&mutex_);
      told_.push_back(status.name + " " + std::to_string(static_cast<int>(status.state)));
    });
  }
  // Waits until the slow model is being opened.
  void WaitForGate() {
    EXPECT_TRUE(WaitUntil([&] {
      held_gate_ = Descriptor(open(gate_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      return held_gate_.open();
    }));
  }
  // Lets the slow model finish loading. Waits until it is being opened.
  void OpenGate() {
    if (!held_gate_.open()) WaitForGate();
    held_gate_.Close();
  }
  // "NAME STATE" for each call of the listener, with the state as a number.
  std::vector<std::string> Told() {
    absl::MutexLock lock(&mutex_);
    return told_;
  }

  struct Loaded {
    absl::Status status = absl::UnknownError("not called");
    absl::Notification begun;
    absl::Notification done;
  };
  static ModelRegistry::LoadCallbacks Note(const std::shared_ptr<Loaded>& loaded) {
    return {[loaded](const ModelStatus& status) {
              if (status.state == ModelState::kLoading) loaded->begun.Notify();
            },
            [loaded](const absl::StatusOr<ModelStatus>& status) {
              loaded->status = status.status();
              loaded->done.Notify();
            }};
  }
  std::shared_ptr<Loaded> Load(const std::string& name, const std::string& directory = "quick") {
    auto loaded = std::make_shared<Loaded>();
    models_->Load(Source(name, directory), Note(loaded));
    return loaded;
  }

  const TemporaryDirectory roots_;
  const std::filesystem::path gate_ = roots_.path() / "slow" / "gate";
  Descriptor held_gate_;
  MinimalModel minimal_{kSlowPlugin};
  std::function<void(const ModelStatus&)> on_state_;  // set before the registry is made
  absl::Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ModelRegistry> models_;
};

// ---------------------------------------------------------------- names

TEST_F(ModelRegistryTest, AnEmptyNameMeansTheOnlyModelThatIsThere) {
  Start({});
  EXPECT_EQ(models_->Find("").status(), absl::NotFoundError("model: the server has no model"));
  EXPECT_EQ(models_->Find("a").status().message(), "model: no model 'a'; the server has no model");
  Load("b")->done.WaitForNotification();
  const std::shared_ptr<Loaded> slow = Load("a", "slow");
  slow->begun.WaitForNotification();
  const std::shared_ptr<Loaded> queued = Load("c");
  const absl::StatusOr<std::shared_ptr<Engine>> only = models_->Find("");
  ASSERT_TRUE(only.ok()) << only.status();
  EXPECT_EQ((*only)->model().name(), "b");
  EXPECT_TRUE(absl::IsUnavailable(models_->Find("a").status())) << "a call that names it waits";
  EXPECT_EQ(models_->Find("d").status().message(), "model: no model 'd'; available: b");
  OpenGate();
  queued->done.WaitForNotification();
  EXPECT_THAT(models_->Find("").status().message(), HasSubstr("available: a, b, c"));
}

TEST_F(ModelRegistryTest, ModelsOfTheStartAreThereFromTheBeginning) {
  ModelSource broken = Source("broken");
  broken.directory = "/nonexistent";
  Start({broken});
  // The listener hears no state that has passed when it would be told.
  EXPECT_TRUE(WaitUntil([&] { return Told() == std::vector<std::string>{"broken 5"}; }));
  const std::shared_ptr<Loaded> again = Load("broken", "slow");
  again->begun.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(models_->Find("").status())) << "it is loaded again";
  OpenGate();
  again->done.WaitForNotification();
  EXPECT_TRUE(models_->Find("").ok());
  EXPECT_THAT(Told(), ElementsAre("broken 5", "broken 2"));
}

TEST_F(ModelRegistryTest, ALoadingModelOfTheStartIsTheOnlyOne) {
  Start({Source("slow", "slow")});
  EXPECT_TRUE(absl::IsUnavailable(models_->Find("").status()));
  OpenGate();
  EXPECT_TRUE(models_->WaitUntilLoaded().ok());
  EXPECT_TRUE(models_->Find("").ok());
}

// ---------------------------------------------------------------- the listener

TEST_F(ModelRegistryTest, ANameIsBusyUntilTheListenerWasTold) {
  const auto second = std::make_shared<Loaded>();
  on_state_ = [&](const ModelStatus& status) {
    if (status.state != ModelState::kReady || second->done.HasBeenNotified()) return;
    models_->Swap(Source("a"), Note(second));
  };
  Start({});
  const std::shared_ptr<Loaded> first = Load("a");
  first->done.WaitForNotification();
  ASSERT_TRUE(first->status.ok()) << first->status;
  ASSERT_TRUE(second->done.HasBeenNotified());
  EXPECT_TRUE(absl::IsAborted(second->status)) << second->status;
  EXPECT_TRUE(models_->BeginUnload("a").ok()) << "then it is free";
}

// So the owner of the earlier version knows that it goes before the name can be unloaded.
TEST_F(ModelRegistryTest, ANameIsBusyUntilItsEarlierVersionWasGivenAway) {
  Start({});
  Load("a")->done.WaitForNotification();
  const std::shared_ptr<Engine> first = *models_->Find("a");
  const auto swapped = std::make_shared<Loaded>();
  ModelRegistry::LoadCallbacks callbacks = Note(swapped);
  std::shared_ptr<Engine> replaced;
  absl::Status busy;
  callbacks.on_replaced = [&](std::shared_ptr<Engine> engine) {
    EXPECT_FALSE(swapped->done.HasBeenNotified());
    replaced = std::move(engine);
    busy = models_->BeginUnload("a").status();
  };
  ModelSource source = Source("a");
  source.version.clear();
  models_->Swap(source, callbacks);
  swapped->done.WaitForNotification();
  ASSERT_TRUE(swapped->status.ok()) << swapped->status;
  EXPECT_EQ(replaced, first);
  EXPECT_TRUE(absl::IsAborted(busy)) << busy;
  EXPECT_TRUE(models_->BeginUnload("a").ok());
}

TEST_F(ModelRegistryTest, TheListenerHearsThePresentStateLast) {
  absl::Notification ready, go_on;
  on_state_ = [&](const ModelStatus& status) {
    if (status.state != ModelState::kReady) return;
    ready.Notify();
    go_on.WaitForNotification();
  };
  Start({Source("a")});
  ready.WaitForNotification();
  std::thread unload([&] { EXPECT_TRUE(models_->BeginUnload("a").ok()); });
  EXPECT_TRUE(WaitUntil([&] { return models_->Status("a")->state == ModelState::kDraining; }));
  go_on.Notify();
  unload.join();
  EXPECT_THAT(Told(), ElementsAre("a 2", "a 3"));
}

TEST_F(ModelRegistryTest, TheListenerHearsNothingOfALoadThatFails) {
  Start({});
  std::ofstream(roots_.path() / "quick" / "config.json") << R"({"model_type": "unknown"})";
  const std::shared_ptr<Loaded> failed = Load("a");
  failed->done.WaitForNotification();
  EXPECT_FALSE(failed->status.ok());
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(ModelRegistryTest, ASwapKeepsWhatWasExpectedOfItsMemory) {
  Start({});
  Load("a")->done.WaitForNotification();
  const std::shared_ptr<Loaded> swapped = std::make_shared<Loaded>();
  ModelSource source = Source("a");
  std::ofstream(roots_.path() / "quick" / "model.safetensors") << "four";
  source.version.clear();
  models_->Swap(source, Note(swapped));
  swapped->done.WaitForNotification();
  ASSERT_TRUE(swapped->status.ok()) << swapped->status;
  const std::vector<ModelStatus> versions = models_->ListVersions();
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].version, "2");
  EXPECT_EQ(versions[0].expected_bytes, versions[1].expected_bytes + 4);
  EXPECT_EQ(versions[1].state, ModelState::kDraining);
}

// ---------------------------------------------------------------- the end

TEST_F(ModelRegistryTest, TheEndAnswersWhatWaits) {
  ModelSource missing = Source("missing");
  missing.directory = "/nonexistent";
  Start({Source("first", "slow"), missing});
  WaitForGate();
  const std::shared_ptr<Loaded> queued = Load("third");
  models_->CancelOperations();
  ASSERT_TRUE(queued->done.HasBeenNotified()) << "it does not wait for the first model";
  EXPECT_TRUE(absl::IsUnavailable(queued->status)) << queued->status;
  const std::shared_ptr<Loaded> late = Load("fourth");
  ASSERT_TRUE(late->done.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(late->status)) << late->status;
  EXPECT_EQ(models_->ListVersions().size(), 2u);
  OpenGate();
  EXPECT_TRUE(WaitUntil([&] { return !Told().empty(); }));
  models_.reset();
  EXPECT_THAT(Told(), ElementsAre("first 2")) << "the next one is not loaded any more";
}

TEST_F(ModelRegistryTest, AVersionThatGoesAfterTheEndIsAnswered) {
  Start({Source("a")});
  ASSERT_TRUE(models_->WaitUntilLoaded().ok());
  const auto engines = models_->BeginUnload("a");
  ASSERT_TRUE(engines.ok());
  models_->CancelOperations();
  absl::Status retired;
  models_->Retire(engines->front(), [&](const absl::Status& status) { retired = status; });
  EXPECT_TRUE(absl::IsUnavailable(retired)) << retired;
}

// The server could not start after its operators' listener.
TEST_F(ModelRegistryTest, OperationsEndThoughLoadingNeverBegins) {
  Start({Source("first", "slow")}, /*load_at_once=*/false);
  SessionManager sessions(models_.get(), {});
  absl::Status status;
  {
    ModelAdmin admin(models_.get(), &sessions, {{roots_.string()}});
    ModelAdmin::Wanted wanted;
    wanted.name = "a";
    wanted.directory = "quick";
    admin.Load(wanted, nullptr,
               [&](const absl::StatusOr<ModelStatus>& loaded) { status = loaded.status(); });
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

}  // namespace
}  // namespace longstream
