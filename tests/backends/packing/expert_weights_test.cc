// Weights of mixtures of experts: one tensor for each expert, or one for all experts of a layer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/backends/packing/load_weights_fixture.h"

namespace longstream {
namespace {

constexpr int64_t kExperts = 3;
constexpr int64_t kExpertWidth = 5;

class ExpertWeightsTest : public LoadWeightsFixture {
 protected:
  ExpertWeightsTest() {
    mixer().feed_forward = FeedForwardKind::kExperts;
    spec_.experts = {.num_experts = kExperts, .num_chosen = 2, .width = kExpertWidth};
    for (const char* name : {"gate", "up", "down"}) {
      tensors_.erase(kLayer + "mlp." + name + "_proj.weight");
    }
    Add(kLayer + "mlp.gate.weight", {kExperts, kWidth});
  }

  void AddExperts() {
    for (int64_t e = 0; e < kExperts; ++e) {
      Add(Name(e, "gate"), {kExpertWidth, kWidth});
      Add(Name(e, "up"), {kExpertWidth, kWidth});
      Add(Name(e, "down"), {kWidth, kExpertWidth});
    }
  }
  static std::string Name(int64_t expert, const std::string& part) {
    return kLayer + "mlp.experts." + std::to_string(expert) + "." + part + "_proj.weight";
  }

  void AddShared() {
    spec_.experts.shared = SharedExpert::kGated;
    spec_.experts.shared_width = 2;
    for (const char* name : {"gate", "up"}) {
      Add(kLayer + "mlp.shared_expert." + name + "_proj.weight", {2, kWidth});
    }
    Add(kLayer + "mlp.shared_expert.down_proj.weight", {kWidth, 2});
    Add(kLayer + "mlp.shared_expert_gate.weight", {1, kWidth});
  }
};

TEST_F(ExpertWeightsTest, ATensorForEachExpert) {
  AddExperts();
  AddShared();
  const ModelWeights weights = WriteAndLoad();
  const ExpertsWeights& experts = weights.layers[0].experts;
  ASSERT_EQ(experts.experts.size(), 4);
  EXPECT_EQ(Numbers(experts.router),
            Stored({kLayer + "mlp.gate.weight", kLayer + "mlp.shared_expert_gate.weight"}));
  for (int64_t e = 0; e < kExperts; ++e) {
    const Expert& expert = experts.experts[static_cast<size_t>(e)];
    EXPECT_EQ(Numbers(expert.gate), Stored({Name(e, "gate")}));
    EXPECT_EQ(Numbers(expert.up), Stored({Name(e, "up")}));
    EXPECT_EQ(Numbers(expert.down), Stored({Name(e, "down")}));
  }
  EXPECT_EQ(Numbers(experts.experts.back().down),
            Stored({kLayer + "mlp.shared_expert.down_proj.weight"}));
  uint64_t elements = 0;
  for (const auto& [name, tensor] : tensors_) elements += tensor.bytes.size() / sizeof(float);
  EXPECT_EQ(weights.num_parameters, elements);
}

// Granite's names: the gate and the up of all experts are one tensor, as are all downs.
TEST_F(ExpertWeightsTest, ATensorForAllExperts) {
  spec_.names.experts = {.router = "mlp.gate",
                         .gate = "moe.input_linear",
                         .up = "moe.input_linear",
                         .down = "moe.output_linear",
                         .stacked = true};
  Add(kLayer + "moe.input_linear.weight", {kExperts, 2 * kExpertWidth, kWidth});
  Add(kLayer + "moe.output_linear.weight", {kExperts, kWidth, kExpertWidth});
  const ModelWeights weights = WriteAndLoad();
  std::vector<float> in, down;
  for (const Expert& expert : weights.layers[0].experts.experts) {
    for (const PackedWeight& part : {expert.gate, expert.up}) {
      for (const float x : Numbers(part)) in.push_back(x);
    }
    for (const float x : Numbers(expert.down)) down.push_back(x);
  }
  EXPECT_EQ(in, Stored({kLayer + "moe.input_linear.weight"}));
  EXPECT_EQ(down, Stored({kLayer + "moe.output_linear.weight"}));

  // One matrix with as many rows is another tensor.
  tensors_.erase(kLayer + "moe.output_linear.weight");
  Add(kLayer + "moe.output_linear.weight", {kExperts * kWidth, kExpertWidth});
  ExpectRefused(LS_INVALID_ARGUMENT,
                "moe.output_linear.weight\" must have the shape [3, 6, 5], found [18, 5]");
}

// One op reads the gates and the ups of all experts, so they have one type; the router is f32.
TEST_F(ExpertWeightsTest, ExpertsHaveOneTypeAndTheRouterIsExact) {
  AddExperts();
  RecastAll("BF16");
  Recast(&tensors_.at(Name(1, "up")), "F32");
  const ModelWeights mixed = WriteAndLoad();
  for (const Expert& expert : mixed.layers[0].experts.experts) {
    EXPECT_EQ(expert.gate.type, DType::kF32);
    EXPECT_EQ(expert.up.type, DType::kF32);
    EXPECT_EQ(expert.down.type, DType::kBF16);
  }
  const ModelWeights int8 = WriteAndLoad(R"({"weights": "int8"})");
  EXPECT_EQ(int8.layers[0].experts.router.type, DType::kF32);
  EXPECT_EQ(int8.layers[0].experts.experts[0].gate.type, DType::kI8);
  EXPECT_EQ(int8.layers[0].experts.experts[0].down.type, DType::kI8);
}

TEST_F(ExpertWeightsTest, NamesTheTensorThatIsMissingOrTooMuch) {
  AddExperts();
  tensors_.erase(Name(2, "up"));
  ExpectRefused(LS_INVALID_ARGUMENT, "tensor \"" + Name(2, "up") + "\" is missing");
  Add(Name(2, "up"), {kExpertWidth, kWidth});
  Add(Name(3, "up"), {kExpertWidth, kWidth});
  ExpectRefused(LS_UNIMPLEMENTED, "tensor \"" + Name(3, "up") + "\" is not read");
}

TEST_F(ExpertWeightsTest, ABiasOfTheChoice) {
  AddExperts();
  spec_.experts.choice_bias = true;
  spec_.names.experts.choice_bias = "mlp.expert_bias";
  Add(kLayer + "mlp.expert_bias", {kExperts});
  const ModelWeights weights = WriteAndLoad();
  EXPECT_EQ(Numbers(weights.layers[0].experts.choice_bias, kExperts),
            Stored({kLayer + "mlp.expert_bias"}));
}

}  // namespace
}  // namespace longstream
