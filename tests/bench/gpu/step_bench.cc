// Measures whole decode steps at batch 1 of the 14B shape, as a plugin runs them: dense, two full
// layers and windows of 64, and HypeNet's published layers. Weights are random and made on the GPU.
// Contexts are pages, rings and states of random numbers, which cost no prefill.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/gpu/gpu_bench.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/bench/plans/step_bytes.h"
#include "tests/bench/timing.h"

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

// Makes random tensors on the GPU.
class GpuWeightMaker final : public WeightMaker {
 public:
  explicit GpuWeightMaker(GpuBench& bench) : bench_(bench) {}

  PackedWeight MakeMatrix(int64_t n, int64_t k) override {
    const size_t packed = DeviceOps().packed_bytes(DType::kBF16, n, k);
    num_parameters += static_cast<uint64_t>(n * k);
    DeviceMemory memory = bench_.Random(DType::kBF16, static_cast<int64_t>(packed / sizeof(BF16)),
                                        1.0f / std::sqrt(static_cast<float>(k)));
    return {Keep(std::move(memory)), DType::kBF16, n, k};
  }

  const float* MakeVector(int64_t n, float mean, float) override {
    return Constants(std::vector<float>(static_cast<size_t>(n), mean));
  }

  const float* Constants(std::span<const float> values) override {
    const size_t size = values.size() * sizeof(float);
    DeviceMemory memory = bench_.Memory(size);
    bench_.device().Upload(memory.data(), values.data(), size);
    bench_.device().Synchronize();
    return static_cast<const float*>(Keep(std::move(memory)));
  }

 private:
  void* Keep(DeviceMemory memory) {
    auto* owned = new DeviceMemory(std::move(memory));
    bytes += owned->size();
    storage.push_back(OwnedMemory(owned->data(), [owned](void*) { delete owned; }));
    return owned->data();
  }

  GpuBench& bench_;
};

// A sequence of `context` tokens of random numbers, with room for the steps of a measurement.
std::unique_ptr<ls_sequence> Fake(GpuBench& bench, Model& model, int64_t context) {
  std::unique_ptr<ls_sequence> sequence = model.Create();
  const BenchSizes& sizes = bench.sizes();
  const int steps = sizes.warm_steps + sizes.rounds * sizes.steps;
  model.Reserve(*sequence, static_cast<uint64_t>(context + steps));
  SequenceCache& cache = *sequence->cache;
  cache.Append(context);
  CacheStore& store = cache.store();
  // The page with the lowest id is taken first, so the pages of the only sequence are consecutive.
  for (size_t layer = 0; layer < store.layout.layers.size(); ++layer) {
    const auto& paged = store.layout.layers[layer].paged;
    if (!paged.has_value()) continue;
    const DType type = store.layout.page_type;
    const auto elements = [&](int64_t page_bytes) {
      return page_bytes / static_cast<int64_t>(SizeOf(type)) * PagesFor(context);
    };
    bench.FillRandom(type, store.pages.keys(layer, 0), elements(paged->key_bytes(type)));
    bench.FillRandom(type, store.pages.values(layer, 0), elements(paged->value_bytes(type)));
  }
  if (store.layout.slot_stride > 0) {
    // States are f32. A pair of bf16 numbers, read as one f32 number, has the magnitude of a bf16
    // number.
    bench.FillRandom(DType::kBF16, store.slots.data(cache.slot()), store.layout.slot_stride / 2);
  }
  return sequence;
}

uint64_t SubmitToken(Model& model, ls_sequence& sequence, int32_t token) {
  ls_sampling greedy{};
  greedy.struct_size = sizeof(greedy);
  greedy.top_p = greedy.repetition_penalty = 1.0f;
  ls_batch_entry entry{};
  entry.sequence = &sequence;
  entry.tokens = &token;
  entry.num_tokens = 1;
  entry.is_decode = 1;
  entry.sampling = &greedy;
  const ls_batch batch = {sizeof(ls_batch), &entry, 1};
  return model.Submit(batch);
}

// Waits for the step. Returns a sentence if the step failed, "" otherwise.
std::string Finish(Model& model, uint64_t ticket) {
  const ls_results results = model.Wait(ticket);
  if (results.results[0].code == LS_OK) return "";
  return std::string("a step failed: ") + results.results[0].message;
}

// Runs `steps` decode steps with two tickets in flight. Each step feeds the token of the previous
// step, as an engine does.
void Decode(Model& model, ls_sequence& sequence, int steps) {
  std::string failure;
  uint64_t pending = SubmitToken(model, sequence, 7);
  for (int i = 1; i < steps && failure.empty(); ++i) {
    const uint64_t next = SubmitToken(model, sequence, LS_TOKEN_FROM_PREVIOUS);
    failure = Finish(model, pending);
    pending = next;
  }
  const std::string last = Finish(model, pending);
  if (failure.empty()) failure = last;
  if (!failure.empty()) FailBenchmark(failure);
}

// Returns the median time of a step over the rounds. The time of a recurrence depends on the
// distance to the grid line, so a round has a step at each distance.
double SecondsPerStep(const BenchSizes& sizes, Model& model, ls_sequence& sequence) {
  Decode(model, sequence, sizes.warm_steps);
  std::vector<double> seconds;
  for (int i = 0; i < sizes.rounds; ++i) {
    seconds.push_back(SecondsOf([&] { Decode(model, sequence, sizes.steps); }) / sizes.steps);
  }
  return Median(std::move(seconds));
}

std::string NameOfStep(const std::string& plan, int64_t context) {
  return "step " + plan + " " + std::to_string(context / 1024) + "K";
}

Figure Step(const StepPlan& plan, int64_t context) {
  Figure figure = {.name = NameOfStep(plan.name, context)};
  if (context == 4096 || context == 131072) figure.least = kLeastOfRoofline;
  return figure;
}

void BenchContext(GpuBench& bench, Figure figure, Model& model, int64_t context) {
  const std::unique_ptr<ls_sequence> sequence = Fake(bench, model, context);
  const CacheLayout& layout = sequence->cache->store().layout;
  const double bytes =
      StepWeightBytes(model.weights(), DeviceOps()) + DecodeCacheBytes(layout, context);
  const double seconds = SecondsPerStep(bench.sizes(), model, *sequence);
  figure.value = 1e6 * seconds;
  figure.against = "roofline";
  figure.fraction = bytes / bench.copy_bandwidth() / seconds;
  bench.report().Add(std::move(figure));
}

void BenchPlan(GpuBench& bench, const StepPlan& plan) {
  ModelSpec spec = BenchSpec(bench.sizes().shape, plan.plan);
  GpuWeightMaker make(bench);
  ModelWeights weights = MakeWeights(spec, make);
  Model model(std::move(spec), std::move(weights), DType::kBF16, DeviceOps(), bench.executor(),
              {.cache_bytes_budget = 0, .max_batch_tokens = 512, .max_batch_sequences = 1},
              bench.device());
  for (const int64_t context : kContexts) {
    const Figure figure = Step(plan, context);
    bench.report().Measure({figure},
                           [&] { BenchContext(bench, figure, model, bench.Scaled(context)); });
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
