// GGUF files written by the package gguf: the logits must be those of transformers, and where the
// file holds the same numbers as a checkpoint of Hugging Face, they must be the same to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {
namespace {

// As for the checkpoints of Hugging Face (golden_test.cc).
constexpr float kTolerance = 1e-4f;
constexpr const char* kExact = R"({"weights": "f32", "cache": "f32", "context_limit": 312})";

std::string Root() { return GoldenRoot() + "/gguf"; }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Root())) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string PathOf(const std::string& name) { return Root() + "/" + name + ".gguf"; }

// Whether the file holds another config or other numbers than the checkpoint of its name.
bool IsOwnCase(const std::string& name) {
  return std::filesystem::exists(Root() + "/" + name + ".safetensors");
}

GoldenCase Golden(const std::string& name) {
  if (!IsOwnCase(name)) return ReadGoldenCase(name);
  return ReadGoldenFile(name, Root() + "/" + name + ".safetensors");
}

std::unique_ptr<Model> Open(const std::string& path, const std::string& options) {
  return OpenCheckpoint(BestBackend(path), path, options, DeviceOps());
}

std::vector<float> LogitsOf(Model& model, const GoldenCase& golden) {
  const auto sequence = CreateReserved(model, golden.tokens.size());
  return Prefill(model, *sequence, golden.tokens);
}

// The largest difference to the golden logits. NaN counts as one.
float Distance(const GoldenCase& golden, std::span<const float> logits) {
  const size_t vocabulary = golden.logits.size() / golden.rows.size();
  float distance = 0;
  for (size_t r = 0; r < golden.rows.size(); ++r) {
    const auto row = logits.subspan(static_cast<size_t>(golden.rows[r]) * vocabulary, vocabulary);
    for (size_t id = 0; id < vocabulary; ++id) {
      const float difference = std::fabs(row[id] - golden.logits[r * vocabulary + id]);
      if (!(difference <= distance)) distance = difference;
    }
  }
  return distance;
}

class GgufGoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GgufGoldenTest, HasTheLogitsOfTheConvertedCheckpoint) {
  const GoldenCase golden = Golden(GetParam());
  const std::unique_ptr<Model> model = Open(PathOf(GetParam()), kExact);
  const std::vector<float> logits = LogitsOf(*model, golden);
  ASSERT_EQ(logits.size(), golden.tokens.size() * model->info().vocabulary_size);
  const float distance = Distance(golden, logits);
  EXPECT_LE(distance, kTolerance);
  RecordProperty("distance", std::to_string(distance));
}

TEST_P(GgufGoldenTest, HasTheBitsOfTheConvertedCheckpoint) {
  // The factors of RoPE are rounded to f32 in the file, and those of LongRoPE's attention, too.
  const std::set<std::string> rounded = {"llama_llama3", "phi3_longrope"};
  if (IsOwnCase(GetParam()) || rounded.contains(GetParam())) return;
  const GoldenCase golden = Golden(GetParam());
  const std::string directory = GoldenRoot() + "/" + GetParam();
  for (const char* options : {kExact, R"({"weights": "bf16"})", R"({"weights": "int8"})"}) {
    SCOPED_TRACE(options);
    const std::unique_ptr<Model> gguf = Open(PathOf(GetParam()), options);
    const std::unique_ptr<Model> model = Open(directory, options);
    EXPECT_EQ(LogitsOf(*gguf, golden), LogitsOf(*model, golden));
    EXPECT_EQ(gguf->info().num_parameters, model->info().num_parameters);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufGoldenTest, testing::ValuesIn(Names()),
                         [](const auto& test) { return test.param; });

TEST(GgufGoldenFilesTest, AreThere) { EXPECT_GE(Names().size(), 18u); }

}  // namespace
}  // namespace longstream
