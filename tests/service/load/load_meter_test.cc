// The meter, and that its numbers are those of a scrape.
#include "service/load/load_meter.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "service/load/load_signals.h"
#include "service/metrics/model_metrics.h"
#include "tests/service/metric_value.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

class Listener : public LoadListener {
 public:
  void OnLoad(const Load& load) override {
    waiting.store(load.turns_waiting);
    ++calls;
  }
  std::atomic<double> waiting = -1;
  std::atomic<int> calls = 0;
};

class LoadMeterTest : public testing::Test {
 protected:
  double Value(const std::string& name) const { return MetricValue(*registry_, name); }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  ModelMetrics model_{registry_.get(), {"m", "1", "dense", "cpu"}};
  ModelMetrics other_{registry_.get(), {"n", "1", "dense", "cpu"}};
};

TEST_F(LoadMeterTest, TheNumbersAreThoseOfAScrape) {
  LoadMeter meter(registry_,
                  {.places = 8, .memory_limit = 1 << 30, .period = absl::InfiniteDuration()});
  model_.SetRequests(4, 2, 3);
  other_.SetRequests(1, 7, 0);
  model_.SetMemory({.kv = 30, .window = 20, .budget = 100});
  model_.AddGeneratedTokens(1000);
  model_.CountRequest("OK", "stop_token");
  other_.CountRequest("INTERNAL", "");
  meter.Measure();

  const Load load = meter.Latest();
  const double parked = Value("longstream_requests_parked");
  EXPECT_EQ(load.turns_running, Value("longstream_requests_running") - parked);
  EXPECT_EQ(load.turns_waiting, Value("longstream_requests_waiting") + parked);
  EXPECT_EQ(load.turns_waiting, 12);
  EXPECT_EQ(load.cache_usage, Value("longstream_cache_usage_ratio"));
  EXPECT_EQ(Value("longstream_cache_budget_bytes"), 100);
  EXPECT_GT(load.tokens_per_second, 0);
  EXPECT_NEAR(load.tokens_per_second / load.turns_per_second,
              Value("longstream_generated_tokens_total") / Value("longstream_requests_total"),
              1e-6);
  EXPECT_NEAR(load.failed_turns_per_second, load.turns_per_second / 2, 1e-6);
  // The mean of the beginning, without turns, and of now.
  EXPECT_DOUBLE_EQ(load.utilization, 0.5 * 8 / 8);
  EXPECT_EQ(load.memory_utilization, Value("longstream_process_memory_bytes") /
                                         Value("longstream_process_memory_limit_bytes"));
  EXPECT_GT(load.memory_utilization, 0);
  for (const LoadSignal& signal : kLoadSignals) {
    EXPECT_EQ(Value(std::string("longstream_load_") + signal.name), load.*signal.value)
        << signal.name;
  }
}

TEST_F(LoadMeterTest, MeasuresTheProcess) {
  LoadMeter meter(registry_, {.memory_limit = 12345, .period = absl::InfiniteDuration()});
  EXPECT_EQ(Value("longstream_process_memory_limit_bytes"), 12345);
  EXPECT_GT(Value("longstream_process_memory_bytes"), 0);
  EXPECT_GT(Value("longstream_process_cpu_limit"), 0);
  const double before = Value("longstream_process_cpu_seconds_total");
  EXPECT_GT(before, 0);
  EXPECT_TRUE(WaitUntil([&] {
    meter.Measure();
    return Value("longstream_process_cpu_seconds_total") > before;
  }));
  EXPECT_GT(meter.Latest().cpu_utilization, 0);
}

TEST_F(LoadMeterTest, ListenersHearEachMeasurementUntilTheyLeave) {
  LoadMeter meter(registry_, {.period = absl::InfiniteDuration()});
  Listener first, second;
  meter.AddListener(&first);
  meter.AddListener(&second);
  model_.SetRequests(0, 3, 0);
  meter.Measure();
  EXPECT_EQ(first.waiting, 3);
  EXPECT_EQ(second.waiting, 3);
  meter.RemoveListener(&first);
  meter.Measure();
  EXPECT_EQ(first.calls, 1);
  EXPECT_EQ(second.calls, 2);
  meter.RemoveListener(&second);
}

TEST_F(LoadMeterTest, MeasuresByItself) {
  LoadMeter meter(registry_, {.period = absl::Milliseconds(1)});
  Listener listener;
  meter.AddListener(&listener);
  model_.SetRequests(0, 5, 0);
  EXPECT_TRUE(WaitUntil([&] { return listener.waiting == 5; }));
  const int calls = listener.calls;
  EXPECT_TRUE(WaitUntil([&] { return listener.calls > calls + 3; }));
  meter.RemoveListener(&listener);
}

TEST(LoadSignalsTest, AreFoundByTheirNames) {
  for (const LoadSignal& signal : kLoadSignals) {
    const LoadSignal* const found = FindLoadSignal(signal.name);
    ASSERT_NE(found, nullptr) << signal.name;
    EXPECT_STREQ(found->name, signal.name);
  }
  EXPECT_EQ(FindLoadSignal(""), nullptr);
  EXPECT_EQ(FindLoadSignal("turns"), nullptr);
  EXPECT_EQ(LoadSignalNames(),
            "turns_running, turns_waiting, queue_seconds, utilization, cache_usage, session_bytes, "
            "cpu_utilization, memory_utilization, tokens_per_second, turns_per_second, "
            "failed_turns_per_second");
}

}  // namespace
}  // namespace longstream
