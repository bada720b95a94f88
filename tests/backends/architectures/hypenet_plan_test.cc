// Specs of `hypenet`: defaults of both profiles, the published sizes, each refusal. The logits of
// tests/golden test the keys that a config states.
#include "backends/architectures/hypenet/hypenet_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

// The keys of the published configs.
constexpr std::string_view kPublishedConfig = R"json({
    "architectures": ["HypeNetForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "attn_logits_scaling": "hype 500", "attn_use_rope": false, "attn_use_output_gate": true,
    "bos_token_id": 151643, "eos_token_id": 151645, "expand_kv_proj": true, "head_dim": 8,
    "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
    "lightning_use_rope": true, "lightning_rope_scaling": null, "lightning_nh": 6,
    "lightning_nkv": 3, "lightning_head_dim": 4, "lightning_scale": "1/sqrt(d)",
    "lightning_use_qk_norm": true, "lightning_use_output_norm": true,
    "lightning_use_output_gate": true, "max_position_embeddings": 1048576,
    "mixer_types": ["lightning-attn", "attn", "lightning-attn"], "model_type": "hypenet",
    "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.57.6",
    "use_cache": true, "vocab_size": 61})json";

constexpr std::string_view kChunked = R"({
    "model_type": "hypenet", "hypenet_profile": "chunked", "vocab_size": 61, "hidden_size": 24,
    "intermediate_size": 40, "num_hidden_layers": 8, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 100000,
    "chunk_size": 64, "num_chunks": 100, "rnn_heads": 3, "rnn_state_dim": 30})";

ModelSpec PlanOfPublished(std::string_view changes, const char* options = "{}") {
  return HypenetPlan(Edited(kPublishedConfig, changes), LoadOptions(options));
}

ModelSpec PlanChunked(std::string_view changes, const char* options = "{}") {
  return HypenetPlan(Edited(kChunked, changes), LoadOptions(options));
}

// The values that the authors' config class gives to absent keys.
TEST(HypenetPublishedTest, Defaults) {
  const ModelSpec spec =
      PlanOfPublished(R"({"attn_logits_scaling": "<absent>", "head_dim": "<absent>",
      "lightning_nh": "<absent>", "lightning_nkv": "<absent>", "lightning_head_dim": "<absent>"})");
  const MixerSpec& attention = spec.layers[1];
  EXPECT_EQ(attention.logit_scale, LogitScaleKind::kNone);
  EXPECT_EQ(attention.head_dim, 128);
  const MixerSpec& rnn = spec.layers[0];
  EXPECT_EQ(rnn.num_heads, 4);
  EXPECT_EQ(rnn.num_kv_heads, 2);
  EXPECT_EQ(rnn.head_dim, 128);
  EXPECT_DOUBLE_EQ(rnn.score_scale, 1.0 / std::sqrt(128.0));
}

TEST(HypenetPublishedTest, OtherSpellings) {
  EXPECT_EQ(PlanOfPublished(R"({"lightning_scale": "1"})").layers[0].score_scale, 1.0);
  const char* fraction = R"({"attn_logits_scaling": "hype 362.5"})";
  EXPECT_EQ(PlanOfPublished(fraction).layers[1].logit_scale_base, 362.5);
}

TEST(HypenetPublishedTest, BothSpellingsOfLightning) {
  EXPECT_EQ(
      PlanOfPublished(R"({"mixer_types": ["attn", "attn", "lightning_attn"]})").layers[2].kind,
      MixerKind::kLightning);
}

// Keys that the authors' config class also writes.
TEST(HypenetPublishedTest, KeysOfOtherMixersAndOfTraining) {
  PlanOfPublished(R"({"gdn_nh": 4, "gdn_use_rope": false, "kda_num_heads": 16, "mamba2_n_groups": 1,
           "loss_fn": "kl_div", "rand_init": false, "fused_ce_loss": true, "shift_labels": true,
           "lightning_conv_size": 4, "lightning_use_short_conv": false, "sliding_window": null,
           "use_sliding_window": false, "training_length": 512})");
}

