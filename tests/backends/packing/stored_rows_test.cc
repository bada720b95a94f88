// Rows that are a part of a stored tensor, or stored in another order than kernels expect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/backends/packing/load_weights_fixture.h"

namespace longstream {
namespace {

class StoredRowsTest : public LoadWeightsFixture {};

// Phi-3's names: parts of one stored tensor, one below the other.
TEST_F(StoredRowsTest, FusedTensors) {
  spec_.names.q = spec_.names.k = spec_.names.v = "self_attn.qkv_proj";
  spec_.names.gate = spec_.names.up = "mlp.gate_up_proj";
  mixer().qkv_bias = true;
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                           "mlp.gate_proj", "mlp.up_proj"}) {
    tensors_.erase(kLayer + name + ".weight");
  }
  Add(kLayer + "self_attn.qkv_proj.weight", {16, kWidth});
  Add(kLayer + "self_attn.qkv_proj.bias", {16});
  Add(kLayer + "mlp.gate_up_proj.weight", {2 * spec_.mlp_width, kWidth});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  EXPECT_EQ(Numbers(layer.mixer.in), Stored({kLayer + "self_attn.qkv_proj.weight"}));
  EXPECT_EQ(Numbers(layer.mixer.in_bias, 16), Stored({kLayer + "self_attn.qkv_proj.bias"}));
  std::vector<float> both = Numbers(layer.mlp.gate);
  for (const float x : Numbers(layer.mlp.up)) both.push_back(x);
  EXPECT_EQ(both, Stored({kLayer + "mlp.gate_up_proj.weight"}));
  uint64_t elements = 0;
  for (const auto& [name, tensor] : tensors_) elements += tensor.bytes.size() / sizeof(float);
  EXPECT_EQ(weights.num_parameters, elements);

  tensors_.erase(kLayer + "self_attn.qkv_proj.weight");
  Add(kLayer + "self_attn.qkv_proj.weight", {15, kWidth});
  ExpectRefused(LS_INVALID_ARGUMENT, "self_attn.qkv_proj.weight\" must have the shape [16, " +
                                         std::to_string(kWidth) + "], found [15, " +
                                         std::to_string(kWidth) + "]");
}

// BLOOM: q, k and v of one head after those of another; an MLP without a gate; norms with biases.
TEST_F(StoredRowsTest, HeadByHeadAndWithoutAGate) {
  constexpr int64_t kHeads = 2, kDim = 4;
  mixer().num_kv_heads = kHeads;
  mixer().qkv_bias = spec_.norm_bias = spec_.mlp_bias = true;
  mixer().position = PositionKind::kAlibi;
  spec_.names.q = "qkv";
  spec_.names.qkv_by_head = true;
  mixer().feed_forward = FeedForwardKind::kPlain;
  spec_.names.embedding_norm = "embed_norm";
  for (const char* name :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.up_proj"}) {
    tensors_.erase(kLayer + name + ".weight");
  }
  Add(kLayer + "qkv.weight", {3 * kHeads * kDim, kWidth});
  Add(kLayer + "qkv.bias", {3 * kHeads * kDim});
  Add(kLayer + "mlp.gate_proj.bias", {kMlpWidth});
  Add(kLayer + "mlp.down_proj.bias", {kWidth});
  Add("model.embed_norm.weight", {kWidth});
  for (const std::string& name : {kLayer + "input_layernorm", kLayer + "post_attention_layernorm",
                                  std::string("model.norm"), std::string("model.embed_norm")}) {
    Add(name + ".bias", {kWidth});
  }
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  const std::vector<float> stored = Stored({kLayer + "qkv.weight"});
  const std::vector<float> bias = Stored({kLayer + "qkv.bias"});
  std::vector<float> rows, biases;
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t d = 0; d < kDim; ++d) {
        const int64_t row = (head * 3 + part) * kDim + d;
        biases.push_back(bias[static_cast<size_t>(row)]);
        rows.insert(rows.end(), stored.begin() + row * kWidth, stored.begin() + (row + 1) * kWidth);
      }
    }
  }
  EXPECT_EQ(Numbers(layer.mixer.in), rows);
  EXPECT_EQ(Numbers(layer.mixer.in_bias, biases.size()), biases);
  EXPECT_EQ(Numbers(layer.mlp.gate), Stored({kLayer + "mlp.gate_proj.weight"}));
  EXPECT_EQ(layer.mlp.up.n, 0);
  EXPECT_EQ(layer.mlp.up_bias, nullptr);
  EXPECT_EQ(Numbers(layer.mlp_norm.bias, kWidth),
            Stored({kLayer + "post_attention_layernorm.bias"}));
  EXPECT_EQ(Numbers(layer.mixer_norm.bias, kWidth), Stored({kLayer + "input_layernorm.bias"}));
  EXPECT_EQ(Numbers(weights.embedding_norm.weight, kWidth), Stored({"model.embed_norm.weight"}));
  EXPECT_EQ(Numbers(weights.embedding_norm.bias, kWidth), Stored({"model.embed_norm.bias"}));
  EXPECT_EQ(Numbers(weights.final_norm.bias, kWidth), Stored({"model.norm.bias"}));

  tensors_.erase("model.norm.bias");
  ExpectRefused(LS_INVALID_ARGUMENT, "tensor \"model.norm.bias\" is missing, expected shape [6]");
}

