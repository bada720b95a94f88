// The plans that gpu_bench measures are those of docs/performance.md: their bytes say so.
#include "tests/bench/gpu/step_plans.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/common/cache/cache_layout.h"
#include "tests/backends/layers/random_model.h"

namespace longstream {
namespace {

// Counts bytes of bf16 matrices instead of making them.
class ByteCounter final : public WeightMaker {
 public:
  PackedWeight Matrix(int64_t n, int64_t k) override {
    bytes += 2 * n * k;
    return {nullptr, DType::kBF16, n, k};
  }
  const float* Vector(int64_t, float, float) override { return nullptr; }
  const float* Constants(const std::vector<float>&) override { return nullptr; }

  int64_t bytes = 0;
};

const StepPlan& Find(const std::vector<StepPlan>& plans, const std::string& name) {
  return *std::find_if(plans.begin(), plans.end(),
                       [&](const StepPlan& plan) { return plan.name == name; });
}

// Weights and one session of 512K tokens, GiB.
double GiBAt512K(const std::string& name) {
  const std::vector<StepPlan> plans = StepPlans();
  const ModelSpec& spec = Find(plans, name).spec;
  ByteCounter counter;
  MakeWeights(spec, counter);
  const CacheLayout layout = MakeCacheLayout(spec, DType::kBF16);
  return (static_cast<double>(counter.bytes) +
          static_cast<double>(layout.bytes_per_token) * 524288 +
          static_cast<double>(layout.ring_bytes + layout.state_bytes)) /
         (1 << 30);
}

TEST(StepPlansTest, BytesAreThoseOfTheTable) {
  EXPECT_NEAR(GiBAt512K("dense"), 107.5, 0.3);
  EXPECT_NEAR(GiBAt512K("2 full + w 64"), 31.5, 0.3);
  EXPECT_NEAR(GiBAt512K("HypeNet"), 51.9, 0.5);
}

TEST(StepPlansTest, LayersAreThoseOfTheNames) {
  const std::vector<StepPlan> plans = StepPlans();
  const auto count = [&](const std::string& name, MixerKind kind) {
    const ModelSpec& spec = Find(plans, name).spec;
    return std::count_if(spec.layers.begin(), spec.layers.end(),
                         [&](const MixerSpec& mixer) { return mixer.kind == kind; });
  };
  EXPECT_EQ(count("dense", MixerKind::kFull), 40);
  EXPECT_EQ(count("2 full + w 64", MixerKind::kFull), 2);
  EXPECT_EQ(count("2 full + w 64", MixerKind::kWindow), 38);
  EXPECT_EQ(count("HypeNet", MixerKind::kFull), 10);
  EXPECT_EQ(count("HypeNet", MixerKind::kLightning), 30);
}

}  // namespace
}  // namespace longstream
