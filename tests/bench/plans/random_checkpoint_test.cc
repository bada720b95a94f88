// Random checkpoints have the tensors that every family loads, and numbers of the right variance.
#include "tests/bench/plans/random_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "backends/packing/load_weights.h"
#include "kernels/reference/reference_ops.h"
#include "tests/bench/plans/bench_plans.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

// Together these models have every tensor of docs/checkpoints.md.
constexpr const char* kGoldens[] = {"llama",
                                    "qwen2",
                                    "qwen3",
                                    "gau",
                                    "hwfa2_rerope",
                                    "hypenet_chunked",
                                    "hypenet_published",
                                    "hypenet_published_mixed"};

ModelSpec SpecOf(const Config& config) {
  std::string why;
  if (DenseFit(config, &why) == 100) return DensePlan(config, LoadOptions());
  if (Hwfa2Fit(config, &why) == 100) return Hwfa2Plan(config, LoadOptions());
  return HypenetPlan(config, LoadOptions());
}

class GoldenNamesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenNamesTest, AreThoseOfTheGoldenCheckpoint) {
  const std::string directory = std::string(LONGSTREAM_SOURCE_DIR) + "/tests/golden/" + GetParam();
  std::map<std::string, std::vector<int64_t>> made, stored;
  for (const NamedTensor& tensor : TensorsOf(SpecOf(Config(directory)))) {
    made[tensor.name] = tensor.shape;
  }
  const Checkpoint golden(directory);
  for (const auto& [name, tensor] : golden.tensors()) stored[name] = tensor->shape;
  EXPECT_EQ(made, stored);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenNamesTest, ::testing::ValuesIn(kGoldens),
                         [](const auto& test) { return std::string(test.param); });

constexpr const char* kConfig = R"({"model_type": "qwen3", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 300, "max_position_embeddings": 512})";

TEST(RandomCheckpointTest, LoadsAndItsNumbersHaveTheirVariance) {
  const TemporaryDirectory parent;
  const std::string directory = parent.string() + "/made/anew";
  const ModelSpec spec = DensePlan(Config(kConfig, "config"), LoadOptions());
  WriteRandomCheckpoint(spec, kConfig, directory);

  EXPECT_EQ(SpecOf(Config(directory)).layers.size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(directory + "/tokenizer.json"));
  const Checkpoint checkpoint(directory);
  const ModelWeights weights =
      LoadWeights(spec, checkpoint, LoadOptions(), ReferenceOps(), Executor());
  EXPECT_EQ(weights.layers.size(), 2u);
  EXPECT_EQ(weights.embedding.type, DType::kBF16);
  for (int64_t i = 0; i < spec.width; ++i) EXPECT_NEAR(weights.final_norm.weight[i], 1.0f, 0.11f);

  const Tensor& embedding =
      checkpoint.Get("model.embed_tokens.weight", std::vector<int64_t>{300, 64});
  double sum = 0, squares = 0;
  constexpr int kCount = 300 * 64;
  std::vector<BF16> numbers(kCount);
  checkpoint.Read(embedding, 0, std::as_writable_bytes(std::span(numbers)), Executor());
  for (int i = 0; i < kCount; ++i) {
    sum += ToF32(numbers[i]);
    squares += ToF32(numbers[i]) * ToF32(numbers[i]);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.005);
  EXPECT_NEAR(squares / kCount, 1.0 / 64, 0.03 / 64);
}

TEST(RandomCheckpointTest, AFileThatCannotBeWrittenIsNamed) {
  const TemporaryDirectory parent;
  const std::string file = parent.Write("file", "");
  const ModelSpec spec = DensePlan(Config(kConfig, "config"), LoadOptions());
  try {
    WriteRandomCheckpoint(spec, kConfig, file);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), file + "/model.safetensors cannot be written");
  }
}

TEST(RandomCheckpointTest, ThatOfABenchmarkIsItsPlan) {
  for (const std::string& plan : BenchPlans()) {
    const Config config(BenchConfig("200m", plan), plan);
    EXPECT_EQ(SpecOf(config).layers.size(), BenchSpec("200m", plan).layers.size());
  }
}

}  // namespace
}  // namespace longstream
