// Finding GGUF models, split models, and the config that a model's metadata gives.
#include "backends/checkpoint/gguf/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backends/checkpoint/gguf/gguf_config.h"
#include "tests/backends/checkpoint/expect_error.h"
#include "tests/backends/checkpoint/gguf/gguf_bytes.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The metadata of a small model.
GgufBytes Metadata(const std::string& architecture = "llama") {
  const std::string a = architecture + ".";
  GgufBytes bytes;
  bytes.Text("general.architecture", architecture)
      .U32(a + "block_count", 2)
      .U32(a + "context_length", 64)
      .U32(a + "embedding_length", 4)
      .U32(a + "feed_forward_length", 8)
      .U32(a + "attention.head_count", 2)
      .F32(a + "attention.layer_norm_rms_epsilon", 1e-6f)
      .Tensor("token_embd.weight", {4, 3}, 0, std::string(48, 'x'));
  return bytes;
}

class GgufModelTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.string() + "/" + name; }

  std::string Config(const GgufBytes& bytes) const {
    return GgufConfigText(GgufModel(FindGgufFiles(directory_.Write("m.gguf", bytes.Bytes()))));
  }

  // The sentence has no name of the file.
  void ExpectConfigRefused(ls_code code, const std::string& sentence,
                           const GgufBytes& bytes) const {
    ExpectError(code, Path("m.gguf") + ": " + sentence, [&] { Config(bytes); });
  }

  const TemporaryDirectory directory_;
};

TEST_F(GgufModelTest, FindsAFileOrTheOnlyModelOfADirectory) {
  EXPECT_THAT(FindGgufFiles(directory_.string()), IsEmpty());
  const std::string path = directory_.Write("a.gguf", "");
  directory_.Write("mmproj-a.gguf", "");
  directory_.Write("config.json", "{}");
  EXPECT_THAT(FindGgufFiles(path), ElementsAre(path));
  EXPECT_THAT(FindGgufFiles(directory_.string()), ElementsAre(path));
  EXPECT_THAT(FindGgufFiles(Path("config.json")), IsEmpty());
  directory_.Write("b.gguf", "");
  ExpectError(LS_INVALID_ARGUMENT,
              directory_.string() + ": holds 2 GGUF models, expected the path of one, such as \"" +
                  path + "\"",
              [&] { FindGgufFiles(directory_.string()); });
  directory_.Write("model.safetensors", "");
  EXPECT_THAT(FindGgufFiles(directory_.string()), IsEmpty());
}

TEST_F(GgufModelTest, FindsThePartsOfASplitModel) {
  const std::string first = directory_.Write("m-00001-of-00003.gguf", "");
  directory_.Write("m-00002-of-00003.gguf", "");
  const std::vector<std::string> parts = {first, Path("m-00002-of-00003.gguf"),
                                          Path("m-00003-of-00003.gguf")};
  EXPECT_EQ(FindGgufFiles(first), parts);
  EXPECT_EQ(FindGgufFiles(directory_.string()), parts);
  ExpectError(LS_INVALID_ARGUMENT, EndsWith(": is part 2 of a split model, expected part 1"),
              [&] { FindGgufFiles(parts[1]); });
  for (const char* name : {"m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-1-of-3.gguf",
                           "00001-of-00003.gguf", "m-0000a-of-00003.gguf"}) {
    EXPECT_THAT(FindGgufFiles(Path(name)), ElementsAre(Path(name)));
  }
}

