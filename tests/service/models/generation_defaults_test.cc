// The defaults of a request, read from generation_config.json and config.json.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "service/models/served_model.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using Ids = std::vector<int32_t>;

class GenerationDefaultsTest : public testing::Test {
 protected:
  GenerationDefaults Read(std::optional<int32_t> eos_id = std::nullopt) {
    const auto defaults = ReadGenerationDefaults(directory_.string(), 256, eos_id);
    EXPECT_TRUE(defaults.ok()) << defaults.status();
    return defaults.value_or(GenerationDefaults());
  }
  std::string Error() {
    const absl::Status status =
        ReadGenerationDefaults(directory_.string(), 256, std::nullopt).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  std::string File(const char* name) const { return (directory_.path() / name).string(); }
  Ids EndIds(const std::string& json) {
    directory_.Write("generation_config.json", "{\"eos_token_id\": " + json + "}");
    return Read().end_token_ids;
  }

  const TemporaryDirectory directory_;
};

// A value may be nested so deeply that a copy of it would overflow the stack.
TEST_F(GenerationDefaultsTest, DeepValues) {
  constexpr int kDepth = 1'000'000;
  std::string deep;
  for (int i = 0; i < kDepth; ++i) deep += "{\"a\":";
  deep += "1" + std::string(kDepth, '}');
  for (const char* key : {"temperature", "top_k", "do_sample", "eos_token_id"}) {
    directory_.Write("generation_config.json", "{\"" + std::string(key) + "\":" + deep + "}");
    EXPECT_NE(Error().find(std::string(key) + ": expected"), std::string::npos) << key;
  }
  const std::string lists = std::string(kDepth, '[') + std::string(kDepth, ']');
  directory_.Write("generation_config.json", "{\"eos_token_id\":" + lists + "}");
  EXPECT_NE(Error().find("found an array"), std::string::npos);
  directory_.Write("generation_config.json", "{\"other\":" + lists + "}");
  directory_.Write("config.json", "{\"eos_token_id\":" + deep + "}");
  EXPECT_NE(Error().find("eos_token_id: expected"), std::string::npos);
}

TEST_F(GenerationDefaultsTest, NoFilesNoDefaults) {
  const GenerationDefaults defaults = Read();
  EXPECT_TRUE(defaults.end_token_ids.empty());
  EXPECT_EQ(defaults.temperature, std::nullopt);
  EXPECT_EQ(defaults.top_k, std::nullopt);
  EXPECT_EQ(defaults.top_p, std::nullopt);
  EXPECT_EQ(defaults.min_p, std::nullopt);
  EXPECT_EQ(defaults.repetition_penalty, std::nullopt);
}

TEST_F(GenerationDefaultsTest, EveryKey) {
  directory_.Write("generation_config.json",
                   R"({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.25,
                       "min_p": 0.125, "repetition_penalty": 1.5, "transformers_version": "4"})");
  const GenerationDefaults defaults = Read();
  EXPECT_EQ(defaults.temperature, 0.5f);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.top_p, 0.25f);
  EXPECT_EQ(defaults.min_p, 0.125f);
  EXPECT_EQ(defaults.repetition_penalty, 1.5f);
}

// Python writes NaN and Infinity. Only the keys that are read must be numbers.
TEST_F(GenerationDefaultsTest, NonFiniteNumbers) {
  directory_.Write("config.json", R"({"eos_token_id": 7, "initializer_range": NaN})");
  directory_.Write("generation_config.json", R"({"top_k": 20, "length_penalty": -Infinity})");
  EXPECT_EQ(Read().end_token_ids, Ids{7});
  EXPECT_EQ(Read().top_k, 20);
  directory_.Write("generation_config.json", R"({"top_p": Infinity})");
  EXPECT_EQ(Error(), File("generation_config.json") +
                         ": top_p: expected a number above 0 and at most 1, found \"Infinity\"");
}