// The three published sizes (arXiv 2601.22156).
struct Size {
  const char* name;
  int layers;
  int width;
  int mlp;
  int heads;
  std::vector<int> attention;  // the layers of attention
  int hype;
};

const Size kSizes[] = {
    {"2B", 28, 2048, 6144, 16, {2, 3, 6, 8, 9, 21, 25}, 500},
    {"5B", 36, 2560, 9728, 32, {0, 1, 7, 14, 15, 22, 24, 31, 33}, 600},
    {"9B", 36, 4096, 12288, 32, {1, 2, 4, 6, 7, 10, 24, 33, 34}, 900},
};

// The keys in which a size differs from kPublishedConfig.
nlohmann::json ChangesOf(const Size& size) {
  nlohmann::json mixers(static_cast<size_t>(size.layers), "lightning-attn");
  for (const int layer : size.attention) mixers[static_cast<size_t>(layer)] = "attn";
  return {{"mixer_types", mixers},
          {"num_hidden_layers", size.layers},
          {"hidden_size", size.width},
          {"intermediate_size", size.mlp},
          {"num_attention_heads", size.heads},
          {"lightning_nh", size.heads},
          {"lightning_nkv", size.heads},
          {"num_key_value_heads", 8},
          {"attn_logits_scaling", "hype " + std::to_string(size.hype)},
          {"head_dim", 128},
          {"lightning_head_dim", 128}};
}

TEST(HypenetPublishedTest, Sizes) {
  for (const Size& size : kSizes) {
    SCOPED_TRACE(size.name);
    const ModelSpec spec = PlanOfPublished(ChangesOf(size).dump());
    EXPECT_EQ(spec.width, size.width);
    EXPECT_EQ(spec.mlp_width, size.mlp);
    ASSERT_EQ(spec.layers.size(), static_cast<size_t>(size.layers));
    std::vector<int> attention;
    for (int layer = 0; layer < size.layers; ++layer) {
      const MixerSpec& mixer = spec.layers[static_cast<size_t>(layer)];
      EXPECT_EQ(mixer.num_heads, size.heads);
      const bool lightning = mixer.kind == MixerKind::kLightning;
      EXPECT_EQ(mixer.num_kv_heads, lightning ? size.heads : 8);
      EXPECT_EQ(mixer.head_dim, 128);
      if (lightning) continue;
      attention.push_back(layer);
      EXPECT_EQ(mixer.logit_scale_base, size.hype);
    }
    EXPECT_EQ(attention, size.attention);
  }
}

TEST(HypenetChunkedTest, Defaults) {
  const ModelSpec spec = PlanChunked(R"({"chunk_size": "<absent>", "num_chunks": "<absent>",
      "rnn_heads": "<absent>", "rnn_state_dim": "<absent>", "head_dim": "<absent>"})");
  EXPECT_EQ(spec.chunk_size, 2048);
  EXPECT_EQ(spec.num_chunks, 10000);
  EXPECT_EQ(spec.context_limit, 100000);
  EXPECT_EQ(spec.layers[0].head_dim, 4);
  EXPECT_EQ(spec.layers[2].num_heads, 1);
  EXPECT_EQ(spec.layers[2].head_dim, 12);
  EXPECT_EQ(spec.layers[2].value_dim, 24);
}

TEST(HypenetChunkedTest, LayersOfAnyNumber) {
  // [0, L/4) and [3L/4, L), both rounded down.
  const auto kinds = [](int layers) {
    std::string text;
    const std::string changes = "{\"num_hidden_layers\": " + std::to_string(layers) + "}";
    for (const MixerSpec& mixer : PlanChunked(changes).layers) {
      text += mixer.kind == MixerKind::kGatedRnn ? 'r' : 'a';
    }
    return text;
  };
  EXPECT_EQ(kinds(1), "a");
  EXPECT_EQ(kinds(4), "arra");
  EXPECT_EQ(kinds(7), "arrrraa");
  EXPECT_EQ(kinds(10), "aarrrrraaa");
}

