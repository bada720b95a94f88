// LoadWeights: the place and type of each tensor, and the refusals.
#include "backends/packing/load_weights.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/packing/weight_memory.h"
#include "backends/packing/weight_reader.h"
#include "kernels/core/thread_pool.h"
#include "tests/backends/packing/load_weights_fixture.h"

namespace longstream {
namespace {

using ::testing::HasSubstr;

class LoadWeightsTest : public LoadWeightsFixture {};

TEST_F(LoadWeightsTest, PlacesEveryTensor) {
  const ModelWeights weights = WriteAndLoad();
  ASSERT_EQ(weights.layers.size(), 1u);
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(Numbers(weights.embedding), Stored({"model.embed_tokens.weight"}));
  EXPECT_EQ(Numbers(weights.final_norm.weight, kWidth), Stored({"model.norm.weight"}));
  EXPECT_EQ(Numbers(layer.mixer_norm.weight, kWidth), Stored({kLayer + "input_layernorm.weight"}));
  EXPECT_EQ(Numbers(layer.mlp_norm.weight, kWidth),
            Stored({kLayer + "post_attention_layernorm.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight"}));
  EXPECT_EQ(layer.mixer.in.n, 16);
  EXPECT_EQ(Numbers(layer.mixer.out), Stored({kLayer + "self_attn.o_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mlp.gate), Stored({kLayer + "mlp.gate_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mlp.up), Stored({kLayer + "mlp.up_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mlp.down), Stored({kLayer + "mlp.down_proj.weight"}));
  for (const float* absent :
       {layer.mixer.in_bias, layer.mixer.value_bias, layer.mixer.q_norm, layer.mixer.k_norm,
        layer.mixer.output_norm, layer.mixer.log_decay, layer.mixer.out_bias}) {
    EXPECT_EQ(absent, nullptr);
  }
  EXPECT_EQ(layer.mixer.value.data, nullptr);
  EXPECT_EQ(weights.chunk_embedding.data, nullptr);
}

TEST_F(LoadWeightsTest, CountsParametersAndBytes) {
  const ModelWeights weights = WriteAndLoad();
  uint64_t elements = 0;
  for (const auto& [name, tensor] : tensors_) elements += tensor.bytes.size() / sizeof(float);
  EXPECT_EQ(weights.num_parameters, elements);
  EXPECT_GE(weights.bytes, elements * sizeof(float));
  EXPECT_LE(weights.bytes, elements * sizeof(float) + kWeightAlignment * tensors_.size());
}

TEST_F(LoadWeightsTest, BiasesNormsAndGateOfAttention) {
  mixer().qk_norm = QkNorm::kHead;
  mixer().qkv_bias = mixer().output_bias = mixer().output_gate = true;
  for (const auto& [name, rows] : {std::pair{"q", 8}, {"k", 4}, {"v", 4}, {"o", int{kWidth}}}) {
    Add(kLayer + "self_attn." + name + "_proj.bias", {rows});
  }
  Add(kLayer + "self_attn.q_norm.weight", {4});
  Add(kLayer + "self_attn.k_norm.weight", {4});
  Add(kLayer + "self_attn.o_gate.weight", {8, kWidth});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(layer.mixer.in.n, 24);
  EXPECT_EQ(Numbers(layer.mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight", kLayer + "self_attn.o_gate.weight"}));
  // The gate has no bias.
  std::vector<float> bias =
      Stored({kLayer + "self_attn.q_proj.bias", kLayer + "self_attn.k_proj.bias",
              kLayer + "self_attn.v_proj.bias"});
  bias.resize(24, 0.0f);
  EXPECT_EQ(Numbers(layer.mixer.in_bias, 24), bias);
  EXPECT_EQ(Numbers(layer.mixer.out_bias, kWidth), Stored({kLayer + "self_attn.o_proj.bias"}));
  EXPECT_EQ(Numbers(layer.mixer.q_norm, 4), Stored({kLayer + "self_attn.q_norm.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.k_norm, 4), Stored({kLayer + "self_attn.k_norm.weight"}));
}

TEST_F(LoadWeightsTest, BiasesOfTheMlp) {
  spec_.mlp_bias = true;
  for (const auto& [name, rows] :
       {std::pair{"gate", kMlpWidth}, {"up", kMlpWidth}, {"down", kWidth}}) {
    Add(kLayer + "mlp." + name + "_proj.bias", {rows});
  }
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(Numbers(layer.mlp.gate_bias, kMlpWidth), Stored({kLayer + "mlp.gate_proj.bias"}));
  EXPECT_EQ(Numbers(layer.mlp.up_bias, kMlpWidth), Stored({kLayer + "mlp.up_proj.bias"}));
  EXPECT_EQ(Numbers(layer.mlp.down_bias, kWidth), Stored({kLayer + "mlp.down_proj.bias"}));
}

TEST_F(LoadWeightsTest, Lightning) {
  mixer().kind = MixerKind::kLightning;
  mixer().output_gate = mixer().output_norm = true;
  Add(kLayer + "self_attn.z_proj.weight", {8, kWidth});
  Add(kLayer + "self_attn.o_norm.weight", {8});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(Numbers(layer.mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight", kLayer + "self_attn.z_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.output_norm, 8), Stored({kLayer + "self_attn.o_norm.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.log_decay, 2), (std::vector<float>{-0.0625f, -0.00390625f}));
}

TEST_F(LoadWeightsTest, GatedRnn) {
  mixer().kind = MixerKind::kGatedRnn;
  mixer().num_kv_heads = 2;
  mixer().head_dim = 2;
  mixer().value_dim = 3;
  for (const std::string name : {"q", "k", "f"}) {
    Add(kLayer + "self_attn." + name + "_proj.weight", {4, kWidth});
  }
  Add(kLayer + "self_attn.v_proj.weight", {6, kWidth});
  Add(kLayer + "self_attn.o_proj.weight", {kWidth, 6});
  Add(kLayer + "self_attn.f_proj.bias", {4});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(layer.mixer.in.n, 18);
  EXPECT_EQ(Numbers(layer.mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight", kLayer + "self_attn.f_proj.weight"}));
  std::vector<float> bias(14, 0.0f);
  for (const float b : Stored({kLayer + "self_attn.f_proj.bias"})) bias.push_back(b);
  EXPECT_EQ(Numbers(layer.mixer.in_bias, 18), bias);
}

TEST_F(LoadWeightsTest, ChunkedAttentionKeepsValuesApart) {
  mixer().position = PositionKind::kChunkedRope;
  spec_.chunk_size = 16;
  spec_.num_chunks = 3;
  Add("model.chunk_embed.weight", {3, kWidth});
  RecastAll("F16");
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(layer.mixer.in.n, 12);
  EXPECT_EQ(Numbers(layer.mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.value), Stored({kLayer + "self_attn.v_proj.weight"}));
  EXPECT_EQ(weights.chunk_embedding.type, DType::kF32);
  EXPECT_EQ(Numbers(weights.chunk_embedding.f32_row(0), 3 * kWidth),
            Stored({"model.chunk_embed.weight"}));
}

TEST_F(LoadWeightsTest, TiedHeadSharesTheEmbedding) {
  const ModelWeights weights = WriteAndLoad();
  EXPECT_EQ(weights.head.data, weights.embedding.data);
  EXPECT_EQ(weights.head.n, kVocabulary);
}

TEST_F(LoadWeightsTest, TiedHeadMayBeStoredAsWell) {
  const uint64_t parameters = WriteAndLoad().num_parameters;
  tensors_["lm_head.weight"] = tensors_["model.embed_tokens.weight"];
  tensors_["lm_head.weight"].name = "lm_head.weight";
  EXPECT_EQ(WriteAndLoad().num_parameters, parameters);
  tensors_["lm_head.weight"].bytes[0] ^= 1;
  ExpectRefused(LS_INVALID_ARGUMENT,
                "tensor \"lm_head.weight\" must equal \"model.embed_tokens.weight\", which the "
                "config ties it to");
}

TEST_F(LoadWeightsTest, UntiedHead) {
  spec_.tied_head = false;
  ExpectRefused(
      LS_INVALID_ARGUMENT,
      directory_.string() + ": tensor \"lm_head.weight\" is missing, expected shape [5, 6]");
  Add("lm_head.weight", {kVocabulary, kWidth});
  const ModelWeights weights = WriteAndLoad();
  EXPECT_EQ(Numbers(weights.head), Stored({"lm_head.weight"}));
  EXPECT_NE(weights.head.data, weights.embedding.data);
}

TEST_F(LoadWeightsTest, TensorsThatNobodyReads) {
  Add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  WriteAndLoad();
  Add(kLayer + "self_attn.q_proj.bias", {8});
  ExpectRefused(LS_UNIMPLEMENTED,
                "model.safetensors: tensor \"model.layers.0.self_attn.q_proj.bias\" is not read by "
                "this model, and leaving it out may change the mathematics");
}

// AutoGPTQ stores biases that the model does not have, beside quantised weights.
TEST_F(LoadWeightsTest, BiasesOfZerosThatNobodyReads) {
  const std::string name = kLayer + "self_attn.o_proj.";
  const auto add_zeros = [this](const std::string& bias) -> std::string& {
    Add(bias, {kWidth});
    std::string& bytes = tensors_.at(bias).bytes;
    bytes.assign(bytes.size(), '\0');
    return bytes;
  };
  std::string& bytes = add_zeros(name + "bias");
  ExpectRefused(LS_UNIMPLEMENTED, "self_attn.o_proj.bias\" is not read by this model");
  tensors_.at(name + "weight") = {name + "weight", "F8_E4M3", {kWidth, 8}, std::string(48, '8')};
  Add(name + "weight_scale_inv", {1, 1});
  config_ = R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [8, 8]}})";
  WriteAndLoad();
  bytes.back() = '\x3f';
  ExpectRefused(LS_UNIMPLEMENTED, "self_attn.o_proj.bias\" is not read by this model");
  bytes.back() = '\0';
  for (const std::string other : {"input_layernorm.bias", "mlp.down_proj.bias", "acme.bias"}) {
    add_zeros(kLayer + other);
    ExpectRefused(LS_UNIMPLEMENTED, other + "\" is not read by this model");
    tensors_.erase(kLayer + other);
  }
}

TEST_F(LoadWeightsTest, EveryTensorIsNeeded) {
  const auto all = tensors_;
  for (const auto& [name, tensor] : all) {
    SCOPED_TRACE(name);
    tensors_.erase(name);
    ExpectRefused(LS_INVALID_ARGUMENT, directory_.string() + ": tensor \"" + name +
                                           "\" is missing, expected shape " +
                                           ShapeText(tensor.shape));
    tensors_ = all;
    tensors_.at(name) = CountingTensor(name, {3, 3});
    ExpectRefused(LS_INVALID_ARGUMENT, "tensor \"" + name + "\" must have the shape " +
                                           ShapeText(tensor.shape) + ", found [3, 3]");
    tensors_ = all;
  }
}

TEST_F(LoadWeightsTest, EveryTypeAsStoredAndAsAsked) {
  for (const std::string stored : {"F32", "F16", "BF16"}) {
    RecastAll(stored);
    WriteFile();
    EXPECT_EQ(Load().layers[0].mixer.in.type, TypeOf(stored));
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(stored + " as " + NameOf(type));
      const std::string options = std::string(R"({"weights": ")") + NameOf(type) + R"("})";
      const ModelWeights weights = Load(options.c_str());
      for (const PackedWeight* weight :
           {&weights.embedding, &weights.layers[0].mixer.in, &weights.layers[0].mlp.down}) {
        EXPECT_EQ(weight->type, type);
      }
      EXPECT_EQ(Numbers(weights.layers[0].mixer.in),
                Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                        kLayer + "self_attn.v_proj.weight"}));
      EXPECT_EQ(Numbers(weights.final_norm.weight, kWidth), Stored({"model.norm.weight"}));
    }
  }
}

TEST_F(LoadWeightsTest, NarrowingRoundsToNearestEven) {
  // Both numbers are in the middle between two neighbouring bf16 numbers: the first between 1 and
  // the next number, the second between that number and the one after it.
  const float values[] = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f};
  std::memcpy(tensors_.at("model.embed_tokens.weight").bytes.data(), values, sizeof(values));
  const std::vector<float> loaded = Numbers(WriteAndLoad(R"({"weights": "bf16"})").embedding);
  EXPECT_EQ(loaded[0], 1.0f);
  EXPECT_EQ(loaded[1], 1.0f + 0x1p-6f);
}

TEST_F(LoadWeightsTest, PartsOfDifferentTypesMeetInF32) {
  Recast(&tensors_.at(kLayer + "self_attn.k_proj.weight"), "BF16");
  Recast(&tensors_.at(kLayer + "mlp.up_proj.weight"), "BF16");
  Recast(&tensors_.at(kLayer + "mlp.down_proj.weight"), "BF16");
  const ModelWeights weights = WriteAndLoad();
  EXPECT_EQ(weights.layers[0].mixer.in.type, DType::kF32);
  // One op reads both weights.
  EXPECT_EQ(weights.layers[0].mlp.gate.type, DType::kF32);
  EXPECT_EQ(weights.layers[0].mlp.up.type, DType::kF32);
  EXPECT_EQ(Numbers(weights.layers[0].mlp.up), Stored({kLayer + "mlp.up_proj.weight"}));
  EXPECT_EQ(weights.layers[0].mlp.down.type, DType::kBF16);
  EXPECT_EQ(Numbers(weights.layers[0].mixer.in),
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight"}));
}

// Each weight is compressed once, after all its rows are packed.
TEST_F(LoadWeightsTest, CompressesWhatIsPacked) {
  static std::map<const void*, int64_t> packed_rows;  // of weights not yet compressed
  static int compressed;
  packed_rows.clear();
  compressed = 0;
  OpTable ops = PackingOps();
  ops.pack = [](const Executor& executor, const PackArgs& args) {
    packed_rows[args.destination] += args.num_rows;
    reference::Pack(executor, args);
  };
  ops.compress = [](const Executor&, const CompressArgs& args) {
    EXPECT_EQ(packed_rows[args.packed], args.n);
    packed_rows.erase(args.packed);
    ++compressed;
  };
  WriteFile();
  const ModelWeights weights = LoadWeights(spec_, Checkpoint(directory_.string()),
                                           LoadOptions("{}"), ops, Executor(), HostMemory());
  EXPECT_EQ(weights.layers[0].mixer.in.n, 16);
  EXPECT_TRUE(packed_rows.empty());
  EXPECT_EQ(compressed, 6);  // the embedding; of the layer, 2 of attention and 3 of the MLP
}

TEST_F(LoadWeightsTest, AFileThatIsWrittenToWhileItIsReadIsRefused) {
  static std::string path;
  OpTable ops = PackingOps();
  ops.pack = [](const Executor& executor, const PackArgs& args) {
    reference::Pack(executor, args);
    // Writes bytes that the file already has, as a resumed copy might.
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).put('\x10').flush();
  };
  WriteFile();
  path = directory_.string() + "/model.safetensors";
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // times advance in steps
  ExpectError(LS_UNAVAILABLE, HasSubstr("model.safetensors: was written to while it was read"),
              [&] {
                LoadWeights(spec_, Checkpoint(directory_.string()), LoadOptions("{}"), ops,
                            Executor(), HostMemory());
              });
}

TEST_F(LoadWeightsTest, AFileThatIsShortenedWhileItIsReadIsDataLoss) {
  static std::string path;
  OpTable ops = PackingOps();
  ops.pack = [](const Executor& executor, const PackArgs& args) {
    reference::Pack(executor, args);
    std::filesystem::resize_file(path, 1000);
  };
  WriteFile();
  path = directory_.string() + "/model.safetensors";
  ExpectError(LS_DATA_LOSS, HasSubstr("model.safetensors: was shortened while it was read"), [&] {
    LoadWeights(spec_, Checkpoint(directory_.string()), LoadOptions("{}"), ops, Executor(),
                HostMemory());
  });
}

TEST_F(LoadWeightsTest, NumbersBeyondF16AreRefused) {
  const float large = 1e5f;
  std::memcpy(tensors_.at(kLayer + "mlp.up_proj.weight").bytes.data() + 4 * 9, &large, 4);
  ExpectRefused(LS_INVALID_ARGUMENT,
                "tensor \"model.layers.0.mlp.up_proj.weight\": element 9 is 100000, beyond +-65504 "
                "of f16, expected weights bf16 or f32",
                R"({"weights": "f16"})");
}

// Any stored type is quantised; vectors stay f32, and the fingerprint differs by type.
TEST_F(LoadWeightsTest, QuantisedAsAsked) {
  std::set<uint64_t> fingerprints;
  for (const std::string stored : {"F32", "F16", "BF16"}) {
    RecastAll(stored);
    for (const size_t pad : {0, 1}) {
      WriteFile(pad);
      for (const DType type : {DType::kI8, DType::kI4}) {
        SCOPED_TRACE(stored + " as " + NameOf(type));
        const std::string options = std::string(R"({"weights": ")") + NameOf(type) + R"("})";
        const ModelWeights weights = Load(options.c_str());
        EXPECT_EQ(weights.head.type, type);
        EXPECT_EQ(weights.layers[0].mlp.down.type, type);
        EXPECT_EQ(Numbers(weights.final_norm.weight, kWidth), Stored({"model.norm.weight"}));
        const PackedWeight& mixer_in = weights.layers[0].mixer.in;
        ASSERT_EQ(mixer_in.type, type);
        const std::vector<float> numbers =
            Stored({kLayer + "self_attn.q_proj.weight", kLayer + "self_attn.k_proj.weight",
                    kLayer + "self_attn.v_proj.weight"});
        std::vector<std::byte> expected(ReferenceOps().packed_bytes(type, mixer_in.n, mixer_in.k));
        ReferenceOps().pack({}, {.source = numbers.data(),
                                 .num_rows = mixer_in.n,
                                 .destination = expected.data(),
                                 .type = type,
                                 .n = mixer_in.n,
                                 .k = mixer_in.k});
        EXPECT_EQ(std::memcmp(mixer_in.data, expected.data(), expected.size()), 0);
        fingerprints.insert(weights.fingerprint);
      }
    }
  }
  EXPECT_EQ(fingerprints.size(), 6u);
}

TEST_F(LoadWeightsTest, NumbersBeyondAScaleAreRefused) {
  const float large = 5e5f;
  std::memcpy(tensors_.at(kLayer + "mlp.up_proj.weight").bytes.data() + 4 * 9, &large, 4);
  ExpectRefused(
      LS_INVALID_ARGUMENT,
      "tensor \"model.layers.0.mlp.up_proj.weight\": element 9 is 500000, beyond +-458528 "
      "of int4, expected weights bf16 or f32",
      R"({"weights": "int4"})");
  EXPECT_EQ(WriteAndLoad(R"({"weights": "int8"})").layers[0].mlp.up.type, DType::kI8);
}

TEST_F(LoadWeightsTest, MisalignedData) {
  for (const std::string stored : {"F32", "F16", "BF16"}) {
    RecastAll(stored);
    WriteFile();
    const ModelWeights aligned = Load();
    for (size_t pad = 0; pad < 8; ++pad) {
      SCOPED_TRACE(stored + " with padding " + std::to_string(pad));
      WriteFile(pad);
      const ModelWeights weights = Load();
      EXPECT_EQ(weights.embedding.type, aligned.embedding.type);
      EXPECT_EQ(Numbers(weights.embedding), Stored({"model.embed_tokens.weight"}));
      EXPECT_EQ(weights.fingerprint, aligned.fingerprint);
    }
  }
}

TEST_F(LoadWeightsTest, FingerprintIsOfTheNumbersNotOfTheFiles) {
  WriteFile();
  const uint64_t single = Load().fingerprint;
  ThreadPool pool(3);
  EXPECT_EQ(Load("{}", pool.AsExecutor()).fingerprint, single);
  EXPECT_NE(Load(R"({"weights": "bf16"})").fingerprint, single);

  // Stores the same tensors in two shards, in reverse order.
  TemporaryDirectory shards;
  std::string map;
  std::vector<TensorSource> parts[2];
  for (auto it = tensors_.rbegin(); it != tensors_.rend(); ++it) {
    const size_t part = map.size() % 2;
    parts[part].push_back(it->second);
    map += (map.empty() ? "\"" : ", \"") + it->first + "\": \"s" + std::to_string(part) + "\"";
  }
  shards.Write("s0", SafetensorsBytes(parts[0]));
  shards.Write("s1", SafetensorsBytes(parts[1]));
  shards.Write("model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
  ASSERT_FALSE(parts[0].empty() || parts[1].empty());
  const Checkpoint sharded(shards.string());
  EXPECT_EQ(LoadWeights(spec_, sharded, LoadOptions(), PackingOps(), Executor()).fingerprint,
            single);

  tensors_.at("model.norm.weight").bytes[3] ^= 1;
  EXPECT_NE(WriteAndLoad().fingerprint, single);
  tensors_.at("model.norm.weight").bytes[3] ^= 1;
  std::swap(tensors_.at(kLayer + "mlp.gate_proj.weight").bytes,
            tensors_.at(kLayer + "mlp.up_proj.weight").bytes);
  EXPECT_NE(WriteAndLoad().fingerprint, single);
}

// The plan's recipes must differ if blocks differ. So packed weights that an earlier start has kept
// are recognised as stale (packed_key.h).
TEST_F(LoadWeightsTest, ThePlanSaysWhatDecidesABlock) {
  WriteFile();
  const Checkpoint checkpoint(directory_.string());
  const OpTable ops = PackingOps();
  const Executor executor;
  const std::string gate = kLayer + "mlp.gate_proj.weight";
  const std::string up = kLayer + "mlp.up_proj.weight";
  const std::vector<std::vector<WeightPart>> blocks = {
      {{gate, 7}},
      {{up, 7}},
      {{gate, 7}, {up, 7}},
      {{up, 7}, {gate, 7}},
      {{gate, 6, 7, 0}},
      {{gate, 6, 7, 1}},
      {{gate, 6, 7, 1, {0, 2, 1}}},
      {{gate, 6, 7, 1, {2, 0, 1}}},
  };
  std::set<std::string> recipes;
  for (const char* json : {"{}", R"({"weights": "int8"})", R"({"weights": "int4"})"}) {
    const LoadOptions options(json);
    for (const std::vector<WeightPart>& parts : blocks) {
      WeightReader reader(WeightReader::Mode::kCheck, checkpoint, options, ops, executor,
                          HostMemory());
      reader.Projection(parts, kWidth);
      EXPECT_EQ(reader.plan().bytes % kWeightAlignment, 0u);
      recipes.insert(reader.plan().recipes);
    }
  }
  EXPECT_EQ(recipes.size(), 3 * blocks.size());
  const auto of_constants = [&](float value) {
    const LoadOptions options;
    WeightReader reader(WeightReader::Mode::kCheck, checkpoint, options, ops, executor,
                        HostMemory());
    reader.Constants(std::vector<float>{1.0f, value});
    return reader.plan().recipes;
  };
  EXPECT_EQ(of_constants(2.0f), of_constants(2.0f));
  EXPECT_NE(of_constants(2.0f), of_constants(3.0f));
}

// The tensors are large enough for several pieces and several threads.
TEST_F(LoadWeightsTest, LargeTensorsOnManyThreads) {
  spec_.vocabulary = 500'000;
  Add("model.embed_tokens.weight", {spec_.vocabulary, kWidth});
  RecastAll("F16");
  WriteFile();
  ThreadPool pool(4);
  const ModelWeights weights = Load(R"({"weights": "bf16"})", pool.AsExecutor());
  std::vector<float> expected = Stored({"model.embed_tokens.weight"});
  for (float& value : expected) value = ToF32(ToBF16(value));
  EXPECT_EQ(Numbers(weights.embedding), expected);
}

}  // namespace
}  // namespace longstream
