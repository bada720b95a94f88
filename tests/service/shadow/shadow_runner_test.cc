// Turns are replayed on two models, and the metrics say how the models differ.
#include "service/shadow/shadow_runner.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/metric_value.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

// One engine serves the models "m" and "same". No model is named "gone".
class ShadowRunnerTest : public testing::Test {
 protected:
  explicit ShadowRunnerTest(uint64_t cache_bytes = 0)
      : engine_(std::make_unique<TestEngine>("{}", cache_bytes, OptionsWith(live_))) {}

  static Engine::Options OptionsWith(std::shared_ptr<LiveWork> live) {
    Engine::Options options;
    options.live_work = std::move(live);
    return options;
  }
  std::unique_ptr<ShadowRunner> Run() {
    return std::make_unique<ShadowRunner>(
        queue_,
        [this](std::string_view model) -> absl::StatusOr<std::shared_ptr<Engine>> {
          if (model == "gone") return absl::NotFoundError("no such model");
          // The test owns the engine.
          return std::shared_ptr<Engine>(std::shared_ptr<void>(), &**engine_);
        },
        live_, &metrics_);
  }
  void Push(size_t tokens, uint64_t answer_begin, const std::string& shadow = "same") {
    std::vector<int32_t> ids(tokens);
    for (size_t i = 0; i < tokens; ++i) ids[i] = static_cast<int32_t>('a' + i * i % 23);
    queue_->TapFor(shadow)->Answered({"m", ids, answer_begin});
  }
  double Metric(const std::string& name) const { return MetricValue(registry_, name); }
  double Dropped(const std::string& reason) const {
    return MetricValue(registry_, "longstream_shadow_dropped_turns_total", {{"reason", reason}});
  }
  bool AwaitDrop(const std::string& reason) const {
    return WaitUntil([&] { return Dropped(reason) == 1; });
  }
  bool AwaitTurns(double turns) const {
    return WaitUntil([&] { return Metric("longstream_shadow_turns_total") == turns; });
  }
  prometheus::ClientMetric::Histogram Kl() const {
    for (const prometheus::MetricFamily& family : registry_.Collect()) {
      if (family.name == "longstream_compare_kl_nats" && !family.metric.empty()) {
        return family.metric.front().histogram;
      }
    }
    return {};
  }

  prometheus::Registry registry_;
  ShadowMetrics metrics_{&registry_};
  const std::shared_ptr<LiveWork> live_ = std::make_shared<LiveWork>();
  std::unique_ptr<TestEngine> engine_;
  const std::shared_ptr<ShadowQueue> queue_ =
      std::make_shared<ShadowQueue>(ShadowQueue::Limits{}, &metrics_);
};

TEST_F(ShadowRunnerTest, AModelAgreesWithItself) {
  const auto runner = Run();
  Push(1000, 900);
  Push(30, 0);   // the first token of all has no row
  Push(40, 40);  // an empty answer
  ASSERT_TRUE(AwaitTurns(3));
  EXPECT_EQ(Metric("longstream_compare_tokens_total"), 100 + 29);
  EXPECT_EQ(Metric("longstream_compare_top1_agreements_total"), 100 + 29);
  EXPECT_EQ(Kl().sample_count, 129u);
  EXPECT_EQ(Kl().sample_sum, 0) << "exactly";
}

TEST_F(ShadowRunnerTest, ComputesNothingWhileThereIsLiveWork) {
  LiveWork::Part part = live_->Begin();
  const auto runner = Run();
  Push(200, 100);
  ASSERT_TRUE(WaitUntil([&] { return Metric("longstream_shadow_queued_turns") == 0; }));
  (*engine_)->Flush();
  (*engine_)->Flush();
  EXPECT_EQ((*engine_)->model().backend().memory().reserved, 0u);
  EXPECT_EQ(Metric("longstream_shadow_turns_total"), 0);
  part.End();
  EXPECT_TRUE(AwaitTurns(1));
}

TEST_F(ShadowRunnerTest, DropsTurnsOfModelsThatAreNotServed) {
  const auto runner = Run();
  Push(20, 10, "gone");
  EXPECT_TRUE(AwaitDrop("model"));
  Push(20, 10);
  EXPECT_TRUE(AwaitTurns(1)) << "the runner goes on";
}

