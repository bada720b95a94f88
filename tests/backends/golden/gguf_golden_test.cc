// GGUF files written by the package gguf: the logits must be those of transformers, and where the
// file holds the same numbers as a checkpoint of Hugging Face, they must be the same to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/gguf/gguf_model.h"
#include "backends/errors/error.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/golden/golden_case.h"
#include "tests/backends/runtime/model_driver.h"
#include "tests/fuzz_trials.h"
#include "tests/temporary_directory.h"

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

bool IsF32(const std::string& directory) {
  const Checkpoint checkpoint(directory);
  return std::all_of(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                     [](const auto& entry) { return entry.second->type == DType::kF32; });
}

class GgufGoldenTest : public testing::TestWithParam<std::string> {};
class GgufBitsTest : public testing::TestWithParam<std::string> {};

// The files that hold the same numbers as the checkpoints of their names. The factors of RoPE are
// rounded to f32 in a file, and those of LongRoPE's attention, too.
std::vector<std::string> NamesOfSameBits() {
  const std::set<std::string> rounded = {"llama_llama3", "phi3_longrope"};
  std::vector<std::string> names = Names();
  std::erase_if(names,
                [&](const std::string& name) { return IsOwnCase(name) || rounded.contains(name); });
  return names;
}

TEST_P(GgufGoldenTest, HasTheLogitsOfTheConvertedCheckpoint) {
  const GoldenCase golden = Golden(GetParam());
  const std::unique_ptr<Model> model = Open(PathOf(GetParam()), kExact);
  const std::vector<float> logits = LogitsOf(*model, golden);
  ASSERT_EQ(logits.size(), golden.tokens.size() * model->info().vocabulary_size);
  const float distance = Distance(golden, logits);
  EXPECT_LE(distance, kTolerance);
  RecordProperty("distance", std::to_string(distance));
}

TEST_P(GgufBitsTest, AreThoseOfTheConvertedCheckpoint) {
  const GoldenCase golden = Golden(GetParam());
  const std::string directory = GoldenRoot() + "/" + GetParam();
  for (const char* options : {kExact, R"({"weights": "bf16"})", R"({"weights": "int8"})"}) {
    SCOPED_TRACE(options);
    const std::unique_ptr<Model> gguf = Open(PathOf(GetParam()), options);
    const std::unique_ptr<Model> model = Open(directory, options);
    EXPECT_EQ(LogitsOf(*gguf, golden), LogitsOf(*model, golden));
    EXPECT_EQ(gguf->info().num_parameters, model->info().num_parameters);
    // A GGUF file has its vectors in F32.
    EXPECT_EQ(gguf->info().fingerprint == model->info().fingerprint, IsF32(directory));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufGoldenTest, testing::ValuesIn(Names()),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, GgufBitsTest, testing::ValuesIn(NamesOfSameBits()),
                         [](const auto& test) { return test.param; });

// The option weights is left to the file. The products of int8 and int4 weights round activations
// to 8 bits: for logits with a standard deviation of 1, that is a difference of less than 0.15
// here.
TEST(GgufTypesTest, BlocksBecomeInt8OrInt4) {
  const struct {
    const char* name;
    DType embedding, head, in, out, gate, down;
  } kRows[] = {
      {"llama_small_blocks", DType::kI8, DType::kI4, DType::kI8, DType::kI8, DType::kI8,
       DType::kI8},
      {"llama_k_blocks", DType::kI8, DType::kI8, DType::kI8, DType::kBF16, DType::kI8, DType::kF16},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.name);
    const GoldenCase golden = Golden(row.name);
    const std::unique_ptr<Model> model =
        Open(PathOf(row.name), R"({"cache": "f32", "context_limit": 312})");
    const ModelWeights& weights = model->weights();
    const LayerWeights& layer = weights.layers[0];
    EXPECT_STREQ(NameOf(weights.embedding.type), NameOf(row.embedding));
    EXPECT_STREQ(NameOf(weights.head.type), NameOf(row.head));
    EXPECT_STREQ(NameOf(layer.mixer.in.type), NameOf(row.in));
    EXPECT_STREQ(NameOf(layer.mixer.out.type), NameOf(row.out));
    EXPECT_STREQ(NameOf(layer.mlp.gate.type), NameOf(row.gate));
    EXPECT_STREQ(NameOf(layer.mlp.down.type), NameOf(row.down));
    const float distance = Distance(golden, LogitsOf(*model, golden));
    EXPECT_LT(distance, 0.15f);
    RecordProperty(std::string("distance, ") + row.name, std::to_string(distance));
  }
}

