// Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219): q, k and v are one tensor, gate and up another; one
// window for all layers. Long-context models have LongRoPE on a part of each head.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void RequireOne(const Config& config, std::string_view key) {
  if (config.FindInteger(key, 0, kMaxLayers).value_or(1) != 1) {
    config.Unsupported(key, "must be 1, found " + config.Found(key));
  }
}

void Read(const Config& config, TransformerPlan* plan) {
  for (const char* bias : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    RequireFalse(config, bias);
  }
  // The authors' config class has these keys. A value other than 1 would ask for full attention in
  // every n-th layer, or for stretched positions.
  RequireOne(config, "full_attn_mod");
  RequireOne(config, "interpolate_factor");
  ReadWindowOfAllLayers(config, /*absent=*/0, plan);
}

}  // namespace

const Family& Phi3() {
  static constexpr Family kFamily = {.model_type = "phi3",
                                     .defaults = {.rope = {.original_length = 4096,
                                                           .yarn_is_longrope = true,
                                                           .dictionary = RopeDictionary::kOne},
                                                  .norm_eps = 1e-5,
                                                  .trained_to_limit = true},
                                     .names = {.q = "self_attn.qkv_proj",
                                               .k = "self_attn.qkv_proj",
                                               .v = "self_attn.qkv_proj",
                                               .gate = "mlp.gate_up_proj",
                                               .up = "mlp.gate_up_proj"},
                                     .rotates_parts = true,
                                     .read = Read};
  return kFamily;
}

}  // namespace longstream::families
