// Reads quantization_config.
#include "backends/checkpoint/quantised/quantisation.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace longstream {
namespace {

constexpr int64_t kMostInputs = int64_t{1} << 31;

// `value` must be one of `served`, in any case of letters.
void RequireOneOf(const Config& config, std::string_view key,
                  std::initializer_list<std::string_view> served) {
  std::string value = config.FindString(key).value_or(std::string(*served.begin()));
  std::transform(value.begin(), value.end(), value.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (std::find(served.begin(), served.end(), value) != served.end()) return;
  std::string names;
  for (const std::string_view name : served) {
    names.append(names.empty() ? "" : ", ").append(name);
  }
  config.Unsupported(key, "must be one of " + names + ", found " + config.Found(key));
}

int ReadBits(const Config& config, std::string_view key,
             std::initializer_list<int64_t> served = {4, 8}) {
  const int64_t bits = config.Integer(key, 1, 64);
  if (std::find(served.begin(), served.end(), bits) == served.end()) {
    config.Unsupported(key, std::string("must be ") + (served.size() == 1 ? "4" : "4 or 8") +
                                " for integers, found " + std::to_string(bits));
  }
  return static_cast<int>(bits);
}

// The inputs of a group; 0 in the result stands for all inputs, which a config writes as -1.
int64_t ReadGroupSize(const Config& config, std::string_view key) {
  const int64_t size = config.FindInteger(key, -1, kMostInputs).value_or(-1);
  if (size == 0) config.Invalid(key, "must be -1 or at least 1, found 0");
  return std::max<int64_t>(size, 0);
}

void RefuseObject(const Config& config, std::string_view key, const std::string& why) {
  if (const std::optional<Config> object = config.FindObject(key)) {
    if (!object->Keys().empty()) {
      config.Unsupported(key, "must be absent: " + why + ", found " + config.Found(key));
    }
  }
}

// The list [rows, columns] of a block.
void ReadBlock(const Config& config, std::string_view key, QuantisationScheme* scheme) {
  const std::vector<int64_t> block = config.Integers(key, 1, kMostInputs);
  if (block.size() != 2) {
    config.Invalid(key, "must have two numbers, found " + config.Found(key));
  }
  scheme->row_block = block[0];
  scheme->group_size = block[1];
}

void ReadGptq(const Config& config, Quantisation* quantisation) {
  QuantisationScheme scheme;
  scheme.bits = ReadBits(config, "bits");
  scheme.group_size = ReadGroupSize(config, "group_size");
  scheme.symmetric = config.FindBool("sym").value_or(true);
  const char* format = config.Has("checkpoint_format") ? "checkpoint_format" : "format";
  RequireOneOf(config, format, {"gptq", "gptq_v2"});
  quantisation->zeros_are_one_less = config.FindString(format).value_or("gptq") != "gptq_v2";
  if (config.FindBool("is_marlin_format").value_or(false)) {
    config.Unsupported("is_marlin_format", "must be false, found true");
  }
  if (const std::optional<Config> modules = config.FindObject("dynamic")) {
    // A pattern that begins with "-" names modules that are not quantised.
    for (const std::string& pattern : modules->Keys()) {
      if (pattern.starts_with('-')) continue;
      config.Unsupported("dynamic", "must have no modules with bits of their own, found " +
                                        config.Found("dynamic"));
    }
  }
  quantisation->schemes = {scheme};
  config.RefuseUnknown("the reader of GPTQ", {"act_group_aware",
                                              "backend",
                                              "batch_size",
                                              "block_name_to_quantize",
                                              "cache_block_outputs",
                                              "damp*",
                                              "dataset",
                                              "desc_act",
                                              "disable_exllama",
                                              "exllama_config",
                                              "lm_head",
                                              "max_input_length",
                                              "meta",
                                              "model_file_base_name",
                                              "model_name_or_path",
                                              "model_seqlen",
                                              "module_name_preceding_first_block",
                                              "modules_*",
                                              "pack_dtype",
                                              "pad_token_id",
                                              "static_groups",
                                              "tokenizer",
                                              "true_sequential",
                                              "use_cuda_fp16",
                                              "use_exllama",
                                              "version"});
}

void ReadAwq(const Config& config, Quantisation* quantisation) {
  QuantisationScheme scheme;
  scheme.bits = ReadBits(config, config.Has("w_bit") ? "w_bit" : "bits", {4});
  scheme.group_size =
      ReadGroupSize(config, config.Has("q_group_size") ? "q_group_size" : "group_size");
  scheme.symmetric = false;
  RequireOneOf(config, config.Has("version") ? "version" : "format", {"gemm"});
  if (!config.FindBool("zero_point").value_or(true)) {
    config.Unsupported("zero_point", "must be true, found false");
  }
  quantisation->schemes = {scheme};
  config.RefuseUnknown("the reader of AWQ",
                       {"backend", "do_fuse", "exllama_config", "fuse*", "modules_*"});
}

void ReadFloat8(const Config& config, Quantisation* quantisation) {
  QuantisationScheme scheme;
  scheme.is_float = true;
  if (config.Has("weight_block_size")) ReadBlock(config, "weight_block_size", &scheme);
  RequireOneOf(config, "fmt", {"e4m3"});
  RequireOneOf(config, "scale_fmt", {"float", "ue8m0"});
  quantisation->schemes = {scheme};
  config.RefuseUnknown("the reader of FP8", {"activation_scale_ub", "activation_scheme",
                                             "dequantize", "ignored_layers", "modules_*"});
}

QuantisationScheme ReadWeights(const Config& weights) {
  QuantisationScheme scheme;
  RequireOneOf(weights, "type", {"int", "float"});
  scheme.is_float = weights.FindString("type").value_or("int") == "float";
  if (!scheme.is_float) {
    scheme.bits = ReadBits(weights, "num_bits");
  } else if (weights.Integer("num_bits", 1, 64) != 8) {
    weights.Unsupported("num_bits", "must be 8 for floats, found " + weights.Found("num_bits"));
  }
  scheme.symmetric = weights.FindBool("symmetric").value_or(true);
  // A size says that the strategy is `group`, where the config does not name it.
  const std::string strategy =
      weights.FindString("strategy").value_or(weights.Has("group_size") ? "group" : "tensor");
  if (weights.Has("strategy")) {
    RequireOneOf(weights, "strategy", {"tensor", "channel", "group", "block"});
  }
  if (strategy == "group") scheme.group_size = ReadGroupSize(weights, "group_size");
  if (strategy == "block") ReadBlock(weights, "block_structure", &scheme);
  if (scheme.is_float && !scheme.symmetric) {
    weights.Unsupported("symmetric", "must be true for floats, found false");
  }
  weights.RefuseUnknown("the reader of compressed-tensors",
                        {"actorder", "block_structure", "dynamic", "group_size", "observer*",
                         "scale_dtype", "zp_dtype"});
  return scheme;
}

void ReadCompressedTensors(const Config& config, Quantisation* quantisation) {
  const std::initializer_list<std::string_view> formats = {"pack-quantized",  "int-quantized",
                                                           "float-quantized", "naive-quantized",
                                                           "dense",           "mixed-precision"};
  RequireOneOf(config, "format", formats);
  RefuseObject(config, "transform_config", "transforms of activations are not served");
  if (const std::optional<Config> sparsity = config.FindObject("sparsity_config")) {
    if (!sparsity->Keys().empty()) RequireOneOf(*sparsity, "format", {"dense"});
  }
  if (config.Has("kv_cache_scheme")) {
    config.Warn("kv_cache_scheme", "has no effect: the option cache sets the type of caches");
  }
  const Config groups = config.Object("config_groups");
  for (const std::string& name : groups.Keys()) {
    const Config group = groups.Object(name);
    if (group.Has("format")) RequireOneOf(group, "format", formats);
    if (!group.Has("weights")) continue;
    quantisation->schemes.push_back(ReadWeights(group.Object("weights")));
    group.RefuseUnknown("the reader of compressed-tensors",
                        {"input_activations", "output_activations", "targets"});
  }
  config.RefuseUnknown("the reader of compressed-tensors",
                       {"global_compression_ratio", "ignore", "moe_sparsity_config",
                        "quantization_status", "version"});
}

std::optional<DType> ReadType(const Config& config) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (!config.IsString(key)) continue;
    const std::string name = config.String(key);
    if (name == "float32") return DType::kF32;
    if (name == "float16") return DType::kF16;
    if (name == "bfloat16") return DType::kBF16;
  }
  if (const std::optional<Config> text = config.FindObject("text_config")) return ReadType(*text);
  return std::nullopt;
}

