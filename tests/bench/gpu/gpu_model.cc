// Makes models and sequences of random numbers, and times their steps.
#include "tests/bench/gpu/gpu_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/bench/timing.h"

namespace longstream {
namespace {

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

// Fills the first `pages` pages of each layer, which is where the only sequences of a model are.
void FillPages(GpuBench& bench, const CacheStore& store, int64_t pages) {
  const DType type = store.layout.page_type;
  for (size_t layer = 0; layer < store.layout.layers.size(); ++layer) {
    const auto& paged = store.layout.layers[layer].paged;
    if (!paged.has_value()) continue;
    const auto elements = [&](int64_t page_bytes) {
      return page_bytes / static_cast<int64_t>(SizeOf(type)) * pages;
    };
    bench.FillRandom(type, store.pages.keys(layer, 0), elements(paged->key_bytes(type)));
    bench.FillRandom(type, store.pages.values(layer, 0), elements(paged->value_bytes(type)));
  }
}

// Submits steps of all sequences, and waits for them.
class Decoding {
 public:
  Decoding(Model& model, const std::vector<std::unique_ptr<ls_sequence>>& sequences)
      : model_(model) {
    greedy_.struct_size = sizeof(greedy_);
    greedy_.top_p = greedy_.repetition_penalty = 1.0f;
    for (const auto& sequence : sequences) {
      ls_batch_entry entry{};
      entry.sequence = sequence.get();
      entry.tokens = &token_;
      entry.num_tokens = 1;
      entry.is_decode = 1;
      entry.sampling = &greedy_;
      entries_.push_back(entry);
    }
  }

  // Returns the seconds of all steps together.
  StepTimes Run(int steps) {
    StepTimes times;
    std::string failure;
    times.step = SecondsOf([&] {
      uint64_t pending = Submit(7);
      for (int i = 1; i < steps && failure.empty(); ++i) {
        const uint64_t next = Submit(LS_TOKEN_FROM_PREVIOUS);
        times.waiting += SecondsOf([&] { failure = Finish(pending); });
        pending = next;
      }
      const std::string last = Finish(pending);
      if (failure.empty()) failure = last;
    });
    if (!failure.empty()) FailBenchmark(failure);
    return times;
  }

 private:
  uint64_t Submit(int32_t token) {
    token_ = token;
    const ls_batch batch = {sizeof(ls_batch), entries_.data(),
                            static_cast<uint32_t>(entries_.size())};
    return model_.Submit(batch);
  }

  // Waits for the step. Returns a sentence if the step failed, "" otherwise.
  std::string Finish(uint64_t ticket) {
    const ls_results results = model_.Wait(ticket);
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (results.results[i].code == LS_OK) continue;
      return std::string("a step failed: ") + results.results[i].message;
    }
    return "";
  }

  Model& model_;
  ls_sampling greedy_{};
  int32_t token_ = 0;
  std::vector<ls_batch_entry> entries_;
};

}  // namespace

ModelWeights GpuWeights(GpuBench& bench, const ModelSpec& spec) {
  GpuWeightMaker make(bench);
  return MakeWeights(spec, make);
}

std::unique_ptr<Model> MakeGpuModel(GpuBench& bench, const std::string& shape,
                                    const std::string& plan, uint32_t max_batch_sequences) {
  ModelSpec spec = BenchSpec(shape, plan);
  ModelWeights weights = GpuWeights(bench, spec);
  const ModelLimits limits = {
      .cache_bytes_budget = 0, .max_batch_tokens = 512, .max_batch_sequences = max_batch_sequences};
  return std::make_unique<Model>(std::move(spec), std::move(weights), DType::kBF16, DeviceOps(),
                                 bench.executor(), limits, bench.device());
}

int NumSteps(const BenchSizes& sizes) { return sizes.warm_steps + sizes.rounds * sizes.steps; }

std::vector<std::unique_ptr<ls_sequence>> FakeSequences(GpuBench& bench, Model& model, int count,
                                                        int64_t context) {
  std::vector<std::unique_ptr<ls_sequence>> sequences;
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<ls_sequence> sequence = model.Create();
    model.Reserve(*sequence, static_cast<uint64_t>(context + NumSteps(bench.sizes())));
    SequenceCache& cache = *sequence->cache;
    cache.Append(context);
    CacheStore& store = cache.store();
    if (store.layout.slot_stride > 0) {
      // States are f32. A pair of bf16 numbers, read as one f32 number, has the magnitude of a bf16
      // number.
      bench.FillRandom(DType::kBF16, store.slots.data(cache.slot()), store.layout.slot_stride / 2);
    }
    sequences.push_back(std::move(sequence));
  }
  // Pages are taken in the order of their ids.
  FillPages(bench, sequences.front()->cache->store(), count * PagesFor(context));
  return sequences;
}

StepTimes MeasureSteps(const BenchSizes& sizes, Model& model,
                       const std::vector<std::unique_ptr<ls_sequence>>& sequences) {
  Decoding decoding(model, sequences);
  decoding.Run(sizes.warm_steps);
  std::vector<StepTimes> rounds;
  for (int i = 0; i < sizes.rounds; ++i) {
    const StepTimes all = decoding.Run(sizes.steps);
    rounds.push_back({all.step / sizes.steps, all.waiting / sizes.steps});
  }
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [](const StepTimes& a, const StepTimes& b) { return a.step < b.step; });
  return *middle;
}

}  // namespace longstream
