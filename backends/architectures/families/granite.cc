// Granite 3: Llama with multipliers on embeddings, scores, residual branches and logits. Its
// mixtures of experts have all experts of a layer in one tensor, and may have a shared expert.
#include "backends/architectures/families/expert_keys.h"
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void ReadMultipliers(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  ReadAttentionBias(config, &spec);
  const auto factor = [&config](const char* key) {
    return config.FindNumber(key, 1e-9, 1e9).value_or(1.0);
  };
  spec.embedding_multiplier = static_cast<float>(factor("embedding_multiplier"));
  spec.residual_multiplier = static_cast<float>(factor("residual_multiplier"));
  spec.logit_multiplier = static_cast<float>(1.0 / factor("logits_scaling"));
  const double scale = factor("attention_multiplier");  // replaces 1 / sqrt(D)
  for (MixerSpec& mixer : spec.layers) mixer.score_scale = scale;
}

void Read(const Config& config, TransformerPlan* plan) {
  ReadMultipliers(config, plan);
  ReadMlpBias(config, &plan->spec);
}

// The router's softmax is over the chosen experts.
ExpertsSpec ReadGraniteExperts(const Config& config, TransformerPlan* plan) {
  ReadMultipliers(config, plan);
  RequireFalse(config, "mlp_bias");
  ExpertsSpec experts =
      ReadExperts(config, {.num_experts = 8, .num_chosen = 2, .width_key = "intermediate_size"});
  experts.normalise = true;
  RequireExperts(config, experts);
  return experts;
}

void ReadMoe(const Config& config, TransformerPlan* plan) {
  SetExperts(ReadGraniteExperts(config, plan), /*first=*/0, plan);
}

void ReadMoeShared(const Config& config, TransformerPlan* plan) {
  ExpertsSpec experts = ReadGraniteExperts(config, plan);
  experts.shared_width = config.FindInteger("shared_intermediate_size", 0, kMaxWidth).value_or(0);
  if (experts.shared_width > 0) experts.shared = SharedExpert::kPlain;
  SetExperts(experts, /*first=*/0, plan);
}

constexpr TransformerDefaults kDefaults = {.rope = {.dictionary = RopeDictionary::kOne},
                                           .trained_to_limit = true};
constexpr TensorNames kMoeNames = {.experts = {.router = "block_sparse_moe.router.layer",
                                               .gate = "block_sparse_moe.input_linear",
                                               .up = "block_sparse_moe.input_linear",
                                               .down = "block_sparse_moe.output_linear",
                                               .stacked = true,
                                               .shared_gate = "shared_mlp.input_linear",
                                               .shared_up = "shared_mlp.input_linear",
                                               .shared_down = "shared_mlp.output_linear"}};

}  // namespace

const Family& Granite() {
  static constexpr Family kFamily = {.model_type = "granite", .defaults = kDefaults, .read = Read};
  return kFamily;
}

const Family& GraniteMoe() {
  static constexpr Family kFamily = {
      .model_type = "granitemoe", .defaults = kDefaults, .names = kMoeNames, .read = ReadMoe};
  return kFamily;
}

const Family& GraniteMoeShared() {
  static constexpr Family kFamily = {.model_type = "granitemoeshared",
                                     .defaults = kDefaults,
                                     .names = kMoeNames,
                                     .read = ReadMoeShared};
  return kFamily;
}

}  // namespace longstream::families
