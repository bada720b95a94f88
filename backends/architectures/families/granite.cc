// Granite 3: Llama with multipliers on embeddings, scores, residual branches and logits.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  ReadMlpBias(config, &spec);
  const auto factor = [&config](const char* key) {
    return config.FindNumber(key, 1e-9, 1e9).value_or(1.0);
  };
  spec.embedding_multiplier = static_cast<float>(factor("embedding_multiplier"));
  spec.residual_multiplier = static_cast<float>(factor("residual_multiplier"));
  spec.logit_multiplier = static_cast<float>(1.0 / factor("logits_scaling"));
  const double scale = factor("attention_multiplier");  // replaces 1 / sqrt(D)
  for (MixerSpec& mixer : spec.layers) mixer.score_scale = scale;
}

}  // namespace

const Family& Granite() {
  static constexpr Family kFamily = {
      .model_type = "granite",
      .defaults = {.rope = {.dictionary = RopeDictionary::kOne}, .trained_to_limit = true},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
