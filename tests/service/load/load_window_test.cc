// Sums of the metrics of models, and rates over the last seconds.
#include "service/load/load_window.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include "service/load/load_totals.h"
#include "service/metrics/alias_metrics.h"
#include "service/metrics/model_metrics.h"
#include "service/metrics/session_metrics.h"

namespace longstream {
namespace {

constexpr absl::Duration kLength = absl::Seconds(10);
constexpr MonotonicTime kStart;

MonotonicTime At(int seconds) { return kStart + absl::Seconds(seconds); }

TEST(LoadTotalsTest, WithoutModelsAllAreZero) {
  const prometheus::Registry registry;
  const LoadTotals totals = TotalsOf(registry.Collect());
  EXPECT_EQ(totals.turns_running, 0);
  EXPECT_EQ(totals.most_turns, 0);
  EXPECT_EQ(totals.turns, 0);
}

TEST(LoadTotalsTest, AddsModelsAndTellsTheirVersionsApart) {
  prometheus::Registry registry;
  ModelMetrics old_version(&registry, {"m", "1", "dense", "cpu"});
  ModelMetrics new_version(&registry, {"m", "2", "dense", "cpu"});
  ModelMetrics other(&registry, {"n", "1", "dense", "cpu"});
  ArmMetrics arm(&registry, "alias", "m");  // counts the same turns again
  old_version.SetRequests(1, 2, 0);
  new_version.SetRequests(3, 4, 1);
  other.SetRequests(5, 1, 0);
  old_version.SetMemory({.kv = 10, .window = 20, .state = 30, .budget = 100});
  new_version.SetMemory({.kv = 50, .budget = 100});
  other.SetMemory({.kv = 1000, .budget = 0});
  old_version.AddGeneratedTokens(10);
  other.AddGeneratedTokens(5);
  old_version.CountRequest("OK", "max_tokens");
  old_version.CountRequest("INTERNAL", "");
  other.CountRequest("RESOURCE_EXHAUSTED", "");
  other.CountRequest("CANCELLED", "");
  other.CountRequest("INVALID_ARGUMENT", "");
  arm.CountRequest("INTERNAL", "");
  old_version.ObserveQueue(0.25);
  other.ObserveQueue(0.5);
  SessionMetrics sessions(&registry, /*host_limit=*/40);
  sessions.SetHostBytes(30);

  const LoadTotals totals = TotalsOf(registry.Collect());
  EXPECT_EQ(totals.turns_running, 8);
  EXPECT_EQ(totals.turns_waiting, 8) << "one of them was admitted, and waits for a place";
  EXPECT_EQ(totals.most_turns, 7) << "the version 2 of m";
  EXPECT_DOUBLE_EQ(totals.cache_usage, 0.6) << "the version 1 of m; n has no budget";
  EXPECT_EQ(totals.tokens, 15);
  EXPECT_EQ(totals.turns, 5);
  EXPECT_EQ(totals.failed_turns, 2);
  EXPECT_DOUBLE_EQ(totals.queue_seconds, 0.75);
  EXPECT_EQ(totals.queued_turns, 2);
  EXPECT_EQ(totals.session_bytes, 30);
  EXPECT_EQ(totals.session_limit_bytes, 40);
}

TEST(LoadTotalsTest, FailuresAreTheServers) {
  for (const char* code :
       {"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DATA_LOSS", "RESOURCE_EXHAUSTED"}) {
    EXPECT_TRUE(IsFailure(code)) << code;
  }
  for (const char* code : {"OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS",
                           "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "ABORTED", ""}) {
    EXPECT_FALSE(IsFailure(code)) << code;
  }
}

TEST(LoadWindowTest, TheFirstMeasurementHasNoRates) {
  LoadWindow window(kLength, 4);
  const Load load = window.Add(At(0),
                               {.turns_running = 3,
                                .turns_waiting = 1,
                                .most_turns = 2,
                                .cache_usage = 0.5,
                                .tokens = 100,
                                .turns = 10,
                                .failed_turns = 1},
                               {.cpu_seconds = 5, .cpu_limit = 2, .memory_bytes = 1});
  EXPECT_EQ(load.turns_running, 3);
  EXPECT_EQ(load.turns_waiting, 1);
  EXPECT_EQ(load.utilization, 0.5);
  EXPECT_EQ(load.cache_usage, 0.5);
  EXPECT_EQ(load.queue_seconds, 0);
  EXPECT_EQ(load.session_bytes, 0) << "there is no limit";
  EXPECT_EQ(load.cpu_utilization, 0);
  EXPECT_EQ(load.memory_utilization, 0) << "the limit is not known";
  EXPECT_EQ(load.tokens_per_second, 0);
  EXPECT_EQ(load.turns_per_second, 0);
  EXPECT_EQ(load.failed_turns_per_second, 0);
}

TEST(LoadWindowTest, RatesAreThoseOfTheWindow) {
  LoadWindow window(kLength, 4);
  Load load;
  for (int second = 0; second <= 30; ++second) {
    // From the second 20 on, twice as fast.
    const double events = second <= 20 ? second : 20 + 2 * (second - 20);
    load =
        window.Add(At(second),
                   {.most_turns = second <= 20 ? 2.0 : 8.0,
                    .session_bytes = 10,
                    .session_limit_bytes = 40,
                    .queue_seconds = 3 * events,
                    .queued_turns = 12 * events,
                    .tokens = 100 * events,
                    .turns = 10 * events,
                    .failed_turns = events},
                   {.cpu_seconds = events, .cpu_limit = 4, .memory_bytes = 30, .memory_limit = 40});
    if (second == 20) {
      EXPECT_DOUBLE_EQ(load.tokens_per_second, 100);
      EXPECT_DOUBLE_EQ(load.utilization, 0.5);
    }
    if (second == 25) {
      EXPECT_DOUBLE_EQ(load.tokens_per_second, 150);
    }
  }
  EXPECT_DOUBLE_EQ(load.tokens_per_second, 200);
  EXPECT_DOUBLE_EQ(load.turns_per_second, 20);
  EXPECT_DOUBLE_EQ(load.failed_turns_per_second, 2);
  EXPECT_DOUBLE_EQ(load.queue_seconds, 0.25);
  EXPECT_DOUBLE_EQ(load.session_bytes, 0.25);
  EXPECT_DOUBLE_EQ(load.cpu_utilization, 0.5);
  EXPECT_DOUBLE_EQ(load.memory_utilization, 0.75);
  EXPECT_GT(load.utilization, 1.5) << "turns wait for a place";
}

// A model that is unloaded takes its counters with it.
TEST(LoadWindowTest, AnUnloadedModelMakesNoRateNegative) {
  LoadWindow window(kLength, 4);
  window.Add(At(0), {.tokens = 1000, .turns = 100, .failed_turns = 10}, {});
  window.Add(At(1), {.tokens = 1010, .turns = 101, .failed_turns = 11}, {});
  window.Add(At(2), {.tokens = 5, .turns = 1, .failed_turns = 0}, {});
  const Load load = window.Add(At(4), {.tokens = 15, .turns = 2, .failed_turns = 0}, {});
  EXPECT_DOUBLE_EQ(load.tokens_per_second, 5);
  EXPECT_DOUBLE_EQ(load.turns_per_second, 0.5);
  EXPECT_DOUBLE_EQ(load.failed_turns_per_second, 0.25);
}

// After a pause of the process, rates are those of the time since the last measurement before it.
TEST(LoadWindowTest, MeasurementsFarApart) {
  LoadWindow window(kLength, 4);
  window.Add(At(0), {.tokens = 0}, {});
  window.Add(At(100), {.tokens = 100}, {});
  EXPECT_DOUBLE_EQ(window.Add(At(200), {.tokens = 400}, {}).tokens_per_second, 3);
  EXPECT_DOUBLE_EQ(window.Add(At(200), {.tokens = 500}, {}).tokens_per_second, 4);
}

}  // namespace
}  // namespace longstream