TEST_F(GenerationDefaultsTest, WithoutSamplingTheTemperatureIsZero) {
  directory_.Write("generation_config.json", R"({"do_sample": false, "temperature": 0.7})");
  EXPECT_EQ(Read().temperature, 0.0f);
  directory_.Write("generation_config.json", R"({"do_sample": false})");
  EXPECT_EQ(Read().temperature, 0.0f);
  directory_.Write("generation_config.json", R"({"temperature": null, "top_k": null})");
  EXPECT_EQ(Read().temperature, std::nullopt);
  EXPECT_EQ(Read().top_k, std::nullopt);
}

// If a file asks for sampling but has no temperature, the temperature is 1.
TEST_F(GenerationDefaultsTest, SamplingHasATemperature) {
  directory_.Write("generation_config.json", R"({"do_sample": true, "top_k": 64, "top_p": 0.95})");
  EXPECT_EQ(Read().temperature, 1.0f);
  EXPECT_EQ(Read().top_k, 64);
  directory_.Write("generation_config.json", R"({"do_sample": true, "temperature": 0.0})");
  EXPECT_EQ(Read().temperature, 0.0f);
}

TEST_F(GenerationDefaultsTest, EndIdsAreOneSeveralOrNone) {
  EXPECT_EQ(EndIds("3"), Ids{3});
  EXPECT_EQ(EndIds("[0, 255, 7]"), (Ids{0, 255, 7}));
  EXPECT_EQ(EndIds("[]"), Ids{});
  EXPECT_EQ(EndIds("null"), Ids{});
}

TEST_F(GenerationDefaultsTest, EndIdsOfTheGenerationConfigComeFirst) {
  directory_.Write("config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(Read().end_token_ids, Ids{5});
  directory_.Write("generation_config.json", R"({"temperature": 1.0})");
  EXPECT_EQ(Read().end_token_ids, Ids{5});
  EXPECT_EQ(EndIds("[6]"), Ids{6});
  EXPECT_EQ(EndIds("null"), Ids{});
}

// Older directories name the end token only in tokenizer_config.json. That end token counts if the
// other files do not have the key eos_token_id.
TEST_F(GenerationDefaultsTest, TheTokenizersEndIsThatOfSilentFiles) {
  EXPECT_EQ(Read(9).end_token_ids, Ids{9});
  directory_.Write("config.json", R"({"eos_token_id": null})");
  directory_.Write("generation_config.json", R"({"temperature": 1.0})");
  EXPECT_EQ(Read(9).end_token_ids, Ids{9});
  EXPECT_EQ(Read().end_token_ids, Ids{});
  directory_.Write("config.json", R"({"eos_token_id": []})");
  EXPECT_EQ(Read(9).end_token_ids, Ids{});
  directory_.Write("config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(Read(9).end_token_ids, Ids{5});
  directory_.Write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(Read(9).end_token_ids, Ids{});
}

TEST_F(GenerationDefaultsTest, EndIdsOutsideTheVocabulary) {
  const std::pair<const char*, const char*> cases[] = {
      {"256", "256"},
      {"-1", "-1"},
      {"[1, 300]", "300"},
      {"\"</s>\"", "\"</s>\""},
      {"1.5", "1.5"},
      {"[true]", "true"},
      {"18446744073709551615", "18446744073709551615"},
      {"[[[1]]]", "an array"},
  };
  for (const auto& [json, found] : cases) {
    directory_.Write("generation_config.json", "{\"eos_token_id\": " + std::string(json) + "}");
    EXPECT_EQ(Error(), File("generation_config.json") +
                           ": eos_token_id: expected ids below the vocabulary size 256, found " +
                           found);
  }
}

TEST_F(GenerationDefaultsTest, AnErrorNamesTheFileThatSaysIt) {
  directory_.Write("config.json", R"({"eos_token_id": 300})");
  EXPECT_EQ(Error(), File("config.json") +
                         ": eos_token_id: expected ids below the vocabulary size 256, found 300");
}

TEST_F(GenerationDefaultsTest, ValuesOfWrongTypesAndRanges) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature": "0.7")", R"(temperature: expected a number from 0 to 1000, found "0.7")"},
      {R"("temperature": -1)", "temperature: expected a number from 0 to 1000, found -1"},
      {R"("temperature": 1001)", "temperature: expected a number from 0 to 1000, found 1001"},
      {R"("top_k": 1.5)", "top_k: expected a whole number from 0 on, found 1.5"},
      {R"("top_k": -2)", "top_k: expected a whole number from 0 on, found -2"},
      {R"("top_k": 2147483648)", "top_k: expected a whole number from 0 on, found 2147483648"},
      {R"("top_p": 0)", "top_p: expected a number above 0 and at most 1, found 0"},
      {R"("top_p": [1])", "top_p: expected a number above 0 and at most 1, found an array"},
      {R"("min_p": 2)", "min_p: expected a number from 0 to 1, found 2"},
      {R"("repetition_penalty": 0)",
       "repetition_penalty: expected a finite number above 0, found 0"},
      {R"("repetition_penalty": 1e39)",
       "repetition_penalty: expected a finite number above 0, found 1e+39"},
      {R"("do_sample": "no")", R"(do_sample: expected true or false, found "no")"},
  };
  for (const auto& [member, error] : cases) {
    directory_.Write("generation_config.json", "{" + std::string(member) + "}");
    EXPECT_EQ(Error(), File("generation_config.json") + ": " + error);
  }
}

