// Specs of `hypenet`: both profiles, every key, each refusal.
#include "backends/architectures/hypenet/hypenet_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

// The keys of the published configs.
constexpr std::string_view kPublished = R"json({
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

ModelSpec Plan(std::string_view changes, const char* options = "{}") {
  return HypenetPlan(Edited(kPublished, changes), LoadOptions(options));
}

ModelSpec PlanChunked(std::string_view changes, const char* options = "{}") {
  return HypenetPlan(Edited(kChunked, changes), LoadOptions(options));
}

TEST(HypenetPublishedTest, ReadsEveryKey) {
  const ModelSpec spec = Plan("{}");
  EXPECT_EQ(spec.architecture, "hypenet");
  EXPECT_EQ(spec.context_limit, 1048576);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_FALSE(spec.chunked());
  ASSERT_EQ(spec.layers.size(), 3u);

  const MixerSpec& rnn = spec.layers[0];
  EXPECT_EQ(rnn.kind, MixerKind::kLightning);
  EXPECT_EQ(rnn.position, PositionKind::kRope);
  EXPECT_EQ(rnn.num_heads, 6);
  EXPECT_EQ(rnn.num_kv_heads, 3);
  EXPECT_EQ(rnn.head_dim, 4);
  EXPECT_EQ(rnn.value_dim, 4);
  EXPECT_EQ(rnn.rope.theta, 1e6);
  EXPECT_EQ(rnn.score_scale, 0.5);
  EXPECT_EQ(rnn.qk_norm, QkNorm::kHead);
  EXPECT_TRUE(rnn.output_norm);
  EXPECT_TRUE(rnn.output_gate);
  EXPECT_EQ(rnn.logit_scale, LogitScaleKind::kNone);

  const MixerSpec& attention = spec.layers[1];
  EXPECT_EQ(attention.kind, MixerKind::kFull);
  EXPECT_EQ(attention.position, PositionKind::kNone);
  EXPECT_EQ(attention.num_heads, 4);
  EXPECT_EQ(attention.num_kv_heads, 2);
  EXPECT_EQ(attention.head_dim, 8);
  EXPECT_EQ(attention.qk_norm, QkNorm::kHead);
  EXPECT_TRUE(attention.output_gate);
  EXPECT_FALSE(attention.output_norm);
  EXPECT_EQ(attention.logit_scale, LogitScaleKind::kHype);
  EXPECT_EQ(attention.logit_scale_base, 500.0);
  EXPECT_DOUBLE_EQ(attention.score_scale, 1.0 / std::sqrt(8.0));
}

// The values that the authors' config class gives to absent keys.
TEST(HypenetPublishedTest, Defaults) {
  const ModelSpec spec = Plan(R"({"attn_logits_scaling": "<absent>", "attn_use_rope": "<absent>",
      "attn_use_output_gate": "<absent>", "lightning_use_rope": "<absent>",
      "lightning_nh": "<absent>", "lightning_nkv": "<absent>", "lightning_head_dim": "<absent>",
      "lightning_scale": "<absent>", "lightning_use_qk_norm": "<absent>",
      "lightning_use_output_norm": "<absent>", "lightning_use_output_gate": "<absent>",
      "head_dim": "<absent>"})");
  const MixerSpec& attention = spec.layers[1];
  EXPECT_EQ(attention.position, PositionKind::kRope);
  EXPECT_FALSE(attention.output_gate);
  EXPECT_EQ(attention.logit_scale, LogitScaleKind::kNone);
  EXPECT_EQ(attention.head_dim, 128);
  const MixerSpec& rnn = spec.layers[0];
  EXPECT_EQ(rnn.position, PositionKind::kRope);
  EXPECT_EQ(rnn.num_heads, 4);
  EXPECT_EQ(rnn.num_kv_heads, 2);
  EXPECT_EQ(rnn.head_dim, 128);
  EXPECT_EQ(rnn.qk_norm, QkNorm::kNone);
  EXPECT_FALSE(rnn.output_norm);
  EXPECT_FALSE(rnn.output_gate);
  EXPECT_DOUBLE_EQ(rnn.score_scale, 1.0 / std::sqrt(128.0));
}

