// Measures decode steps of many sequences of the 2B shape, as a plugin runs them: tokens per second
// beside the roofline, and the share of a step during which the host waits for the GPU. While it
// waits, the next step is already in the queue, so the GPU does not wait for the host.
// (batching_bench measures the same with the engine around the steps.)
#include <algorithm>
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

constexpr int kStreams[] = {1, 16, 64, 256};
constexpr int64_t kContext = 1024;

struct BatchPlan {
  const char* name;  // the name in the report
  const char* plan;  // the plan's name in bench_plans.h
};
constexpr BatchPlan kPlans[] = {{"dense", "dense"}, {"HypeNet", "hypenet"}};

std::vector<Figure> FiguresOf(const BatchPlan& plan, int streams) {
  const std::string of = std::string(plan.name) + " x " + std::to_string(streams);
  return {{.name = "batch " + of, .unit = "tokens/s"}, {.name = "waiting " + of, .unit = "ratio"}};
}

// The least time of a step, by the bytes that it reads and by its operations. A weight counts twice
// its parameters for each row.
double FloorSeconds(GpuBench& bench, const Model& model, const CacheLayout& layout, int streams,
                    int64_t context) {
  const double weights = StepWeightBytes(model.spec(), model.weights(), DeviceOps());
  const double bytes = weights + streams * DecodeCacheBytes(layout, context);
  const double operations = 2.0 * streams * weights / sizeof(BF16);
  return std::max(bytes / bench.copy_bandwidth(), operations / bench.product_rate());
}

void BenchStreams(GpuBench& bench, const BatchPlan& plan, Model& model, int streams) {
  const int count = std::min(streams, bench.sizes().most_streams);
  const int64_t context = bench.Scaled(kContext);
  const auto sequences = FakeSequences(bench, model, count, context);
  const StepTimes times = MeasureSteps(bench.sizes(), model, sequences);
  // The measured steps are on average half of all steps behind the context.
  const double floor = FloorSeconds(bench, model, sequences[0]->cache->store().layout, count,
                                    context + NumSteps(bench.sizes()) / 2);
  std::vector<Figure> figures = FiguresOf(plan, streams);
  figures[0].value = count / times.step;
  figures[0].against = "roofline";
  figures[0].fraction = floor / times.step;
  figures[1].value = times.waiting / times.step;
  for (Figure& figure : figures) bench.report().Add(std::move(figure));
}

void BenchPlan(GpuBench& bench, const BatchPlan& plan) {
  const auto most = static_cast<uint32_t>(std::min(kStreams[3], bench.sizes().most_streams));
  const auto model = MakeGpuModel(bench, bench.sizes().batch_shape, plan.plan, most);
  for (const int streams : kStreams) {
    bench.report().Measure(FiguresOf(plan, streams),
                           [&] { BenchStreams(bench, plan, *model, streams); });
  }
}

}  // namespace

void BenchBatches(GpuBench& bench) {
  for (const BatchPlan& plan : kPlans) {
    std::vector<Figure> figures;
    for (const int streams : kStreams) {
      for (Figure& figure : FiguresOf(plan, streams)) figures.push_back(std::move(figure));
    }
    bench.report().Measure(figures, [&] { BenchPlan(bench, plan); });
  }
}

}  // namespace longstream