TEST(HypenetPlanTest, ContextLimitOption) {
  EXPECT_EQ(PlanOfPublished("{}", R"({"context_limit": 99})").context_limit, 99);
  // Positions end with the table of chunks.
  EXPECT_EQ(PlanChunked("{}").context_limit, 6400);
  EXPECT_EQ(PlanChunked("{}", R"({"context_limit": 6400})").context_limit, 6400);
}

// MiniCPM-SALA's keys, with the first and last layers of the released model.
constexpr std::string_view kSala = R"json({
    "architectures": ["MiniCPMSALAForCausalLM"], "attention_bias": false, "attn_use_rope": false,
    "attn_use_output_gate": true, "dim_model_base": 8, "head_dim": 8, "hidden_act": "silu",
    "hidden_size": 32, "intermediate_size": 48, "lightning_head_dim": 4, "lightning_nh": 6,
    "lightning_nkv": 6, "lightning_scale": "1/sqrt(d)", "lightning_use_rope": true,
    "max_position_embeddings": 524288, "mixer_types": ["minicpm4", "lightning-attn", "minicpm4"],
    "model_type": "minicpm_sala", "mup_denominator": 3, "num_attention_heads": 4,
    "num_hidden_layers": 3, "num_key_value_heads": 2, "qk_norm": true, "rand_init": false,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000.0, "scale_depth": 1.4,
    "scale_emb": 10, "sparse_config": {"kernel_size": 32, "kernel_stride": 16, "init_blocks": 1,
        "block_size": 64, "window_size": 2048, "topk": 64, "use_nope": false, "dense_len": 8192},
    "tie_word_embeddings": false, "use_output_gate": true, "use_output_norm": true,
    "vocab_size": 61})json";

ModelSpec PlanSala(std::string_view changes, const char* options = "{}") {
  return HypenetPlan(Edited(kSala, changes), LoadOptions(options));
}

// The golden minicpm_sala has these keys with their defaults. It tests the other ones.
TEST(MiniCpmSalaTest, ReadsMultipliers) {
  const ModelSpec spec = PlanSala("{}");
  EXPECT_EQ(spec.embedding_multiplier, 10.0f);
  EXPECT_FLOAT_EQ(spec.residual_multiplier, 1.4f / std::sqrt(3.0f));
  EXPECT_EQ(spec.logit_multiplier, 0.25f);
}

// The authors' code of MiniCPM-SALA reads a third spelling.
TEST(MiniCpmSalaTest, AllSpellingsOfLightning) {
  const ModelSpec spec =
      PlanSala(R"({"mixer_types": ["lightning", "lightning_attn", "lightning-attn"]})");
  for (const MixerSpec& mixer : spec.layers) EXPECT_EQ(mixer.kind, MixerKind::kLightning);
}

// Branches are scaled by the number of layers, as in the authors' code.
TEST(MiniCpmSalaTest, MupDenominatorHasNoEffect) {
  for (const char* changes : {R"({"mup_denominator": 32})", R"({"mup_denominator": null})",
                              R"({"mup_denominator": "<absent>"})"}) {
    EXPECT_FLOAT_EQ(PlanSala(changes).residual_multiplier, 1.4f / std::sqrt(3.0f)) << changes;
  }
}

TEST(MiniCpmSalaTest, Defaults) {
  std::string why;
  EXPECT_EQ(HypenetFit(Edited(kSala, "{}"), &why), 100);
  const ModelSpec silent = PlanSala(
      R"({"qk_norm": "<absent>", "use_output_norm": "<absent>", "use_output_gate": "<absent>",
          "attn_use_output_gate": "<absent>", "attn_use_rope": "<absent>", "scale_emb": "<absent>",
          "dim_model_base": "<absent>"})");
  EXPECT_EQ(silent.layers[1].qk_norm, QkNorm::kHead);
  EXPECT_TRUE(silent.layers[1].output_norm);
  EXPECT_TRUE(silent.layers[1].output_gate && silent.layers[0].output_gate);
  EXPECT_EQ(silent.layers[0].position, PositionKind::kNone);
  EXPECT_EQ(silent.embedding_multiplier, 12.0f);
  EXPECT_EQ(silent.logit_multiplier, 8.0f);
}