TEST(HypenetPublishedTest, LogitScales) {
  const struct {
    const char* changes;
    LogitScaleKind kind;
    double base;
    double factor;
  } cases[] = {
      {R"({"attn_logits_scaling": "hype"})", LogitScaleKind::kHype, 362.0, 1.0},
      {R"({"attn_logits_scaling": "hype 900"})", LogitScaleKind::kHype, 900.0, 1.0},
      {R"({"attn_logits_scaling": "hype 362.5"})", LogitScaleKind::kHype, 362.5, 1.0},
      {R"({"attn_logits_scaling": 1.25})", LogitScaleKind::kNone, 0.0, 1.25},
      {R"({"attn_logits_scaling": null})", LogitScaleKind::kNone, 0.0, 1.0},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.changes);
    const MixerSpec attention = Plan(c.changes).layers[1];
    EXPECT_EQ(attention.logit_scale, c.kind);
    EXPECT_EQ(attention.logit_scale_base, c.base);
    EXPECT_DOUBLE_EQ(attention.score_scale, c.factor / std::sqrt(8.0));
  }
}

TEST(HypenetPublishedTest, LightningScales) {
  EXPECT_EQ(Plan(R"({"lightning_scale": "1/d"})").layers[0].score_scale, 0.25);
  EXPECT_EQ(Plan(R"({"lightning_scale": 1})").layers[0].score_scale, 1.0);
  EXPECT_EQ(Plan(R"({"lightning_scale": "1"})").layers[0].score_scale, 1.0);
}

TEST(HypenetPublishedTest, BothSpellingsOfLightning) {
  EXPECT_EQ(Plan(R"({"mixer_types": ["attn", "attn", "lightning_attn"]})").layers[2].kind,
            MixerKind::kLightning);
}

// Keys that the authors' config class also writes.
TEST(HypenetPublishedTest, KeysOfOtherMixersAndOfTraining) {
  Plan(R"({"gdn_nh": 4, "gdn_use_rope": false, "kda_num_heads": 16, "mamba2_n_groups": 1,
           "loss_fn": "kl_div", "rand_init": false, "fused_ce_loss": true, "shift_labels": true,
           "lightning_conv_size": 4, "lightning_use_short_conv": false, "sliding_window": null,
           "use_sliding_window": false, "training_length": 512})");
}

