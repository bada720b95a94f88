// MiniCPM-SALA (OpenBMB, 2026): HypeNet's layers with the multipliers of MiniCPM. Beyond dense_len
// tokens its attention layers select blocks of keys (InfLLM v2); the selection is not served.
#include <algorithm>
#include <cmath>

#include "backends/architectures/hypenet/hypenet_plan.h"
#include "backends/architectures/transformer/transformer_plan.h"

namespace longstream {
namespace {

constexpr LightningDialect kDialect = {.attention = "minicpm4",
                                       .lightning = "lightning",
                                       .attention_qk_norm = false,
                                       .attention_rope = false,
                                       .used = true,
                                       .qk_norm = "qk_norm",
                                       .output_norm = "use_output_norm",
                                       .output_gate = "use_output_gate"};

// Embeddings are multiplied by scale_emb, branches by scale_depth / sqrt(L), logits by
// dim_model_base / d. L is num_hidden_layers, also if mup_denominator is another number.
void ReadMultipliers(const Config& config, ModelSpec* spec) {
  const auto layers = static_cast<int64_t>(spec->layers.size());
  const double embedding = config.FindNumber("scale_emb", 1e-9, 1e9).value_or(12.0);
  const double depth = config.FindNumber("scale_depth", 1e-9, 1e9).value_or(1.4);
  const double base = config.FindNumber("dim_model_base", 1.0, 1e9).value_or(256.0);
  spec->embedding_multiplier = static_cast<float>(embedding);
  spec->residual_multiplier = static_cast<float>(depth / std::sqrt(static_cast<double>(layers)));
  spec->logit_multiplier = static_cast<float>(base / static_cast<double>(spec->width));
}

// The context ends where attention would become sparse, unless an option asks for a longer one.
void LimitToDense(const Config& config, const LoadOptions& options, ModelSpec* spec) {
  const std::optional<Config> sparse = config.FindObject("sparse_config");
  if (!sparse) return;
  const std::optional<int64_t> dense = sparse->FindInteger("dense_len", 1, kMaxPositions);
  if (dense && !options.context_limit()) {
    spec->context_limit = std::min(spec->context_limit, *dense);
  }
  sparse->RefuseUnknown("dense attention of minicpm_sala",
                        {"block_size", "init_blocks", "kernel_size", "kernel_stride", "topk",
                         "use_nope", "window_size"});
}

}  // namespace

ModelSpec MiniCpmSalaPlan(const Config& config, const LoadOptions& options) {
  options.RefuseOverridesBut({}, "hypenet", "its layers are as the config states them");
  ModelSpec spec = ReadTransformer(config, options, "minicpm_sala", {.head_dim = 128}).spec;
  RequireFalse(config, "attention_bias");
  if (spec.layers.front().rope != RopeSpec{.theta = spec.layers.front().rope.theta}) {
    config.Unsupported("rope_scaling", "must be null, found " + config.Found("rope_scaling"));
  }
  PublishedLayers(config, kDialect, &spec);
  ReadMultipliers(config, &spec);
  LimitToDense(config, options, &spec);
  // The authors' model does not read mup_denominator. Draft models for speculative decoding do.
  config.RefuseUnknown("the backend hypenet", {"mup_denominator", "rand_init"});
  return spec;
}

}  // namespace longstream