// The context ends where its attention would become sparse, unless an option asks for more.
TEST(MiniCpmSalaTest, IsDense) {
  EXPECT_EQ(PlanSala("{}").context_limit, 8192);
  EXPECT_EQ(PlanSala("{}", R"({"context_limit": 20000})").context_limit, 20000);
  EXPECT_EQ(PlanSala(R"({"sparse_config": "<absent>"})").context_limit, 524288);
  EXPECT_EQ(PlanSala(R"({"max_position_embeddings": 4096})").context_limit, 4096);
}

const Refusal kSalaOtherMathematics[] = {
    {R"({"mixer_types": ["minicpm4", "attn", "minicpm4"]})",
     "mixer_types must hold minicpm4 and lightning-attn only, found \"attn\" in layer 1"},
    {R"({"sparse_config": {"acme": 1}})",
     NotKnown("sparse_config.acme = 1", "dense attention of minicpm_sala")},
    {R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})",
     "rope_scaling must be null, found {\"factor\":2,\"rope_type\":\"linear\"}"},
    {R"({"attention_bias": true})", "attention_bias must be false, found true"},
    {R"({"acme": 1})", NotKnown("acme = 1", "the backend hypenet")},
};

TEST(MiniCpmSalaTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_UNIMPLEMENTED, kSalaOtherMathematics, PlanSala);
}

const Refusal kPublishedWrongValues[] = {
    {R"({"mixer_types": "<absent>"})", "mixer_types is missing, expected a list of strings"},
    {R"({"mixer_types": ["attn"]})", "mixer_types must have num_hidden_layers = 3 items, found 1"},
    {R"({"attn_logits_scaling": true})",
     "attn_logits_scaling must be a number from 0 to 1e+06, found true"},
    {R"({"attn_use_rope": "no"})", "attn_use_rope must be true or false, found \"no\""},
    {R"({"lightning_nkv": 4})", "lightning_nkv must divide lightning_nh = 6, found 4"},
    {R"({"lightning_head_dim": 5})", "lightning_head_dim must be even for RoPE, found 5"},
};

const Refusal kPublishedOtherMathematics[] = {
    {R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]})",
     "model_type must be hypenet or minicpm_sala for the backend hypenet, found \"qwen3\""},
    {R"({"hypenet_profile": "v3"})", "hypenet_profile must be published or chunked, found \"v3\""},
    {R"({"mixer_types": ["attn", "lightning", "attn"]})",
     "mixer_types must hold attn and lightning-attn only, found \"lightning\" in layer 1"},
    {R"({"mixer_types": ["attn", "gdn", "attn"]})",
     "mixer_types must hold attn and lightning-attn only, found \"gdn\" in layer 1"},
    {R"({"mixer_types": ["attn", "attn", "gated-rnn"]})",
     "mixer_types must hold attn and lightning-attn only, found \"gated-rnn\" in layer 2"},
    {R"({"mixer_types": ["attn", "", "attn"]})",
     "mixer_types must hold attn and lightning-attn only, found \"\" in layer 1"},
    {R"({"lightning_use_short_conv": true})", "lightning_use_short_conv must be false, found true"},
    {R"({"lightning_scale": "d"})",
     "lightning_scale must be \"1/sqrt(d)\", \"1/d\" or 1, found \"d\""},
    {R"({"lightning_scale": 0.5})",
     "lightning_scale must be \"1/sqrt(d)\", \"1/d\" or 1, found 0.5"},
    {R"({"attention_bias": true})", "attention_bias must be false, found true"},
    {R"({"rope_scaling": {"rope_type": "yarn"}})",
     "rope_scaling must be of the kind default for the backend hypenet, found "
     "{\"rope_type\":\"yarn\"}"},
    {R"({"chunk_size": 2048})", NotKnown("chunk_size = 2048", "the backend hypenet")},
    {R"({"use_qk_norm": false})", NotKnown("use_qk_norm = false", "the backend hypenet")},
    {"{}",
     "options: rerope_window is not served by the backend hypenet: its layers are as the config "
     "states them",
     R"({"rerope_window": 8})"},
    {"{}",
     "options: logn is not served by the backend hypenet: its layers are as the config states them",
     R"({"logn": "always"})"},
};