TEST(HypenetChunkedTest, ReadsEveryKey) {
  const ModelSpec spec = PlanChunked("{}");
  EXPECT_EQ(spec.chunk_size, 64);
  EXPECT_EQ(spec.num_chunks, 100);
  EXPECT_EQ(spec.context_limit, 6400);  // positions end with the table
  ASSERT_EQ(spec.layers.size(), 8u);
  for (const size_t i : {0u, 1u, 6u, 7u}) {
    const MixerSpec& attention = spec.layers[i];
    EXPECT_EQ(attention.kind, MixerKind::kFull) << i;
    EXPECT_EQ(attention.position, PositionKind::kChunkedRope);
    EXPECT_EQ(attention.qk_norm, QkNorm::kHead);
    EXPECT_FALSE(attention.output_gate);
    EXPECT_EQ(attention.logit_scale, LogitScaleKind::kNone);
  }
  for (const size_t i : {2u, 3u, 4u, 5u}) {
    const MixerSpec& rnn = spec.layers[i];
    EXPECT_EQ(rnn.kind, MixerKind::kGatedRnn) << i;
    EXPECT_EQ(rnn.position, PositionKind::kNone);
    EXPECT_EQ(rnn.num_heads, 3);
    EXPECT_EQ(rnn.num_kv_heads, 3);
    EXPECT_EQ(rnn.head_dim, 10);
    EXPECT_EQ(rnn.value_dim, 8);
    EXPECT_EQ(rnn.score_scale, 1.0);
    EXPECT_EQ(rnn.qk_norm, QkNorm::kNone);
    EXPECT_FALSE(rnn.output_gate);
    EXPECT_FALSE(rnn.output_norm);
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

TEST(HypenetChunkedTest, WindowsAndExplicitLayers) {
  const ModelSpec spec = PlanChunked(R"({"num_hidden_layers": 3, "use_qk_norm": false,
      "mixer_types": ["gated-rnn", "attn", "gated-rnn"], "attention_window": 29})");
  EXPECT_EQ(spec.layers[0].kind, MixerKind::kGatedRnn);
  EXPECT_EQ(spec.layers[1].kind, MixerKind::kWindow);
  EXPECT_EQ(spec.layers[1].window, 29);
  EXPECT_EQ(spec.layers[1].position, PositionKind::kChunkedRope);
  EXPECT_EQ(spec.layers[1].qk_norm, QkNorm::kNone);
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
  EXPECT_EQ(Plan("{}", R"({"context_limit": 99})").context_limit, 99);
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

TEST(MiniCpmSalaTest, ReadsEveryKey) {
  std::string why;
  EXPECT_EQ(HypenetFit(Edited(kSala, "{}"), &why), 100);
  const ModelSpec spec = PlanSala("{}");
  EXPECT_EQ(spec.architecture, "minicpm_sala");
  EXPECT_EQ(spec.embedding_multiplier, 10.0f);
  EXPECT_FLOAT_EQ(spec.residual_multiplier, 1.4f / std::sqrt(3.0f));
  EXPECT_EQ(spec.logit_multiplier, 0.25f);
  EXPECT_FALSE(spec.tied_head);

  const MixerSpec& attention = spec.layers[0];
  EXPECT_EQ(attention.kind, MixerKind::kFull);
  EXPECT_EQ(attention.position, PositionKind::kNone);
  EXPECT_EQ(attention.qk_norm, QkNorm::kNone);
  EXPECT_TRUE(attention.output_gate);
  EXPECT_EQ(attention.logit_scale, LogitScaleKind::kNone);
  const MixerSpec& rnn = spec.layers[1];
  EXPECT_EQ(rnn.kind, MixerKind::kLightning);
  EXPECT_EQ(rnn.position, PositionKind::kRope);
  EXPECT_EQ(rnn.num_heads, 6);
  EXPECT_EQ(rnn.qk_norm, QkNorm::kHead);
  EXPECT_TRUE(rnn.output_norm);
  EXPECT_TRUE(rnn.output_gate);

  const ModelSpec silent = PlanSala(
      R"({"qk_norm": "<absent>", "use_output_norm": "<absent>", "use_output_gate": "<absent>",
          "attn_use_output_gate": "<absent>", "attn_use_rope": "<absent>", "scale_emb": "<absent>",
          "mup_denominator": "<absent>", "dim_model_base": "<absent>"})");
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

TEST(MiniCpmSalaTest, SaysWhatIsWrong) {
  const auto expect = [](ls_code code, const char* changes, const char* message,
                         const char* options = "{}") {
    ExpectError(code, std::string(message), [&] { PlanSala(changes, options); });
  };
  expect(LS_UNIMPLEMENTED, R"({"mup_denominator": 32})",
         "m/config.json: mup_denominator must be num_hidden_layers = 3, found 32");
  expect(LS_UNIMPLEMENTED, R"({"mixer_types": ["minicpm4", "attn", "minicpm4"]})",
         "m/config.json: mixer_types must hold minicpm4 and lightning-attn only, found \"attn\" in "
         "layer 1");
  expect(LS_UNIMPLEMENTED, R"({"sparse_config": {"acme": 1}})",
         "m/config.json: sparse_config.acme = 1 is not known to dense attention of minicpm_sala, "
         "and what is not known may change the mathematics");
  expect(LS_UNIMPLEMENTED, R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})",
         "m/config.json: rope_scaling must be null, found {\"factor\":2,\"rope_type\":\"linear\"}");
  expect(LS_UNIMPLEMENTED, R"({"attention_bias": true})",
         "m/config.json: attention_bias must be false, found true");
  expect(LS_UNIMPLEMENTED, R"({"acme": 1})",
         "m/config.json: acme = 1 is not known to the backend hypenet, and what is not known may "
         "change the mathematics");
}

