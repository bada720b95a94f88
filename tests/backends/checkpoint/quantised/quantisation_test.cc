// ReadQuantisation: what is served, and what is refused by name.
#include "backends/checkpoint/quantised/quantisation.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

std::optional<Quantisation> Read(const std::string& text) {
  return ReadQuantisation(Config(text, "m/config.json"));
}

std::optional<Quantisation> ReadSection(const std::string& section) {
  return Read(R"({"quantization_config": )" + section + "}");
}

TEST(QuantisationTest, NoSectionMeansPlainWeights) {
  EXPECT_FALSE(Read("{}"));
  EXPECT_FALSE(Read(R"({"quantization_config": null})"));
}

TEST(QuantisationTest, Gptq) {
  const Quantisation old = *Read(R"({"torch_dtype": "float16", "quantization_config":
      {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": false}})");
  EXPECT_EQ(old.method, Quantisation::Method::kGptq);
  EXPECT_EQ(old.type, DType::kF16);
  EXPECT_TRUE(old.zeros_are_one_less);
  ASSERT_EQ(old.schemes.size(), 1u);
  EXPECT_EQ(old.schemes[0].bits, 4);
  EXPECT_EQ(old.schemes[0].group_size, 128);
  EXPECT_FALSE(old.schemes[0].symmetric);

  const Quantisation other = *ReadSection(R"({"quant_method": "gptq", "bits": 8,
      "group_size": -1, "checkpoint_format": "gptq_v2"})");
  EXPECT_FALSE(other.zeros_are_one_less);
  EXPECT_EQ(other.schemes[0].bits, 8);
  EXPECT_EQ(other.schemes[0].group_size, 0);
  EXPECT_TRUE(other.schemes[0].symmetric);
  EXPECT_FALSE(other.type);
}

TEST(QuantisationTest, OtherMethods) {
  const Quantisation awq = *ReadSection(R"({"quant_method": "awq", "bits": 4, "group_size": 64,
      "zero_point": true, "version": "GEMM", "modules_to_not_convert": ["lm_head"]})");
  EXPECT_EQ(awq.method, Quantisation::Method::kAwq);
  EXPECT_EQ(awq.schemes[0].group_size, 64);
  EXPECT_FALSE(awq.schemes[0].symmetric);

  const Quantisation fp8 = *ReadSection(R"({"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 64]})");
  EXPECT_EQ(fp8.method, Quantisation::Method::kFloat8);
  EXPECT_EQ(fp8.schemes[0].row_block, 128);
  EXPECT_EQ(fp8.schemes[0].group_size, 64);
  EXPECT_EQ(ReadSection(R"({"quant_method": "fbgemm_fp8"})")->schemes[0].row_block, 1);
}

TEST(QuantisationTest, CompressedTensors) {
  const std::string section = R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "kv_cache_scheme": {"num_bits": 8}, "sparsity_config": {}, "transform_config": {},
      "config_groups": {
        "group_0": {"targets": ["Linear"], "input_activations": null, "weights":
          {"num_bits": 4, "type": "int", "symmetric": true, "strategy": "group", "group_size": 32}},
        "group_1": {"targets": ["re:.*v"], "format": "float-quantized", "weights":
          {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [16, 8]}},
        "group_2": {"targets": ["x"], "weights":
          {"num_bits": 8, "type": "int", "symmetric": false, "strategy": "channel"}},
        "group_3": {"targets": ["Attention"], "weights": null}}})";
  const Config config(R"({"quantization_config": )" + section + "}", "m/config.json");
  const Quantisation read = *ReadQuantisation(config);
  ASSERT_EQ(read.schemes.size(), 3u);
  EXPECT_EQ(read.schemes[0].group_size, 32);
  EXPECT_TRUE(read.schemes[1].is_float);
  EXPECT_EQ(read.schemes[1].row_block, 16);
  EXPECT_EQ(read.schemes[1].group_size, 8);
  EXPECT_EQ(read.schemes[2].bits, 8);
  EXPECT_FALSE(read.schemes[2].symmetric);
  ASSERT_EQ(config.warnings().size(), 1u);
  EXPECT_EQ(config.warnings()[0],
            "m/config.json: quantization_config.kv_cache_scheme has no effect: the option cache "
            "sets the type of caches");
  // The name of an old section, which does not name the method.
  EXPECT_EQ(Read(R"({"compression_config": )" + section + "}")->name, "compressed-tensors");
}

// A row has the section without its braces.
struct Refused {
  const char* section;
  const char* sentence;  // behind "quantization_config."
};

void ExpectRefused(ls_code code, std::span<const Refused> rows) {
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.section);
    ExpectError(code, "m/config.json: quantization_config." + std::string(row.sentence),
                [&row] { ReadSection("{" + std::string(row.section) + "}"); });
  }
}

