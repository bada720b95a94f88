// Qwen3 (arXiv 2505.09388): RMSNorm per head on q and k; heads are 128 wide by default.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  ReadAttentionBias(config, &plan->spec);
  RequireFalse(config, "mlp_bias");
  SetQkNorm(&plan->spec);
  ReadQwenAttention(config, plan);
}

}  // namespace

const Family& Qwen3() {
  static constexpr Family kFamily = {.model_type = "qwen3",
                                     .defaults = {.head_dim = 128, .trained_to_limit = true},

                                     .read = Read};
  return kFamily;
}

}  // namespace longstream::families