struct Refusal {
  const char* changes;
  ls_code code;
  const char* message;
  const char* options = "{}";
};

class HypenetPublishedErrorTest : public ::testing::TestWithParam<Refusal> {};
class HypenetChunkedErrorTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(HypenetPublishedErrorTest, SaysWhatIsWrong) {
  ExpectError(GetParam().code, std::string(GetParam().message),
              [] { Plan(GetParam().changes, GetParam().options); });
}

TEST_P(HypenetChunkedErrorTest, SaysWhatIsWrong) {
  ExpectError(GetParam().code, std::string(GetParam().message),
              [] { PlanChunked(GetParam().changes, GetParam().options); });
}

constexpr const char* kLogitsScaling =
    "m/config.json: attn_logits_scaling must be null, a number, \"hype\" or \"hype a\" with a "
    "above "
    "1, found ";

INSTANTIATE_TEST_SUITE_P(
    All, HypenetPublishedErrorTest,
    ::testing::Values(
        Refusal{R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]})",
                LS_UNIMPLEMENTED,
                "m/config.json: model_type must be hypenet or minicpm_sala for the backend "
                "hypenet, found "
                "\"qwen3\""},
        Refusal{R"({"hypenet_profile": "v3"})", LS_UNIMPLEMENTED,
                "m/config.json: hypenet_profile must be published or chunked, found \"v3\""},
        Refusal{R"({"mixer_types": "<absent>"})", LS_INVALID_ARGUMENT,
                "m/config.json: mixer_types is missing, expected a list of strings"},
        Refusal{R"({"mixer_types": ["attn"]})", LS_INVALID_ARGUMENT,
                "m/config.json: mixer_types must have num_hidden_layers = 3 items, found 1"},
        Refusal{R"({"mixer_types": ["attn", "gdn", "attn"]})", LS_UNIMPLEMENTED,
                "m/config.json: mixer_types must hold attn and lightning-attn only, "
                "found \"gdn\" in layer 1"},
        Refusal{R"({"mixer_types": ["attn", "attn", "gated-rnn"]})", LS_UNIMPLEMENTED,
                "m/config.json: mixer_types must hold attn and lightning-attn only, "
                "found \"gated-rnn\" in layer 2"},
        Refusal{R"({"attn_logits_scaling": true})", LS_INVALID_ARGUMENT,
                "m/config.json: attn_logits_scaling must be a number from 0 to 1e+06, found true"},
        Refusal{R"({"attn_use_rope": "no"})", LS_INVALID_ARGUMENT,
                "m/config.json: attn_use_rope must be true or false, found \"no\""},
        Refusal{R"({"lightning_use_short_conv": true})", LS_UNIMPLEMENTED,
                "m/config.json: lightning_use_short_conv must be false, found true"},
        Refusal{R"({"lightning_nkv": 4})", LS_INVALID_ARGUMENT,
                "m/config.json: lightning_nkv must divide lightning_nh = 6, found 4"},
        Refusal{R"({"lightning_head_dim": 5})", LS_INVALID_ARGUMENT,
                "m/config.json: lightning_head_dim must be even for RoPE, found 5"},
        Refusal{R"({"lightning_scale": "d"})", LS_UNIMPLEMENTED,
                "m/config.json: lightning_scale must be \"1/sqrt(d)\", \"1/d\" or 1, found \"d\""},
        Refusal{R"({"lightning_scale": 0.5})", LS_UNIMPLEMENTED,
                "m/config.json: lightning_scale must be \"1/sqrt(d)\", \"1/d\" or 1, found 0.5"},
        Refusal{R"({"attention_bias": true})", LS_UNIMPLEMENTED,
                "m/config.json: attention_bias must be false, found true"},
        Refusal{R"({"rope_scaling": {"rope_type": "yarn"}})", LS_UNIMPLEMENTED,
                "m/config.json: rope_scaling must be of the kind default for the backend hypenet, "
                "found {\"rope_type\":\"yarn\"}"},
        Refusal{R"({"chunk_size": 2048})", LS_UNIMPLEMENTED,
                "m/config.json: chunk_size = 2048 is not known to the backend hypenet, and what is "
                "not known may change the mathematics"},
        Refusal{R"({"use_qk_norm": false})", LS_UNIMPLEMENTED,
                "m/config.json: use_qk_norm = false is not known to the backend hypenet, and what "
                "is not known may change the mathematics"},
        Refusal{
            "{}", LS_UNIMPLEMENTED,
            "options: rerope_window is not served by the backend hypenet: its layers are as the "
            "config states them",
            R"({"rerope_window": 8})"},
        Refusal{"{}", LS_UNIMPLEMENTED,
                "options: logn is not served by the backend hypenet: its layers are as the config "
                "states them",
                R"({"logn": "always"})"}));