TEST_F(GenerationDefaultsTest, DamagedFiles) {
  for (const char* name : {"config.json", "generation_config.json"}) {
    const std::string file = File(name);
    const std::pair<const char*, const char*> cases[] = {{"", "no valid JSON"},
                                                         {"{", "no valid JSON"},
                                                         {"{} x", "no valid JSON"},
                                                         {"[]", "array"},
                                                         {"7", "number"}};
    for (const auto& [text, found] : cases) {
      directory_.Write(name, text);
      EXPECT_EQ(Error(), file + ": expected a JSON object, found " + found) << text;
    }
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    EXPECT_EQ(Error(), file + ": is not a regular file");
    std::filesystem::remove(file);
  }
}

// A vocabulary of which two tokens end a turn although no id names them.
GgufBytes Vocabulary() {
  GgufBytes bytes;
  bytes.Text("general.architecture", "llama")
      .U32("llama.block_count", 1)
      .U32("llama.context_length", 64)
      .U32("llama.embedding_length", 4)
      .U32("llama.feed_forward_length", 8)
      .U32("llama.attention.head_count", 2)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .Tensor("token_embd.weight", {4, 6}, 0, std::string(96, 'x'))
      .Text("tokenizer.ggml.model", "gpt2")
      .Texts("tokenizer.ggml.tokens", {"a", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>", "b"})
      .I32s("tokenizer.ggml.token_type", {1, 3, 3, 3, 1, 1});
  return bytes;
}

TEST_F(GenerationDefaultsTest, OfAGgufFile) {
  directory_.Write("m.gguf", Vocabulary()
                                 .U32("tokenizer.ggml.eos_token_id", 1)
                                 .U32("tokenizer.ggml.eot_token_id", 2)
                                 .U32("general.sampling.top_k", 20)
                                 .F32("general.sampling.temp", 0.6f)
                                 .F32("general.sampling.penalty_repeat", 1.05f)
                                 .Bytes());
  const GenerationDefaults defaults = Read();
  EXPECT_EQ(defaults.end_token_ids, (Ids{1, 2, 3}));  // "<|end|>" is no control token
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.temperature, 0.6f);
  EXPECT_EQ(defaults.repetition_penalty, 1.05f);
  EXPECT_EQ(defaults.top_p, std::nullopt);
  directory_.Write("m.gguf", Vocabulary().U32("tokenizer.ggml.eos_token_id", 6).Bytes());
  EXPECT_EQ(Error(), File("m.gguf") +
                         ": tokenizer.ggml.eos_token_id must be an id below 6, the number of "
                         "tokens, found 6");
  directory_.Write("m.gguf", Vocabulary().F32("general.sampling.top_p", 2.0f).Bytes());
  EXPECT_EQ(Error(), File("m.gguf") + ": top_p: expected a number above 0 and at most 1, found 2");
}

}  // namespace
}  // namespace longstream