// The checkpoint has the model under another root, beside tensors of a model that is not served.
TEST_F(StoredRowsTest, RootOfTheDecoder) {
  static constexpr TensorRoot kRoots[] = {
      {"model.", "lm_head"}, {"text.model.", "text.lm_head"}, {"", "lm_head"}};
  static constexpr std::string_view kIgnored[] = {"vision."};
  spec_.names.roots = kRoots;
  spec_.names.ignored = kIgnored;
  spec_.tied_head = false;
  Add("lm_head.weight", {kVocabulary, kWidth});
  const auto tensors = tensors_;
  const std::vector<float> head = Stored({"lm_head.weight"});
  const std::vector<float> key = Stored({kLayer + "self_attn.k_proj.weight"});
  for (const TensorRoot& root : kRoots) {
    tensors_.clear();
    for (const auto& [name, tensor] : tensors) {
      const bool is_head = name == "lm_head.weight";
      const std::string renamed =
          is_head ? std::string(root.head) + ".weight" : std::string(root.prefix) + name.substr(6);
      tensors_[renamed] = tensor;
      tensors_[renamed].name = renamed;
    }
    Add("vision.tower.weight", {3});
    const ModelWeights weights = WriteAndLoad();
    EXPECT_EQ(Numbers(weights.head), head) << root.prefix;
    const std::vector<float> in = Numbers(weights.layers[0].mixer.in);
    EXPECT_TRUE(std::equal(key.begin(), key.end(), in.begin() + 8 * kWidth)) << root.prefix;
  }
  tensors_.erase("embed_tokens.weight");
  ExpectRefused(LS_INVALID_ARGUMENT, "tensor \"model.embed_tokens.weight\" is missing");
  Add("embed_tokens.weight", {kVocabulary, kWidth});
  Add("visions.weight", {3});
  ExpectRefused(LS_UNIMPLEMENTED, "tensor \"visions.weight\" is not read by this model");
}

// Command R+: each head has its own norm, and the checkpoint stores these norms as a matrix; pairs
// of RoPE are neighbours in the checkpoint.
TEST_F(StoredRowsTest, NormOfEachHead) {
  mixer().qk_norm = QkNorm::kEachHead;
  mixer().rope.neighbours = true;
  Add(kLayer + "self_attn.q_norm.weight", {2, 4});
  Add(kLayer + "self_attn.k_norm.weight", {1, 4});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  const auto halves = [this](const std::string& name) {
    std::vector<float> numbers = Stored({name + ".weight"});
    for (size_t head = 0; head < numbers.size(); head += 4) {
      std::swap(numbers[head + 1], numbers[head + 2]);
    }
    return numbers;
  };
  EXPECT_EQ(Numbers(layer.mixer.q_norm, 8), halves(kLayer + "self_attn.q_norm"));
  EXPECT_EQ(Numbers(layer.mixer.k_norm, 4), halves(kLayer + "self_attn.k_norm"));

  Add(kLayer + "self_attn.q_norm.weight", {8});
  ExpectRefused(LS_INVALID_ARGUMENT, "must have the shape [2, 4], found [8]");
}

