// MPT (MosaicML, 2023): ALiBi; LayerNorm without biases; q, k and v in one tensor; an MLP without a
// gate.
#include "backends/architectures/families/family.h"

namespace longstream::families {
namespace {

void RequireNull(const Config& config, std::string_view key) {
  if (config.Has(key)) config.Unsupported(key, "must be null, found " + config.Found(key));
}

void ReadAttention(const Config& attention, ModelSpec* spec) {
  RequireString(attention, "attn_type", "multihead_attention");
  RequireTrue(attention, "alibi");
  for (const char* key : {"prefix_lm", "qk_ln", "attn_uses_sequence_id"}) {
    RequireFalse(attention, key);
  }
  const std::optional<double> scale = attention.FindNumber("softmax_scale", 1e-9, 1e9);
  const double clip = attention.FindNumber("clip_qkv", 0.0, 1e9).value_or(0.0);
  const std::optional<double> alibi_max = attention.FindNumber("alibi_bias_max", 1.0, 100.0);
  if (alibi_max.value_or(8.0) != 8.0) {
    attention.Warn("alibi_bias_max", "= " + attention.Found("alibi_bias_max") +
                                         " counts, as in the authors' code; transformers takes 8");
  }
  for (MixerSpec& mixer : spec->layers) {
    if (scale) mixer.score_scale = *scale;
    mixer.qkv_clip = clip;
    if (alibi_max) mixer.alibi_max = *alibi_max;
  }
  attention.RefuseUnknown("attention of mpt", {"attn_impl", "attn_pdrop"});
}

void Read(const Config& config, TransformerPlan* plan) {
  ModelSpec& spec = plan->spec;
  SetAlibiAndLayerNorm(config, &spec);
  RequireTrue(config, "no_bias");
  RequireNull(config, "logit_scale");
  // Keys of training, and keys without effect beside ALiBi.
  for (const char* key : {"emb_pdrop", "embedding_fraction", "init_config", "init_device",
                          "learned_pos_emb", "norm_type", "tokenizer_name", "verbose"}) {
    config.Has(key);
  }
  for (MixerSpec& layer : spec.layers) layer.feed_forward = FeedForwardKind::kPlain;
  spec.activation = Activation::kGelu;
  spec.mlp_width = spec.width * config.FindInteger("expansion_ratio", 1, 1024).value_or(4);
  if (const std::optional<Config> attention = config.FindObject("attn_config")) {
    ReadAttention(*attention, &spec);
  }
}

constexpr TensorRoot kRoots[] = {{"transformer.", "lm_head"}};

}  // namespace

const Family& Mpt() {
  static constexpr Family kFamily = {
      .model_type = "mpt",
      .defaults = {.keys = {.width = {"d_model", "hidden_size"},
                            .mlp_width = {"intermediate_size"},
                            .num_layers = {"n_layers", "num_hidden_layers"},
                            .num_heads = {"n_heads", "num_attention_heads"},
                            .context_limit = {"max_seq_len"}},
                   .context_limit = 2048,
                   .mlp_factor = 4,
                   .tied_head = true,
                   .trained_to_limit = true},
      .names = {.roots = kRoots,
                .embedding = "wte",
                .final_norm = "norm_f",
                .layers = "blocks",
                .mixer_norm = "norm_1",
                .q = "attn.Wqkv",
                .k = "attn.Wqkv",
                .v = "attn.Wqkv",
                .out = "attn.out_proj",
                .mlp_norm = "norm_2",
                .gate = "ffn.up_proj",
                .down = "ffn.down_proj"},
      .read = Read};
  return kFamily;
}

}  // namespace longstream::families