TEST(HypenetPublishedTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kPublishedWrongValues, PlanOfPublished);
  ExpectRefusals(LS_UNIMPLEMENTED, kPublishedOtherMathematics, PlanOfPublished);
}

TEST(HypenetPublishedTest, LogitScalesThatAreNone) {
  for (const std::string value : {"hyper", "hype 1", "hype 0", "hype -5", "hype x", "hype 5 6",
                                  "hype nan", "hype inf", "hype ", "logn", ""}) {
    SCOPED_TRACE(value);
    ExpectError(LS_UNIMPLEMENTED,
                "m/config.json: attn_logits_scaling must be null, a number, \"hype\" or \"hype a\" "
                "with a above 1, found \"" +
                    value + "\"",
                [&value] { PlanOfPublished(R"({"attn_logits_scaling": ")" + value + R"("})"); });
  }
}

const Refusal kChunkedWrongValues[] = {
    {R"({"mixer_types": ["attn"]})", "mixer_types must have num_hidden_layers = 8 items, found 1"},
    {R"({"rnn_heads": 5})", "rnn_heads must divide hidden_size = 24, found 5"},
    {R"({"rnn_state_dim": 31})", "rnn_state_dim must be a multiple of rnn_heads = 3, found 31"},
    {R"({"chunk_size": 0})", "chunk_size must be an integer from 1 to 1073741824, found 0"},
    {R"({"num_chunks": -1})", "num_chunks must be an integer from 1 to 1073741824, found -1"},
    {R"({"attention_window": 0})",
     "attention_window must be an integer from 1 to 1073741824, found 0"},
    {"{}", "options: context_limit must be at most chunk_size * num_chunks = 6400, found 6401",
     R"({"context_limit": 6401})"},
};

const Refusal kChunkedOtherMathematics[] = {
    {R"({"num_hidden_layers": 1, "mixer_types": ["lightning-attn"]})",
     "mixer_types must hold attn and gated-rnn only in the chunked profile, found "
     "\"lightning-attn\" in layer 0"},
    {R"({"num_hidden_layers": 1, "mixer_types": [""]})",
     "mixer_types must hold attn and gated-rnn only in the chunked profile, found \"\" in layer 0"},
    {R"({"attn_use_rope": false})", NotKnown("attn_use_rope = false", "the backend hypenet")},
    {R"({"lightning_nh": 4})", NotKnown("lightning_nh = 4", "the backend hypenet")},
};

TEST(HypenetChunkedTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kChunkedWrongValues, PlanChunked);
  ExpectRefusals(LS_UNIMPLEMENTED, kChunkedOtherMathematics, PlanChunked);
}

TEST(HypenetFitTest, ByTypeOrByClass) {
  std::string why;
  EXPECT_EQ(HypenetFit(Edited(kChunked, "{}"), &why), 100);
  EXPECT_EQ(HypenetFit(Edited("{}", R"({"architectures": ["HybridForCausalLM"]})"), &why), 100);
  for (const char* name : {"HypeNetForCausalLM", "HybridForCausalLM"}) {
    const std::string changes =
        R"({"model_type": "hybrid", "architectures": [")" + std::string(name) + "\"]}";
    EXPECT_EQ(HypenetFit(Edited(kPublishedConfig, changes), &why), 100) << name;
    EXPECT_EQ(HypenetPlan(Edited(kPublishedConfig, changes), LoadOptions("{}")).layers.size(), 3u);
  }
  EXPECT_EQ(why, "");
  EXPECT_EQ(HypenetFit(Edited(kLlama, "{}"), &why), 0);
  EXPECT_EQ(why,
            "m/config.json: model_type must be hypenet or minicpm_sala for the backend hypenet, "
            "found \"llama\"");
}

}  // namespace
}  // namespace longstream
