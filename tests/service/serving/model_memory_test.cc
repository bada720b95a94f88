// One budget of memory for all models of a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "service/models/memory_plan.h"
#include "service/serving/model_registry.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/serving/wait_for_session.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kLimit = 8 * kGiB;
constexpr uint64_t kShared = kLimit - kLimit / 8;  // beside the reserve
// The bytes that the test's process itself holds, and those that change while it is measured.
constexpr uint64_t kOfProcess = kGiB / 4;

constexpr char kCanSetBudget[] = LONGSTREAM_BINARY_DIR "/plugins/minimal.cpu.so";
constexpr char kCannotSetBudget[] = LONGSTREAM_BINARY_DIR "/test_plugins/registry_older_minor.so";

class ModelMemoryTest : public testing::TestWithParam<const char*> {
 protected:
  // `cache_bytes`: those of each model. The models are named a, b, ...
  void Load(const std::vector<uint64_t>& cache_bytes, uint64_t memory_bytes = kLimit) {
    std::vector<ModelSource> sources;
    for (const uint64_t bytes : cache_bytes) {
      sources.push_back(model_.Source("{}", bytes));
      sources.back().name = std::string(1, static_cast<char>('a' + sources.size() - 1));
    }
    ModelRegistry::Options options;
    options.plugins = model_.plugins();
    options.host = model_.host();
    options.metrics = model_.registry();
    options.memory_bytes = memory_bytes;
    models_.emplace(options, sources, nullptr);
    loaded_ = models_->WaitUntilLoaded();
  }

  // Expects that the model has about this share. If its budget cannot change after it has been
  // opened, an eighth is left.
  void ExpectShare(const std::string& name, uint64_t share) {
    const bool can_change = std::string_view(GetParam()) == kCanSetBudget;
    EXPECT_LE(Budget(name), share) << name;
    EXPECT_GE(Budget(name), (can_change ? share : share / 8 * 7) - kOfProcess) << name;
  }

  uint64_t Budget(const std::string& name) {
    return models_->Find(name).value()->model().backend().memory().budget;
  }

  MinimalModel model_{GetParam()};
  std::optional<ModelRegistry> models_;
  absl::Status loaded_;
};

TEST_P(ModelMemoryTest, EqualModelsShareEqually) {
  Load({0, 0, 0});
  ASSERT_TRUE(loaded_.ok()) << loaded_;
  if (std::string_view(GetParam()) == kCanSetBudget) {
    for (const char* name : {"a", "b", "c"}) ExpectShare(name, kShared / 3);
  } else {
    ExpectShare("a", kShared / 3);
  }
  EXPECT_LE(Budget("a") + Budget("b") + Budget("c"), kShared);
}

TEST_P(ModelMemoryTest, ModelsWithCacheBytesGetThemFirst) {
  Load({0, 4 * kGiB, 0, kGiB});
  ASSERT_TRUE(loaded_.ok()) << loaded_;
  EXPECT_EQ(Budget("b"), 4 * kGiB);
  EXPECT_EQ(Budget("d"), kGiB);
  ExpectShare("a", kGiB);
  EXPECT_LE(Budget("a") + Budget("c"), 2 * kGiB);
  EXPECT_GE(Budget("c"), kGiB / 8 * 7 - kOfProcess);
}

TEST_P(ModelMemoryTest, CacheBytesThatDoNotFitFailTheModel) {
  Load({4 * kGiB, 4 * kGiB, 0});
  EXPECT_TRUE(absl::IsResourceExhausted(loaded_)) << loaded_;
  for (const std::string& part :
       {std::string("a ("), std::string("b ("), std::string("c ("), std::to_string(4 * kGiB),
        std::to_string(kLimit), std::to_string(kLimit / 8)}) {
    EXPECT_THAT(loaded_.message(), HasSubstr(part));
  }
  const absl::StatusOr<ModelStatus> failed = models_->Status("a");
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->state, ModelState::kFailed);
  EXPECT_EQ(Budget("b"), 4 * kGiB) << "there is room for it without a";
  ExpectShare("c", kShared - 4 * kGiB);
}

TEST_P(ModelMemoryTest, WithoutALimitEachModelMayTakeAll) {
  Load({0, 0}, /*memory_bytes=*/0);
  ASSERT_TRUE(loaded_.ok()) << loaded_;
  EXPECT_EQ(Budget("a"), UINT64_MAX);
  EXPECT_EQ(Budget("b"), UINT64_MAX);
}

// Waits until the budget of the model is at least `least`. Returns the budget.
uint64_t BudgetAfterAWhile(const Engine& engine, uint64_t least) {
  uint64_t budget = 0;
  for (int i = 0; i < 2000; ++i) {
    budget = engine.model().backend().memory().budget;
    if (budget >= least) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return budget;
}

TEST(LostModelMemoryTest, OtherModelsGetItsShare) {
  MinimalModel minimal(kCanSetBudget);
  std::vector<ModelSource> sources = {minimal.Source(R"({"lose_device_at_position": 30})"),
                                      minimal.Source()};
  sources[0].name = "frail";
  sources[1].name = "well";
  ModelRegistry::Options options;
  options.plugins = minimal.plugins();
  options.host = minimal.host();
  options.metrics = minimal.registry();
  options.memory_bytes = kLimit;
  ModelRegistry models(options, sources, nullptr);
  ASSERT_TRUE(models.WaitUntilLoaded().ok());
  const std::shared_ptr<Engine> well = models.Find("well").value();
  EXPECT_LE(BudgetAfterAWhile(*well, kShared / 2 - kOfProcess), kShared / 2);

  SessionManager sessions(&models, {});
  const absl::StatusOr<SessionView> session = WaitForSession([&](SessionManager::Opened opened) {
    sessions.OpenSession("", "frail", std::nullopt, std::nullopt, std::move(opened));
  });
  ASSERT_TRUE(session.ok()) << session.status();
  {
    absl::StatusOr<NewTurn> turn = sessions.TurnOf({"", session->id});
    ASSERT_TRUE(turn.ok() && turn->Lease().ok());
    ASSERT_TRUE(turn->Start(turn->Make(Generate(nullptr, "text", 100), nullptr)).ok());
  }
  EXPECT_GE(BudgetAfterAWhile(*well, kShared - 2 * kOfProcess), kShared - 2 * kOfProcess);
  EXPECT_LE(well->model().backend().memory().budget, kShared);
}

INSTANTIATE_TEST_SUITE_P(Plugins, ModelMemoryTest,
                         testing::Values(kCanSetBudget, kCannotSetBudget));

}  // namespace
}  // namespace longstream
