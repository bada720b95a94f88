// Measures whole decode steps at batch 1 of the 14B shape, as a plugin runs them: dense, two full
// layers and windows of 64, and HypeNet's published layers.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"
#include "tests/bench/gpu/gpu_model.h"
#include "tests/bench/plans/step_bytes.h"

namespace longstream {
namespace {

constexpr int64_t kContexts[] = {4096, 32768, 131072, 524288};
constexpr double kLeastOfRoofline = 0.85;

struct StepPlan {
  const char* name;  // the name in the report
  const char* plan;  // the plan's name in bench_plans.h
};
constexpr StepPlan kPlans[] = {
    {"dense", "dense"}, {"2 full + w 64", "hwfa2"}, {"HypeNet", "hypenet"}};

std::string NameOfStep(const std::string& plan, int64_t context) {
  return "step " + plan + " " + std::to_string(context / 1024) + "K";
}

Figure Step(const StepPlan& plan, int64_t context) {
  Figure figure = {.name = NameOfStep(plan.name, context)};
  if (context == 4096 || context == 131072) figure.least = kLeastOfRoofline;
  return figure;
}

void BenchContext(GpuBench& bench, Figure figure, Model& model, int64_t context) {
  const auto sequences = FakeSequences(bench, model, 1, context);
  const CacheLayout& layout = sequences[0]->cache->store().layout;
  const double bytes = StepWeightBytes(model.spec(), model.weights(), DeviceOps()) +
                       DecodeCacheBytes(layout, context);
  const double seconds = MeasureSteps(bench.sizes(), model, sequences).step;
  figure.value = 1e6 * seconds;
  figure.against = "roofline";
  figure.fraction = bytes / bench.copy_bandwidth() / seconds;
  bench.report().Add(std::move(figure));
}

void BenchPlan(GpuBench& bench, const StepPlan& plan) {
  const auto model = MakeGpuModel(bench, bench.sizes().shape, plan.plan, 1);
  for (const int64_t context : kContexts) {
    const Figure figure = Step(plan, context);
    bench.report().Measure({figure},
                           [&] { BenchContext(bench, figure, *model, bench.Scaled(context)); });
  }
}

// Adds the ratio of our dense time to our hybrid time at one context.
void AddRatio(BenchReport& report, const char* hybrid, int64_t context,
              std::optional<double> least) {
  Figure figure = {
      .name = std::string("dense / ") + hybrid + " " + std::to_string(context / 1024) + "K",
      .unit = "ratio",
      .least = least};
  const std::optional<double> dense = report.Find(NameOfStep("dense", context));
  const std::optional<double> other = report.Find(NameOfStep(hybrid, context));
  if (dense.has_value() && other.has_value()) {
    figure.value = *dense / *other;
  } else {
    figure.missing = "a step of either is missing";
  }
  report.Add(std::move(figure));
}

}  // namespace

void BenchSteps(GpuBench& bench) {
  for (const StepPlan& plan : kPlans) {
    std::vector<Figure> steps;
    for (const int64_t context : kContexts) steps.push_back(Step(plan, context));
    bench.report().Measure(steps, [&] { BenchPlan(bench, plan); });
  }
  // The contexts of the published latency table. The last one has a target.
  for (const int64_t context : {int64_t{32768}, int64_t{131072}}) {
    AddRatio(bench.report(), "HypeNet", context, std::nullopt);
  }
  AddRatio(bench.report(), "HypeNet", 524288, 1.8);
  AddRatio(bench.report(), "2 full + w 64", 524288, 2.8);
}

}  // namespace longstream