TEST_F(ShadowRunnerTest, AModelThatIsUnloadedEndsItsReplay) {
  const LiveWork::Part part = live_->Begin();
  const auto runner = Run();
  Push(20, 10);
  ASSERT_TRUE(WaitUntil([&] { return Metric("longstream_shadow_queued_turns") == 0; }));
  (*engine_)->Stop(absl::FailedPreconditionError("unloaded"));
  EXPECT_TRUE(AwaitDrop("model"));
}

TEST_F(ShadowRunnerTest, DropsTurnsThatAreTooLongForAModel) {
  const auto runner = Run();
  Push((*engine_)->model().backend().info().context_limit + 1, 10);
  EXPECT_TRUE(AwaitDrop("too_long"));
}

TEST_F(ShadowRunnerTest, StopsWhileAReplayWaits) {
  const LiveWork::Part part = live_->Begin();
  const auto runner = Run();
  Push(20, 10);
  Push(20, 10);
  runner->Stop();
  EXPECT_EQ(Dropped("stopped"), 2);
  Push(20, 10);
  EXPECT_EQ(Dropped("stopped"), 3);
}

class SmallShadowRunnerTest : public ShadowRunnerTest {
 protected:
  SmallShadowRunnerTest() : ShadowRunnerTest(/*cache_bytes=*/1 << 14) {}
};

TEST_F(SmallShadowRunnerTest, DropsATurnWithoutMemory) {
  while (engine_->model().EvictionsCounted("open") == 0) ASSERT_TRUE(engine_->TryOpen().ok());
  const auto runner = Run();
  Push(20, 10);
  EXPECT_TRUE(AwaitDrop("memory"));
  EXPECT_EQ(engine_->model().EvictionsCounted("turn"), 0);
}

TEST(ShadowMetricsTest, CountsPairsUntilAModelIsUnloaded) {
  prometheus::Registry registry;
  ShadowMetrics metrics(&registry);
  const std::vector<double> kl = {0.5, 1e300, 0};
  metrics.AddTurn("a", "b", kl, 2);
  metrics.AddTurn("c", "a", kl, 1);
  metrics.AddTurn("c", "b", kl, 0);
  metrics.CountDrop("a", "b", "full");
  const auto value = [&](const std::string& name, const std::string& pair) {
    return MetricValue(registry, name, {{"pair", pair}});
  };
  EXPECT_EQ(value("longstream_compare_tokens_total", "a/b"), 3);
  EXPECT_EQ(value("longstream_compare_top1_agreements_total", "a/b"), 2);
  EXPECT_EQ(value("longstream_shadow_dropped_turns_total", "a/b"), 1);
  metrics.Retire("a");
  for (const std::string pair : {"a/b", "c/a"}) {
    EXPECT_EQ(value("longstream_shadow_turns_total", pair), 0);
    EXPECT_EQ(value("longstream_shadow_dropped_turns_total", pair), 0);
  }
  EXPECT_EQ(value("longstream_shadow_turns_total", "c/b"), 1);
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name != "longstream_compare_kl_nats") continue;
    ASSERT_EQ(family.metric.size(), 1u) << "the others were removed";
    EXPECT_EQ(family.metric[0].histogram.sample_sum, 0.5 + ShadowMetrics::kMostKl);
  }
}

TEST(ShadowMetricsTest, LateDropsDoNotBringAnUnloadedPairBack) {
  prometheus::Registry registry;
  ShadowMetrics metrics(&registry);
  const auto drops = [&](const std::string& pair) {
    return MetricValue(registry, "longstream_shadow_dropped_turns_total", {{"pair", pair}});
  };
  metrics.AddTurn("a", "b", std::vector<double>{0.5}, 1);
  metrics.Retire("b");
  metrics.CountDrop("a", "b", "model");
  EXPECT_EQ(drops("a/b"), 0);
  EXPECT_EQ(drops("other/other"), 1);
  metrics.Return("b");
  metrics.CountDrop("a", "b", "full");
  EXPECT_EQ(drops("a/b"), 1);
}

TEST(ShadowMetricsTest, HasABoundedNumberOfPairs) {
  prometheus::Registry registry;
  ShadowMetrics metrics(&registry);
  for (size_t i = 0; i < 2 * ShadowMetrics::kMostPairs; ++i) {
    metrics.CountDrop("m" + std::to_string(i), "s", "full");
  }
  EXPECT_EQ(
      MetricValue(registry, "longstream_shadow_dropped_turns_total", {{"pair", "other/other"}}),
      ShadowMetrics::kMostPairs);
}

}  // namespace
}  // namespace longstream