TEST_F(GgufModelTest, ChecksThatPartsBelongTogether) {
  const auto part = [](uint32_t number, uint32_t count, const char* tensor) {
    return GgufBytes()
        .Raw("split.no", 2, BytesOf(static_cast<uint16_t>(number)))
        .Raw("split.count", 2, BytesOf(static_cast<uint16_t>(count)))
        .Raw("split.tensors.count", 5, BytesOf<int32_t>(2))
        .Tensor(tensor, {1}, 0, "four")
        .Bytes();
  };
  const std::string first = Path("m-00001-of-00002.gguf");
  const std::string second = Path("m-00002-of-00002.gguf");
  const auto open = [&] { GgufModel(FindGgufFiles(first)); };
  directory_.Write("m-00001-of-00002.gguf", part(0, 2, "a"));
  ExpectError(LS_NOT_FOUND, second + ": there is no such file", open);
  directory_.Write("m-00002-of-00002.gguf", part(1, 2, "b"));
  const GgufModel model(FindGgufFiles(first));
  EXPECT_EQ(model.parts().size(), 2u);
  EXPECT_NE(model.FindTensor("b"), nullptr);
  EXPECT_EQ(model.FindTensor("c"), nullptr);
  directory_.Write("m-00002-of-00002.gguf", part(0, 2, "b"));
  ExpectError(LS_INVALID_ARGUMENT, second + ": split.no must be 1, found 0", open);
  directory_.Write("m-00002-of-00002.gguf", part(1, 3, "b"));
  ExpectError(LS_INVALID_ARGUMENT,
              second + ": split.count must be 2, the number of files that the name states, found 3",
              open);
  directory_.Write("m-00002-of-00002.gguf", part(1, 2, "a"));
  ExpectError(LS_INVALID_ARGUMENT, second + ": tensor \"a\" is in another part too", open);
  directory_.Write("m-00002-of-00002.gguf",
                   GgufBytes().U32("split.no", 1).U32("split.count", 2).Bytes());
  ExpectError(
      LS_INVALID_ARGUMENT,
      first + ": split.tensors.count must be 1, the number of tensors in all parts, found 2", open);
}

// A FIFO without a writer must not be waited for.
TEST_F(GgufModelTest, OpensRegularFilesOnly) {
  ASSERT_EQ(mkfifo(Path("f.gguf").c_str(), 0600), 0);
  std::filesystem::create_directory(Path("d"));
  std::filesystem::create_symlink(Path("d"), Path("d.gguf"));
  for (const char* name : {"f.gguf", "d.gguf"}) {
    ExpectError(LS_NOT_FOUND, Path(name) + ": is no regular file",
                [&] { GgufModel({Path(name)}); });
  }
}

TEST_F(GgufModelTest, BoundsTheHeadersOfAllParts) {
  const std::string small =
      directory_.Write("m.gguf", GgufBytes().Text("a", std::string(1000, 'x')).Bytes());
  EXPECT_EQ(GgufModel({small}, 1056).parts()[0].front.bytes.size(), 1056u);
  ExpectError(LS_DATA_LOSS,
              small + ": the headers up to this part have 2112 bytes, expected at most 1056", [&] {
                GgufModel({small, small, small}, 1056);
              });
}

TEST_F(GgufModelTest, TakesNoMemoryBehindTheHeader) {
  const GgufModel model({directory_.Write("m.gguf", Metadata().Text("a", "text").Bytes())});
  const std::vector<std::byte>& bytes = model.parts()[0].front.bytes;
  EXPECT_EQ(bytes.capacity(), bytes.size());
  EXPECT_EQ(bytes.size(), model.parts()[0].front.header.data_begin);
  EXPECT_EQ(model.Find("a")->String(), "text");
}

TEST_F(GgufModelTest, WritesTheConfigOfALlama) {
  EXPECT_EQ(Config(Metadata()),
            R"({"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, )"
            R"("num_key_value_heads": 2, "head_dim": 2, "intermediate_size": 8, )"
            R"("max_position_embeddings": 64, "rope_theta": 10000.0, "rms_norm_eps": 1e-06, )"
            R"("vocab_size": 3, "tie_word_embeddings": true, "attention_bias": false, )"
            R"("mlp_bias": false, "model_type": "llama"})");
}

TEST_F(GgufModelTest, WritesScalingsOfRope) {
  EXPECT_THAT(Config(Metadata().F32("llama.rope.scaling.factor", 2.5f)),
              HasSubstr(R"("rope_scaling": {"rope_type": "linear", "factor": 2.5})"));
  EXPECT_THAT(Config(Metadata().F32("llama.rope.scaling.factor", 0.0f)),
              Not(HasSubstr("rope_scaling")));
  EXPECT_THAT(Config(Metadata()
                         .Text("llama.rope.scaling.type", "yarn")
                         .F32("llama.rope.scaling.factor", 4.0f)
                         .U32("llama.rope.scaling.original_context_length", 32)),
              HasSubstr(R"({"rope_type": "yarn", "factor": 4, )"
                        R"("original_max_position_embeddings": 32})"));
  EXPECT_THAT(Config(Metadata().Tensor("rope_freqs.weight", {2}, 0, BytesOf(1.0f) + BytesOf(8.5f))),
              HasSubstr(R"("short_factor": [1, 8.5], "long_factor": [1, 8.5])"));
}