// Two files in one directory are two checkpoints, also for the packed weights beside them.
TEST(GgufPackedTest, EachFileHasItsOwnPackedWeights) {
  const TemporaryDirectory directory;
  const std::string first = directory.string() + "/a.gguf";
  const std::string second = directory.string() + "/b.gguf";
  std::filesystem::copy(PathOf("llama_small_blocks"), first);
  std::filesystem::copy(PathOf("llama_small_blocks"), second);
  const std::string packed = directory.string() + "/packed";
  const std::string options = R"({"packed_cache": ")" + packed + R"("})";
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(packed),
                         std::filesystem::directory_iterator());
  };
  const GoldenCase golden = Golden("llama_small_blocks");
  const std::vector<float> logits = LogitsOf(*Open(first, options), golden);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(LogitsOf(*Open(first, options), golden), logits);
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(LogitsOf(*Open(second, options), golden), logits);
  EXPECT_EQ(count(), 2);
  // Another file under the same name is not the one that was packed.
  std::filesystem::copy(PathOf("llama_k_blocks"), first,
                        std::filesystem::copy_options::overwrite_existing);
  const GoldenCase other = Golden("llama_k_blocks");
  EXPECT_LT(Distance(other, LogitsOf(*Open(first, options), other)), 0.15f);
}

// A scale that is no number: of a block that is a group (Q8_0), and of one that becomes eight
// (Q4_K).
TEST(GgufTypesTest, ScalesThatAreNotFiniteAreRefused) {
  const TemporaryDirectory directory;
  for (const auto& [name, type] :
       {std::pair("llama_small_blocks", "Q8_0"), std::pair("llama_k_blocks", "Q4_K")}) {
    SCOPED_TRACE(name);
    const std::vector<GgufTensor> tensors =
        GgufModel({PathOf(name)}).parts()[0].front.header.tensors;
    const auto damaged =
        std::find_if(tensors.begin(), tensors.end(), [&](const GgufTensor& tensor) {
          return tensor.type->name == type && tensor.shape.size() == 2;
        });
    ASSERT_NE(damaged, tensors.end());
    const uint64_t row_bytes = damaged->num_bytes / static_cast<uint64_t>(damaged->shape[0]);
    for (const char* scale : {"\x00\x7c", "\x00\x7e"}) {  // infinity, NaN
      const std::string path = directory.string() + "/m.gguf";
      std::filesystem::copy(PathOf(name), path, std::filesystem::copy_options::overwrite_existing);
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(damaged->offset + 8 * row_bytes));
      file.write(scale, 2);
      file.close();
      try {
        Open(path, "{}");
        ADD_FAILURE() << "was opened";
      } catch (const BackendError& error) {
        EXPECT_EQ(error.code(), LS_INVALID_ARGUMENT);
        const std::string sentence = error.what();
        EXPECT_NE(sentence.find("not finite or too large"), std::string::npos) << sentence;
        EXPECT_NE(sentence.find(": row "), std::string::npos) << sentence;
        EXPECT_NE(sentence.find(" from input 0 on"), std::string::npos) << sentence;
      }
    }
  }
}

// Damaged bytes anywhere in a file: the model is opened, or refused with a sentence.
TEST(GgufFuzzTest, DamagedModelsAreOpenedOrRefused) {
  std::ifstream stream(PathOf("llama_small_blocks"), std::ios::binary);
  const std::string golden((std::istreambuf_iterator<char>(stream)),
                           std::istreambuf_iterator<char>());
  const TemporaryDirectory directory;
  std::mt19937 random(3);
  int opened = 0;
  FuzzTrials trials(150);
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    std::string damaged = golden;
    // The header takes about 2500 bytes.
    const size_t most = random() % 2 == 0 ? 2500 : damaged.size();
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      damaged[random() % most] = static_cast<char>(random());
    }
    try {
      const std::unique_ptr<Model> model = Open(directory.Write("m.gguf", damaged), "{}");
      opened += model->info().vocabulary_size > 0 ? 1 : 0;
    } catch (const BackendError& error) {
      EXPECT_NE(error.code(), LS_INTERNAL) << error.what();
      EXPECT_NE(std::string(error.what()), "");
    }
  }
  EXPECT_GT(opened, trials.count() / 10);
  EXPECT_LT(opened, trials.count());
}

TEST(GgufGoldenFilesTest, AreThere) { EXPECT_GE(Names().size(), 18u); }

}  // namespace
}  // namespace longstream