// Gemma: a norm's factor is stored minus 1; biases are stored as they are.
TEST_F(StoredRowsTest, NormsLessOne) {
  spec_.norms_less_one = true;
  mixer().qk_norm = QkNorm::kHead;
  mixer().output_bias = true;
  spec_.names.mixer_post_norm = "post_attention_layernorm";
  spec_.names.mlp_norm = "pre_feedforward_layernorm";
  spec_.names.mlp_post_norm = "post_feedforward_layernorm";
  Add(kLayer + "pre_feedforward_layernorm.weight", {kWidth});
  Add(kLayer + "post_feedforward_layernorm.weight", {kWidth});
  Add(kLayer + "self_attn.o_proj.bias", {kWidth});
  Add(kLayer + "self_attn.q_norm.weight", {4});
  Add(kLayer + "self_attn.k_norm.weight", {4});
  const ModelWeights weights = WriteAndLoad();
  const LayerWeights& layer = weights.layers[0];
  const auto plus_one = [this](const std::string& name) {
    std::vector<float> numbers = Stored({name + ".weight"});
    for (float& x : numbers) x += 1.0f;
    return numbers;
  };
  EXPECT_EQ(Numbers(layer.mixer_norm.weight, kWidth), plus_one(kLayer + "input_layernorm"));
  EXPECT_EQ(Numbers(layer.mixer_post_norm.weight, kWidth),
            plus_one(kLayer + "post_attention_layernorm"));
  EXPECT_EQ(Numbers(layer.mlp_norm.weight, kWidth), plus_one(kLayer + "pre_feedforward_layernorm"));
  EXPECT_EQ(Numbers(layer.mlp_post_norm.weight, kWidth),
            plus_one(kLayer + "post_feedforward_layernorm"));
  EXPECT_EQ(Numbers(layer.mixer.q_norm, 4), plus_one(kLayer + "self_attn.q_norm"));
  EXPECT_EQ(Numbers(weights.final_norm.weight, kWidth), plus_one("model.norm"));
  EXPECT_EQ(Numbers(layer.mixer.out_bias, kWidth), Stored({kLayer + "self_attn.o_proj.bias"}));
}

// Heads of 4 elements in the kernels' order of rotation: pairs 0, 2 and 1, 3.
TEST_F(StoredRowsTest, HeadsInTheOrderOfTheKernels) {
  mixer().qk_norm = QkNorm::kHead;
  mixer().qkv_bias = true;
  for (const auto& [name, rows] : {std::pair{"q", 8}, {"k", 4}, {"v", 4}}) {
    Add(kLayer + "self_attn." + name + "_proj.bias", {rows});
  }
  Add(kLayer + "self_attn.q_norm.weight", {4});
  Add(kLayer + "self_attn.k_norm.weight", {4});
  const auto expect = [&](const std::vector<size_t>& order, const char* options) {
    const ModelWeights weights = WriteAndLoad(options);
    const auto reordered = [&](const std::string& name, size_t row, bool reorders) {
      const std::vector<float> stored = Stored({kLayer + "self_attn." + name});
      std::vector<float> rows(stored.size());
      for (size_t r = 0; r < stored.size() / row; ++r) {
        const size_t from = reorders ? r / 4 * 4 + order[r % 4] : r;
        std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(from * row), row,
                    rows.begin() + static_cast<std::ptrdiff_t>(r * row));
      }
      return rows;
    };
    std::vector<float> in;
    std::vector<float> bias;
    for (const char* name : {"q", "k", "v"}) {
      const std::string tensor = std::string(name) + "_proj";
      const bool reorders = *name != 'v';
      for (const float x : reordered(tensor + ".weight", kWidth, reorders)) in.push_back(x);
      for (const float x : reordered(tensor + ".bias", 1, reorders)) bias.push_back(x);
    }
    EXPECT_EQ(Numbers(weights.layers[0].mixer.in), in);
    EXPECT_EQ(Numbers(weights.layers[0].mixer.in_bias, 16), bias);
    EXPECT_EQ(Numbers(weights.layers[0].mixer.q_norm, 4), reordered("q_norm.weight", 1, true));
    EXPECT_EQ(Numbers(weights.layers[0].mixer.k_norm, 4), reordered("k_norm.weight", 1, true));
  };
  expect({0, 1, 2, 3}, "{}");
  mixer().rope.rotated = 2;
  expect({0, 2, 1, 3}, "{}");
  mixer().rope.rotated = 0;
  mixer().rope.neighbours = true;
  expect({0, 2, 1, 3}, "{}");
  mixer().position = PositionKind::kNone;
  expect({0, 1, 2, 3}, "{}");
}

}  // namespace
}  // namespace longstream