TEST(HypenetPublishedTest, LogitScalesThatAreNone) {
  for (const std::string value : {"hyper", "hype 1", "hype 0", "hype -5", "hype x", "hype 5 6",
                                  "hype nan", "hype inf", "hype ", "logn", ""}) {
    SCOPED_TRACE(value);
    ExpectError(LS_UNIMPLEMENTED, kLogitsScaling + ("\"" + value + "\""),
                [&value] { Plan(R"({"attn_logits_scaling": ")" + value + R"("})"); });
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HypenetChunkedErrorTest,
    ::testing::Values(
        Refusal{R"({"mixer_types": ["attn"]})", LS_INVALID_ARGUMENT,
                "m/config.json: mixer_types must have num_hidden_layers = 8 items, found 1"},
        Refusal{R"({"num_hidden_layers": 1, "mixer_types": ["lightning-attn"]})", LS_UNIMPLEMENTED,
                "m/config.json: mixer_types must hold attn and gated-rnn only in the chunked "
                "profile, found \"lightning-attn\" in layer 0"},
        Refusal{R"({"rnn_heads": 5})", LS_INVALID_ARGUMENT,
                "m/config.json: rnn_heads must divide hidden_size = 24, found 5"},
        Refusal{R"({"rnn_state_dim": 31})", LS_INVALID_ARGUMENT,
                "m/config.json: rnn_state_dim must be a multiple of rnn_heads = 3, found 31"},
        Refusal{R"({"chunk_size": 0})", LS_INVALID_ARGUMENT,
                "m/config.json: chunk_size must be an integer from 1 to 1073741824, found 0"},
        Refusal{R"({"num_chunks": -1})", LS_INVALID_ARGUMENT,
                "m/config.json: num_chunks must be an integer from 1 to 1073741824, found -1"},
        Refusal{R"({"attention_window": 0})", LS_INVALID_ARGUMENT,
                "m/config.json: attention_window must be an integer from 1 to 1073741824, found 0"},
        Refusal{
            R"({"attn_use_rope": false})", LS_UNIMPLEMENTED,
            "m/config.json: attn_use_rope = false is not known to the backend hypenet, and what "
            "is not known may change the mathematics"},
        Refusal{R"({"lightning_nh": 4})", LS_UNIMPLEMENTED,
                "m/config.json: lightning_nh = 4 is not known to the backend hypenet, and what is "
                "not known may change the mathematics"},
        Refusal{"{}", LS_INVALID_ARGUMENT,
                "options: context_limit must be at most chunk_size * num_chunks = 6400, found 6401",
                R"({"context_limit": 6401})"}));

TEST(HypenetFitTest, ByTypeOrByClass) {
  std::string why;
  EXPECT_EQ(HypenetFit(Edited(kChunked, "{}"), &why), 100);
  EXPECT_EQ(HypenetFit(Edited("{}", R"({"architectures": ["HybridForCausalLM"]})"), &why), 100);
  EXPECT_EQ(HypenetFit(Edited("{}", R"({"architectures": ["HypeNetForCausalLM"],
                                        "model_type": "hybrid"})"),
                       &why),
            100);
  EXPECT_EQ(why, "");
  EXPECT_EQ(HypenetFit(Edited(kLlama, "{}"), &why), 0);
  EXPECT_EQ(why,
            "m/config.json: model_type must be hypenet or minicpm_sala for the backend hypenet, "
            "found \"llama\"");
}

}  // namespace
}  // namespace longstream
