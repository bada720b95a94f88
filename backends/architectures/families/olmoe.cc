// OLMoE (arXiv 2409.02060): a mixture of experts in every layer; q and k have a norm over all
// heads, before they are clipped.
#include "backends/architectures/families/expert_keys.h"
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  ReadAttentionBias(config, &plan->spec);
  RequireFalse(config, "mlp_bias");
  const double clip = config.FindNumber("clip_qkv", 1e-9, 1e9).value_or(0.0);
  for (MixerSpec& mixer : plan->spec.layers) {
    mixer.qk_norm = QkNorm::kAllHeads;
    mixer.qkv_clip = clip;
    mixer.norm_before_clip = clip > 0.0;
  }
  ExpertsSpec experts =
      ReadExperts(config, {.num_experts = 64, .num_chosen = 8, .width_key = "intermediate_size"});
  experts.normalise = config.FindBool("norm_topk_prob").value_or(false);
  RequireExperts(config, experts);
  SetExperts(experts, /*first=*/0, plan);
}

}  // namespace

const Family& Olmoe() {
  static constexpr Family kFamily = {.model_type = "olmoe",
                                     .defaults = {.rope = {.dictionary = RopeDictionary::kOne},
                                                  .norm_eps = 1e-5,
                                                  .trained_to_limit = true},
                                     .read = Read};
  return kFamily;
}

}  // namespace longstream::families