struct MethodReader {
  std::string_view name;
  Quantisation::Method method;
  void (*read)(const Config& config, Quantisation* quantisation);
};

constexpr std::array kMethods = {
    MethodReader{"awq", Quantisation::Method::kAwq, ReadAwq},
    MethodReader{"compressed-tensors", Quantisation::Method::kCompressedTensors,
                 ReadCompressedTensors},
    MethodReader{"fbgemm_fp8", Quantisation::Method::kFloat8, ReadFloat8},
    MethodReader{"fp8", Quantisation::Method::kFloat8, ReadFloat8},
    MethodReader{"gptq", Quantisation::Method::kGptq, ReadGptq},
};

}  // namespace

std::optional<Quantisation> ReadQuantisation(const Config& config) {
  const char* key =
      config.Has("quantization_config") ? "quantization_config" : "compression_config";
  const std::optional<Config> described = config.FindObject(key);
  if (!described) return std::nullopt;
  Quantisation quantisation;
  quantisation.name = described->FindString("quant_method").value_or("");
  if (quantisation.name.empty() && described->Has("config_groups")) {
    quantisation.name = "compressed-tensors";
  }
  quantisation.type = ReadType(config);
  std::string names;
  for (const MethodReader& reader : kMethods) {
    names.append(names.empty() ? "" : ", ").append(reader.name);
    if (reader.name != quantisation.name) continue;
    quantisation.method = reader.method;
    reader.read(*described, &quantisation);
    return quantisation;
  }
  described->Unsupported("quant_method", "must be one of " + names +
                                             " (or use the original checkpoint, which the option "
                                             "weights quantises), found " +
                                             described->Found("quant_method"));
}

}  // namespace longstream
