// The models of the benchmarks have the sizes that docs/performance-notes.md states.
#include "tests/bench/plans/bench_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

#include "backends/caches/cache_layout.h"
#include "backends/model/layers.h"
#include "kernels/ops/op_table.h"
#include "kernels/reference/reference_ops.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/plans/step_bytes.h"

namespace longstream {
namespace {

// Counts elements of matrices instead of making them.
class Counter final : public WeightMaker {
 public:
  PackedWeight MakeMatrix(int64_t n, int64_t k) override {
    elements += n * k;
    return {nullptr, DType::kBF16, n, k};
  }
  const float* MakeVector(int64_t, float, float) override { return nullptr; }
  const float* Constants(std::span<const float>) override { return nullptr; }

  int64_t elements = 0;
};

int64_t Parameters(const std::string& shape, const std::string& plan) {
  Counter counter;
  MakeWeights(BenchSpec(shape, plan), counter);
  return counter.elements;
}

CacheLayout Layout(const std::string& shape, const std::string& plan) {
  return MakeCacheLayout(BenchSpec(shape, plan), DType::kBF16);
}

// Returns the GiB that the 14B shape needs for its bf16 weights and one session of 512K tokens.
double GiBAt512K(const std::string& plan) {
  const CacheLayout layout = Layout("14b", plan);
  return (2.0 * static_cast<double>(Parameters("14b", plan)) +
          static_cast<double>(layout.bytes_per_token) * 524288 +
          static_cast<double>(layout.ring_bytes + layout.state_bytes)) /
         (1 << 30);
}

TEST(BenchPlansTest, BytesOf14BAreThoseOfTheTable) {
  EXPECT_NEAR(GiBAt512K("dense"), 107.5, 0.3);
  EXPECT_NEAR(GiBAt512K("hwfa2"), 31.5, 0.3);
  EXPECT_NEAR(GiBAt512K("hypenet"), 51.9, 0.5);
}

TEST(BenchPlansTest, ParametersAreThoseOfTheNames) {
  EXPECT_NEAR(static_cast<double>(Parameters("0.6b", "dense")), 596e6, 1e6);
  EXPECT_NEAR(static_cast<double>(Parameters("200m", "dense")), 194.5e6, 1e6);
  EXPECT_NEAR(static_cast<double>(Parameters("2b", "dense")), 1.72e9, 1e7);
}

// The experts of a row are together as wide as the MLP of `dense`, and there are four times as
// many.
TEST(BenchPlansTest, AStepReadsTheExpertsThatRowsChoose) {
  const ModelSpec dense = BenchSpec("tiny", "dense"), experts = BenchSpec("tiny", "experts");
  const OpTable& ops = ReferenceOps();
  const double of_dense = StepWeightBytes(dense, RandomWeights(dense, DType::kF32, ops), ops);
  const ModelWeights weights = RandomWeights(experts, DType::kF32, ops);
  const double routers = 4.0 * 32 * 48 * sizeof(float);
  EXPECT_DOUBLE_EQ(StepWeightBytes(experts, weights, ops), of_dense + routers);
  const double of_mlps = 4.0 * 3 * 64 * 48 * sizeof(float);
  EXPECT_DOUBLE_EQ(StepWeightBytes(experts, weights, ops, 2), of_dense + routers + 0.75 * of_mlps);
}

// Full attention: 2 * H_kv * D bf16 numbers per token and layer. Window: as many numbers for each
// slot of the ring; the ring has 64 slots more than the window. ReRoPE: keys only. RNN: an f32
// state matrix per head, and the rows of one grid interval.
TEST(BenchPlansTest, SessionsOf06BAreAsTheFormula) {
  constexpr uint64_t kToken = 2 * 8 * 128 * 2;
  const CacheLayout dense = Layout("0.6b", "dense");
  EXPECT_EQ(dense.bytes_per_token, 28 * kToken);
  EXPECT_EQ(dense.ring_bytes + dense.state_bytes, 0u);

  const CacheLayout hwfa2 = Layout("0.6b", "hwfa2");
  EXPECT_EQ(hwfa2.bytes_per_token, 2 * kToken);
  EXPECT_EQ(hwfa2.ring_bytes, 26 * (64 + 64) * kToken + 2 * (2048 + 64) * kToken / 2);
  EXPECT_EQ(hwfa2.state_bytes, 0u);

  const CacheLayout hypenet = Layout("0.6b", "hypenet");
  EXPECT_EQ(hypenet.bytes_per_token, 7 * kToken);
  EXPECT_EQ(hypenet.ring_bytes, 0u);
  EXPECT_EQ(hypenet.state_bytes, 21u * 4 * (16 * 128 * 128 + 64 * 2 * 16 * 128));

  const CacheLayout chunked = Layout("0.6b", "chunked");
  EXPECT_EQ(chunked.bytes_per_token, 0u);
  EXPECT_EQ(chunked.ring_bytes, 14 * (2048 + 64) * kToken);
  EXPECT_EQ(chunked.state_bytes, 14u * 4 * (512 * 1024 + 64 * (512 + 1024 + 512)));
}

TEST(BenchPlansTest, SessionsOf200MAreAsTheFormula) {
  constexpr uint64_t kToken = 2 * 12 * 64 * 2;
  EXPECT_EQ(Layout("200m", "dense").bytes_per_token, 24 * kToken);
  EXPECT_EQ(Layout("200m", "hwfa2").bytes_per_token, 2 * kToken);
  EXPECT_EQ(Layout("200m", "hypenet").bytes_per_token, 6 * kToken);
  EXPECT_EQ(Layout("200m", "chunked").ring_bytes, 12 * (2048 + 64) * kToken);
}

TEST(BenchPlansTest, AStepReadsPagesWindowsAndStates) {
  constexpr double kToken = 2 * 8 * 128 * 2;
  EXPECT_EQ(DecodeCacheBytes(Layout("0.6b", "dense"), 0), 0);
  EXPECT_EQ(DecodeCacheBytes(Layout("0.6b", "dense"), 1000), 28 * 1000 * kToken);
  // A layer with ReRoPE reads its near ring instead of its last pages, so the near ring adds no
  // bytes.
  EXPECT_EQ(DecodeCacheBytes(Layout("0.6b", "hwfa2"), 10), 28 * 10 * kToken);
  EXPECT_EQ(DecodeCacheBytes(Layout("0.6b", "hwfa2"), 1000), (2 * 1000 + 26 * 64) * kToken);
  EXPECT_EQ(DecodeCacheBytes(Layout("0.6b", "hypenet"), 1000),
            7 * 1000 * kToken + 21.0 * 4 * (16 * 128 * 128 + 32 * 2 * 16 * 128));
}

// Returns the bytes that the products of a step read. The head counts once.
double ReadBytes(const ModelWeights& weights, const OpTable& ops) {
  auto bytes = static_cast<double>(ops.read_bytes(weights.head));
  for (const LayerWeights& layer : weights.layers) {
    for (const PackedWeight* weight :
         {&layer.mixer.in, &layer.mixer.out, &layer.mlp.gate, &layer.mlp.up, &layer.mlp.down}) {
      bytes += static_cast<double>(ops.read_bytes(*weight));
    }
  }
  return bytes;
}

TEST(BenchPlansTest, AStepReadsATiedHeadOnce) {
  RandomShape shape;  // the weights are large enough to be compressed
  shape.width = 128;
  shape.mlp_width = 256;
  for (const OpTable* ops : {&ReferenceOps(), &DeviceOps()}) {
    ModelSpec spec = RandomSpec("full+window", shape);
    double bytes[2];
    for (const bool tied : {false, true}) {
      spec.tied_head = tied;
      const ModelWeights weights = RandomWeights(spec, DType::kBF16, *ops);
      bytes[tied ? 1 : 0] = StepWeightBytes(spec, weights, *ops);
      EXPECT_EQ(bytes[tied ? 1 : 0], ReadBytes(weights, *ops)) << ops->name << tied;
      const PackedWeight& head = weights.head;
      if (ops->name != std::string("reference") && ops->name != std::string("baseline")) {
        EXPECT_LT(ops->read_bytes(head), ops->packed_bytes(head.type, head.n, head.k));
      }
    }
    // The size of compressed weights also depends on their numbers. The tied and the untied head
    // have different numbers, so only the reference ops give equal sizes.
    if (ops == &ReferenceOps()) {
      EXPECT_EQ(bytes[0], bytes[1]);
    }
  }
}

TEST(BenchPlansTest, LayersAreThoseOfTheNames) {
  using Counts = std::map<MixerKind, int>;
  const auto counts = [](const std::string& shape, const std::string& plan) {
    Counts layers;
    for (const MixerSpec& mixer : BenchSpec(shape, plan).layers) ++layers[mixer.kind];
    return layers;
  };
  EXPECT_EQ(counts("14b", "dense"), (Counts{{MixerKind::kFull, 40}}));
  EXPECT_EQ(counts("14b", "hwfa2"), (Counts{{MixerKind::kFull, 2}, {MixerKind::kWindow, 38}}));
  EXPECT_EQ(counts("14b", "hypenet"),
            (Counts{{MixerKind::kFull, 10}, {MixerKind::kLightning, 30}}));
  EXPECT_EQ(counts("0.6b", "hypenet"),
            (Counts{{MixerKind::kFull, 7}, {MixerKind::kLightning, 21}}));
  EXPECT_EQ(counts("0.6b", "chunked"),
            (Counts{{MixerKind::kWindow, 14}, {MixerKind::kGatedRnn, 14}}));
}

TEST(BenchPlansTest, EveryPlanOfEveryShapeIsRead) {
  for (const std::string& shape : BenchShapes()) {
    for (const std::string& plan : BenchPlans()) {
      EXPECT_GT(BenchSpec(shape, plan).context_limit, 524288) << shape << ' ' << plan;
    }
  }
}

TEST(BenchPlansTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  const auto message = [](const std::string& shape, const std::string& plan) -> std::string {
    try {
      BenchSpec(shape, plan);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("7b", "dense"), "shape must be one of 0.6b, 200m, 2b, 14b, tiny, found 7b");
  EXPECT_EQ(message("14b", "sparse"),
            "plan must be one of dense, experts, hwfa2, hypenet, chunked, found sparse");
}

}  // namespace
}  // namespace longstream
