// Mixtral (arXiv 2401.04088): Mistral with a mixture of experts in every layer.
#include "backends/architectures/families/expert_keys.h"
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  RequireFalse(config, "attention_bias");
  RequireFalse(config, "mlp_bias");
  ReadWindowOfAllLayers(config, /*absent=*/0, plan);
  ExpertsSpec experts =
      ReadExperts(config, {.num_experts = 8, .num_chosen = 2, .width_key = "intermediate_size"});
  experts.normalise = true;
  RequireExperts(config, experts);
  SetExperts(experts, /*first=*/0, plan);
}

}  // namespace

const Family& Mixtral() {
  static constexpr Family kFamily = {
      .model_type = "mixtral",
      .defaults = {.num_kv_heads = 8,
                   .rope = {.theta = 1000000.0, .dictionary = RopeDictionary::kOne},
                   .norm_eps = 1e-5,
                   .trained_to_limit = true},
      .names = {.experts = {.router = "block_sparse_moe.gate",
                            .experts = "block_sparse_moe.experts",
                            .gate = "w1",
                            .up = "w3",
                            .down = "w2"}},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
