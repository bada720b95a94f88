// Qwen2 and Qwen2.5 (arXiv 2412.15115): biases on q, k and v whatever the config says.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  RequireFalse(config, "mlp_bias");
  for (MixerSpec& mixer : plan->spec.layers) mixer.qkv_bias = true;
  ReadQwenAttention(config, plan);
}

}  // namespace

const Family& Qwen2() {
  static constexpr Family kFamily = {
      .model_type = "qwen2", .defaults = {.trained_to_limit = true}, .read = Read};
  return kFamily;
}

}  // namespace longstream::families
