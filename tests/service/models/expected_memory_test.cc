// The memory of weights, from the sizes of their files and config.json.
#include "service/models/expected_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

// The embeddings and the head take 2 * 2 * 100 * 16 = 6400 bytes; 16000 bytes are quantised.
constexpr uint64_t kTables = 6400;
constexpr uint64_t kQuantised = 16000;

uint64_t Expected(const std::string& section, const std::string& options = "{}") {
  const TemporaryDirectory directory;
  directory.Write("model.safetensors", std::string(kTables + kQuantised, 'x'));
  directory.Write("config.json", R"({"vocab_size": 100, "hidden_size": 16)" + section + "}");
  ModelSource source;
  source.directory = directory.string();
  source.options_json = options;
  EXPECT_EQ(ExpectedMemory::Of(source).weights, ExpectedWeights(source));
  return ExpectedWeights(source);
}

struct Case {
  const char* section;   // of quantization_config
  uint64_t stored_bits;  // half bits of a weight in the file
  uint64_t bits;         // half bits of a weight in memory
  const char* options = "{}";
};

TEST(ExpectedMemoryTest, QuantisedWeights) {
  const Case cases[] = {
      {R"("quant_method": "gptq", "bits": 4, "sym": true)", 8, 9},
      {R"("quant_method": "gptq", "bits": 4, "sym": false)", 8, 17},
      {R"("quant_method": "gptq", "bits": 4, "desc_act": true)", 8, 32},
      {R"("quant_method": "gptq", "bits": 4, "group_size": 128)", 8, 9},
      {R"("quant_method": "gptq", "bits": 4, "group_size": -1)", 8, 9},
      {R"("quant_method": "gptq", "bits": 4, "group_size": 48)", 8, 32},
      {R"("quant_method": "awq", "bits": 4, "group_size": 16)", 8, 32},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4, "group_size": 40}}})", 8, 32},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4, "group_size": null}}})", 8, 9},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4, "actorder": "group"}}})", 8, 32},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4, "actorder": true}}})", 8, 32},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4, "actorder": "weight"}}})", 8, 9},
      {R"("quant_method": "gptq", "bits": 8)", 16, 17},
      {R"("quant_method": "gptq", "bits": 8, "sym": false)", 16, 32},
      {R"("quant_method": "awq", "bits": 4)", 8, 17},
      {R"("quant_method": "awq", "bits": 4)", 8, 9, R"({"weights": "int4"})"},
      {R"("quant_method": "fp8")", 16, 32},
      {R"("quant_method": "fp8")", 16, 17, R"({"weights": "int8"})"},
      {R"("quant_method": "fp8")", 16, 64, R"({"weights": "f32"})"},
      {R"("config_groups": {"a": {"weights": {"num_bits": 4}}, "b": {"weights": null}})", 8, 9},
      {R"("config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}},
                            "b": {"weights": {"num_bits": 4, "symmetric": false}}})",
       8, 17},
      {R"("config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}})", 16, 32},
      {R"("config_groups": 7, "quant_method": [])", 16, 32},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.section);
    const std::string section = R"(, "quantization_config": {)" + std::string(test.section) + "}";
    EXPECT_EQ(Expected(section, test.options), kTables + kQuantised / test.stored_bits * test.bits);
  }
}

TEST(ExpectedMemoryTest, OtherWeightsTakeTheBytesOfTheirFiles) {
  EXPECT_EQ(Expected(""), kTables + kQuantised);
  EXPECT_EQ(Expected(R"(, "quantization_config": null)"), kTables + kQuantised);
  EXPECT_EQ(Expected("", R"({"weights": "int4"})"), kTables + kQuantised);
}

TEST(ExpectedMemoryTest, TiedEmbeddingsAreOneTable) {
  const std::string fp8 = R"(, "tie_word_embeddings": true,
                             "quantization_config": {"quant_method": "fp8"})";
  EXPECT_EQ(Expected(fp8), kTables / 2 + (kTables / 2 + kQuantised) * 2);
}

TEST(ExpectedMemoryTest, BlocksOfAGgufFile) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.Write("m.gguf", GgufBytes()
                                    .Tensor("norm", {32}, 0, std::string(128, 'x'))
                                    .Tensor("half", {32, 2}, 1, std::string(128, 'x'))
                                    .Tensor("four", {32, 3}, 2, std::string(54, 'x'))
                                    .Tensor("k", {256, 1}, 12, std::string(144, 'x'))
                                    .Bytes());
  for (const std::string& place : {path, directory.string()}) {
    ModelSource source;
    source.directory = place;
    EXPECT_EQ(ExpectedWeights(source), 128u + 128u + 54u + 8u * 34u);
    source.options_json = R"({"weights": "bf16"})";
    EXPECT_EQ(ExpectedWeights(source), 128u + 2u * (64u + 96u + 256u));
  }
}

}  // namespace
}  // namespace longstream