TEST_F(GgufModelTest, RefusesByNameWhatMayChangeTheMathematics) {
  ExpectConfigRefused(
      LS_UNIMPLEMENTED,
      "general.architecture must be one of " + GgufArchitectureNames() + ", found \"mamba\"",
      Metadata("mamba"));
  const struct {
    std::string sentence;
    std::function<GgufBytes&(GgufBytes&)> add;
  } kRows[] = {
      {"llama.acme = 3 is not read for this architecture, and it may change the mathematics",
       [](GgufBytes& b) -> GgufBytes& { return b.U32("llama.acme", 3); }},
      {"llama.attention.sliding_window = 7 is not read for this architecture, and it may change "
       "the mathematics",
       [](GgufBytes& b) -> GgufBytes& { return b.U32("llama.attention.sliding_window", 7); }},
      {"llama.expert_count = 8: mixtures of experts are not served",
       [](GgufBytes& b) -> GgufBytes& { return b.U32("llama.expert_count", 8); }},
      {"llama.attention.causal must be true, found false",
       [](GgufBytes& b) -> GgufBytes& { return b.Bool("llama.attention.causal", false); }},
      {"llama.rope.scaling.type must be none, linear, yarn or longrope, found \"ntk\"",
       [](GgufBytes& b) -> GgufBytes& { return b.Text("llama.rope.scaling.type", "ntk"); }},
      {"llama.rope.scaling.type = \"longrope\" is served with the tensors "
       "rope_factors_long.weight and rope_factors_short.weight of phi3 only",
       [](GgufBytes& b) -> GgufBytes& { return b.Text("llama.rope.scaling.type", "longrope"); }},
      {"llama.rope.dimension_count must be 2, the width of a head, found 1",
       [](GgufBytes& b) -> GgufBytes& { return b.U32("llama.rope.dimension_count", 1); }},
      {"llama.attention.value_length must be attention.key_length = 2, found 6",
       [](GgufBytes& b) -> GgufBytes& { return b.U32("llama.attention.value_length", 6); }},
      {"llama.attention.head_count_kv must be the same number for all layers, found several",
       [](GgufBytes& b) -> GgufBytes& {
         return b.I32s("llama.attention.head_count_kv", {1, 2});
       }},
  };
  for (const auto& row : kRows) {
    GgufBytes bytes = Metadata();
    ExpectConfigRefused(LS_UNIMPLEMENTED, row.sentence, row.add(bytes));
  }
}

TEST_F(GgufModelTest, RefusesMissingAndWrongValues) {
  ExpectConfigRefused(LS_INVALID_ARGUMENT, "general.architecture must be a string, found nothing",
                      GgufBytes());
  ExpectConfigRefused(LS_INVALID_ARGUMENT, "llama.embedding_length is missing, expected an integer",
                      GgufBytes().Text("general.architecture", "llama"));
  ExpectConfigRefused(LS_INVALID_ARGUMENT,
                      "llama.rope.freq_base must be a finite number, found \"a\"",
                      Metadata().Text("llama.rope.freq_base", "a"));
  ExpectConfigRefused(LS_INVALID_ARGUMENT, "general.type must be \"model\", found \"adapter\"",
                      Metadata().Text("general.type", "adapter"));
  ExpectConfigRefused(
      LS_INVALID_ARGUMENT,
      "gemma2.attention.sliding_window_pattern must list true or false for each of 2 layers, found "
      "a list of 3",
      Metadata("gemma2").Bools("gemma2.attention.sliding_window_pattern", {true, true, false}));
  for (const auto& [present, missing] : {std::pair("long", "short"), std::pair("short", "long")}) {
    ExpectConfigRefused(LS_INVALID_ARGUMENT,
                        std::string("tensor \"rope_factors_") + missing +
                            ".weight\" is missing, though rope_factors_" + present +
                            ".weight is there",
                        Metadata("phi3").Tensor(std::string("rope_factors_") + present + ".weight",
                                                {1}, 0, "four"));
  }
  ExpectConfigRefused(LS_INVALID_ARGUMENT,
                      "tensor \"rope_freqs.weight\" must be a vector of type F32 with at most 4096 "
                      "elements, found F16",
                      Metadata().Tensor("rope_freqs.weight", {2}, 1, "four"));
}

}  // namespace
}  // namespace longstream
