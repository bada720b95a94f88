// GLM-4 and GLM-Edge (model_type glm): half of each head rotates, and its pairs are neighbours;
// biases on q, k and v; gate and up are one tensor.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  const bool bias = config.FindBool("attention_bias").value_or(true);
  for (MixerSpec& mixer : plan->spec.layers) mixer.qkv_bias = bias;
  SetNeighbours(plan);
}

}  // namespace

const Family& Glm() {
  static constexpr Family kFamily = {
      .model_type = "glm",
      .defaults = {.num_kv_heads = 2,
                   .head_dim = 128,
                   .rope = {.partial_rotary_factor = 0.5, .dictionary = RopeDictionary::kOne},
                   .norm_eps = 1.5625e-7,
                   .trained_to_limit = true},
      .names = {.gate = "mlp.gate_up_proj", .up = "mlp.gate_up_proj"},
      .rotates_parts = true,
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