TEST(QuantisationTest, RefusesWhatIsNotServed) {
  const Refused rows[] = {
      {R"("quant_method": "bitsandbytes", "load_in_4bit": true)",
       "quant_method must be one of awq, compressed-tensors, fbgemm_fp8, fp8, gptq (or use the "
       "original checkpoint, which the option weights quantises), found \"bitsandbytes\""},
      {R"("bits": 4)",
       "quant_method must be one of awq, compressed-tensors, fbgemm_fp8, fp8, gptq (or use the "
       "original checkpoint, which the option weights quantises), found nothing"},
      {R"("quant_method": "gptq", "bits": 3)", "bits must be 4 or 8 for integers, found 3"},
      {R"("quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin")",
       "checkpoint_format must be one of gptq, gptq_v2, found \"marlin\""},
      {R"("quant_method": "gptq", "bits": 4, "is_marlin_format": true)",
       "is_marlin_format must be false, found true"},
      {R"("quant_method": "gptq", "bits": 4, "dynamic": {"re:x": {"bits": 8}})",
       "dynamic must have no modules with bits of their own, found "
       R"({"re:x":{"bits":8}})"},
      {R"("quant_method": "awq", "bits": 8)", "bits must be 4 for integers, found 8"},
      {R"("quant_method": "awq", "bits": 4, "version": "gemv")",
       "version must be one of gemm, found \"gemv\""},
      {R"("quant_method": "awq", "bits": 4, "zero_point": false)",
       "zero_point must be true, found false"},
      {R"("quant_method": "fp8", "fmt": "e5m2")", "fmt must be one of e4m3, found \"e5m2\""},
      {R"("quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized")",
       "format must be one of pack-quantized, int-quantized, float-quantized, naive-quantized, "
       "dense, mixed-precision, found \"nvfp4-pack-quantized\""},
      {R"("quant_method": "compressed-tensors", "config_groups": {"g": {"weights":
          {"type": "float", "num_bits": 4}}})",
       "config_groups.g.weights.num_bits must be 8 for floats, found 4"},
      {R"("quant_method": "compressed-tensors", "config_groups": {"g": {"weights":
          {"type": "int", "num_bits": 4, "strategy": "tensor_group"}}})",
       "config_groups.g.weights.strategy must be one of tensor, channel, group, block, found "
       "\"tensor_group\""},
      {R"("quant_method": "compressed-tensors", "sparsity_config": {"format": "marlin-24"})",
       "sparsity_config.format must be one of dense, found \"marlin-24\""},
      {R"("quant_method": "compressed-tensors", "transform_config": {"a": 1})",
       "transform_config must be absent: transforms of activations are not served, found "
       "{\"a\":1}"},
  };
  ExpectRefused(LS_UNIMPLEMENTED, rows);
}

TEST(QuantisationTest, RefusesKeysThatItDoesNotKnow) {
  const Refused rows[] = {
      {R"("quant_method": "gptq", "bits": 4, "acme": 1)",
       "acme = 1 is not known to the reader of GPTQ"},
      {R"("quant_method": "awq", "bits": 4, "acme": 1)",
       "acme = 1 is not known to the reader of AWQ"},
      {R"("quant_method": "fp8", "acme": 1)", "acme = 1 is not known to the reader of FP8"},
      {R"("quant_method": "compressed-tensors", "config_groups": {"g": {"weights":
          {"type": "int", "num_bits": 4, "acme": 1}}})",
       "config_groups.g.weights.acme = 1 is not known to the reader of compressed-tensors"},
      {R"("quant_method": "compressed-tensors", "config_groups": {}, "acme": 1)",
       "acme = 1 is not known to the reader of compressed-tensors"},
  };
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.section);
    ExpectError(
        LS_UNIMPLEMENTED,
        ::testing::StartsWith("m/config.json: quantization_config." + std::string(row.sentence)),
        [&row] { ReadSection("{" + std::string(row.section) + "}"); });
  }
}

// Keys of published checkpoints.
TEST(QuantisationTest, AcceptsKeysWithoutEffect) {
  ReadSection(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "damp_percent": 0.1,
      "damp_auto_increment": 0.0025, "desc_act": true, "static_groups": false, "sym": true,
      "true_sequential": true, "lm_head": false, "model_name_or_path": null, "pack_dtype": "int32",
      "model_file_base_name": "model", "dynamic": {"-:.*down.*": {}}, "cache_block_outputs": true,
      "exllama_config": {"version": 1}, "modules_in_block_to_quantize": null, "tokenizer": null,
      "meta": {"quantizer": ["gptqmodel:1.0"]}, "dataset": null, "use_cuda_fp16": false})");
  ReadSection(R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
      "version": "gemm", "modules_to_not_convert": null, "backend": "autoawq", "do_fuse": false,
      "exllama_config": null, "fuse_max_seq_len": null, "modules_to_fuse": null})");
  ReadSection(R"({"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["x"]})");
  ReadSection(R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
      "modules_to_not_convert": ["x"]})");
  ReadSection(R"({"quant_method": "compressed-tensors", "format": "float-quantized",
      "quantization_status": "compressed", "global_compression_ratio": 1.2, "ignore": ["lm_head"],
      "kv_cache_scheme": null, "version": "0.9", "config_groups": {"group_0": {
        "targets": ["Linear"], "output_activations": null,
        "input_activations": {"num_bits": 8, "type": "float", "dynamic": true},
        "weights": {"actorder": null, "block_structure": null, "dynamic": false,
          "group_size": null, "num_bits": 8, "observer": "minmax", "observer_kwargs": {},
          "strategy": "channel", "symmetric": true, "type": "float", "scale_dtype": null}}}})");
}

TEST(QuantisationTest, RefusesWrongValues) {
  const Refused rows[] = {
      {R"("quant_method": "gptq")", "bits is missing, expected an integer from 1 to 64"},
      {R"("quant_method": "gptq", "bits": 4, "group_size": 0)",
       "group_size must be -1 or at least 1, found 0"},
      {R"("quant_method": "gptq", "bits": 4, "group_size": -2)",
       "group_size must be an integer from -1 to 2147483648, found -2"},
      {R"("quant_method": "fp8", "weight_block_size": [128])",
       "weight_block_size must have two numbers, found [128]"},
      {R"("quant_method": "compressed-tensors")", "config_groups is missing, expected an object"},
  };
  ExpectRefused(LS_INVALID_ARGUMENT, rows);
  ExpectError(LS_INVALID_ARGUMENT, ::testing::HasSubstr("weight_block_size"),
              [] { ReadSection(R"({"quant_method": "fp8", "weight_block_size": [0, 128]})"); });
}

}  // namespace
}  // namespace longstream
