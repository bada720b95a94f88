// BLOOM (arXiv 2211.05100): ALiBi; LayerNorm with biases, also behind the embedding; q, k and v
// head by head in one tensor; an MLP without a gate.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

constexpr int64_t kTrainedLength = 2048;  // of all released models; their configs do not state it

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  RequireFalse(config, "apply_residual_connection_post_layernorm");
  // These keys select another way to compute the same numbers.
  for (const char* key :
       {"attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
        "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact"}) {
    config.Has(key);
  }
  SetAlibiAndLayerNorm(config, &spec);
  spec.norm_bias = spec.mlp_bias = true;
  for (MixerSpec& layer : spec.layers) layer.feed_forward = FeedForwardKind::kPlain;
  spec.activation = Activation::kGeluTanh;
  for (MixerSpec& mixer : spec.layers) mixer.qkv_bias = mixer.output_bias = true;
}

constexpr TensorRoot kRoots[] = {{"transformer.", "lm_head"}, {"", "lm_head"}};

}  // namespace

const Family& Bloom() {
  static constexpr Family kFamily = {
      .model_type = "bloom",
      .defaults = {.keys = {.width = {"n_embed", "hidden_size"},
                            .mlp_width = {"n_inner"},
                            .num_layers = {"n_layer", "num_hidden_layers"},
                            .num_heads = {"n_head", "num_attention_heads"},
                            .context_limit = {"seq_length"}},
                   .context_limit = kTrainedLength,
                   .mlp_factor = 4,
                   .tied_head = true,
                   .trained_to_limit = true},
      .names = {.roots = kRoots,
                .embedding = "word_embeddings",
                .embedding_norm = "word_embeddings_layernorm",
                .final_norm = "ln_f",
                .layers = "h",
                .q = "self_attention.query_key_value",
                .qkv_by_head = true,
                .out = "self_attention.dense",
                .gate = "mlp.dense_h_to_4h",
                .down = "mlp.dense_4h_to_h"},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
