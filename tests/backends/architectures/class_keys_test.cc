// Keys that count otherwise in a family's class of transformers 5 than their names say, or than
// they do in other families. tools/golden/config_parity.py compares every key with transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/architectures/families/family.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A config of four layers for 8192 positions that states neither RoPE nor activation.
Config BareConfigOf(const std::string& family, std::string_view changes) {
  const std::string base =
      EditedText(kLlama, R"({"num_hidden_layers": 4, "max_position_embeddings": 8192, "rope_theta":
                             "<absent>", "head_dim": 12, "model_type": ")" +
                             family + R"("})");
  return Edited(base, changes);
}

ModelSpec PlanOfClass(const std::string& family, std::string_view changes) {
  return Hwfa2Plan(BareConfigOf(family, changes), LoadOptions("{}"));
}

// The RoPE of the last layer, which is full attention, and of the first one, which is a window in
// some families.
struct Rope {
  const char* family;
  const char* changes;
  RopeSpec last;
  RopeSpec first;
};

const Rope kRopes[] = {
    {"cohere", "{}", {.theta = 5e5, .neighbours = true}, {.theta = 5e5, .neighbours = true}},
    {"cohere",
     R"({"rope_parameters": {"rope_theta": 7e5}})",
     {.theta = 7e5, .neighbours = true},
     {.theta = 7e5, .neighbours = true}},
    // Files that release 4 wrote have its defaults.
    {"cohere",
     R"({"transformers_version": "4.40.0"})",
     {.theta = 1e4, .neighbours = true},
     {.theta = 1e4, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "4"})",
     {.theta = 1e4, .neighbours = true},
     {.theta = 1e4, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "4.40.0", "rope_theta": 7e5})",
     {.theta = 7e5, .neighbours = true},
     {.theta = 7e5, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "5.0.0.dev0"})",
     {.theta = 5e5, .neighbours = true},
     {.theta = 5e5, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "10.0"})",
     {.theta = 5e5, .neighbours = true},
     {.theta = 5e5, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": 4.4})",
     {.theta = 5e5, .neighbours = true},
     {.theta = 5e5, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "4x"})",
     {.theta = 5e5, .neighbours = true},
     {.theta = 5e5, .neighbours = true}},
    {"cohere",
     R"({"transformers_version": "99999999999.0"})",
     {.theta = 5e5, .neighbours = true},
     {.theta = 5e5, .neighbours = true}},
    {"olmo3", R"({"transformers_version": "4.57.1"})", {.theta = 1e4}, {.theta = 1e4}},
    {"olmo3",
     R"({"transformers_version": "4.57.1", "rope_theta": 5e5})",
     {.theta = 5e5},
     {.theta = 5e5}},
    {"smollm3", R"({"transformers_version": "4.57.1"})", {.theta = 2e6}, {.theta = 2e6}},
    {"cohere2",
     R"({"sliding_window": 96, "layer_types": ["sliding_attention",
         "sliding_attention", "sliding_attention", "sliding_attention"]})",
     {.theta = 1e4, .neighbours = true},
     {.theta = 1e4, .neighbours = true}},
    {"llama", "{}", {.theta = 1e4}, {.theta = 1e4}},
    // Only the classes of glm and phi3 rotate a part of a head.
    {"llama", R"({"partial_rotary_factor": 0.5})", {.theta = 1e4}, {.theta = 1e4}},
    {"qwen3",
     R"({"rope_parameters": {"partial_rotary_factor": 0.5}})",
     {.theta = 1e4},
     {.theta = 1e4}},
    {"llama", R"({"partial_rotary_factor": NaN})", {.theta = 1e4}, {.theta = 1e4}},
    {"phi3",
     R"({"partial_rotary_factor": 0.5})",
     {.theta = 1e4, .rotated = 6},
     {.theta = 1e4, .rotated = 6}},
    {"glm",
     "{}",
     {.theta = 1e4, .rotated = 6, .neighbours = true},
     {.theta = 1e4, .rotated = 6, .neighbours = true}},
    {"glm",
     R"({"partial_rotary_factor": null})",
     {.theta = 1e4, .neighbours = true},
     {.theta = 1e4, .neighbours = true}},
    // Where each layer type has a RoPE, keys beside the dictionary count for one of them.
    {"gemma3_text", R"({"rope_theta": 5e5})", {.theta = 5e5}, {.theta = 1e4}},
    {"gemma3_text",
     R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})",
     {.theta = 1e6},
     {.theta = 1e4}},
    {"gemma3_text",
     R"({"rope_local_base_freq": 3e4, "rope_parameters": {}})",
     {.theta = 1e6},
     {.theta = 3e4}},
    {"gemma3_text",
     R"({"rope_local_base_freq": 3e4, "rope_theta": 7e5, "rope_parameters": {
         "sliding_attention": {"rope_theta": 2e4}}})",
     {.theta = 7e5},
     {.theta = 2e4}},
    {"olmo3", "{}", {.theta = 5e5}, {.theta = 5e5}},
    {"olmo3",
     R"({"rope_theta": 7e5, "rope_parameters": {
         "sliding_attention": {"rope_theta": 3e4}}})",
     {.theta = 7e5},
     {.theta = 3e4}},
};

TEST(ClassKeysTest, Rope) {
  for (const Rope& row : kRopes) {
    SCOPED_TRACE(std::string(row.family) + " " + row.changes);
    std::string changes = row.changes;
    if (std::string_view(row.family) == "gemma3_text") {
      changes.insert(1,
                     R"("sliding_window_pattern": 4)" + std::string(changes == "{}" ? "" : ", "));
    }
    const ModelSpec spec = PlanOfClass(row.family, changes);
    EXPECT_EQ(spec.layers.back().rope, row.last);
    EXPECT_EQ(spec.layers.front().rope, row.first);
  }
}

TEST(ClassKeysTest, LongRopeOfPhi3BeginsAt4096) {
  const char* scaling = R"({"max_position_embeddings": 4096, "rope_scaling": {"type": "yarn",
      "short_factor": [1, 1, 1, 1, 1, 1], "long_factor": [4, 4, 4, 4, 4, 4]}})";
  EXPECT_EQ(PlanOfClass("phi3", scaling).layers[0].rope.inv_freq[0], 1.0);
  const std::string longer = EditedText(scaling, R"({"max_position_embeddings": 4097})");
  EXPECT_EQ(PlanOfClass("phi3", longer).layers[0].rope.inv_freq[0], 0.25);
}

struct Acts {
  const char* family;
  const char* changes;
  Activation activation;
};

const Acts kActivations[] = {
    {"gemma", R"({"hidden_act": "silu"})", Activation::kSilu},
    {"gemma", R"({"hidden_activation": "silu"})", Activation::kGeluTanh},
    {"gemma", R"({"hidden_act": "gelu"})", Activation::kGeluTanh},
    {"gemma2", R"({"hidden_act": "silu"})", Activation::kGeluTanh},
    {"gemma2", R"({"hidden_act": "silu", "hidden_activation": "gelu"})", Activation::kGelu},
    {"gemma3_text", R"({"hidden_act": "silu"})", Activation::kGeluTanh},
    {"gemma3_text", R"({"hidden_activation": "silu"})", Activation::kSilu},
};

TEST(ClassKeysTest, Activations) {
  for (const Acts& row : kActivations) {
    EXPECT_EQ(PlanOfClass(row.family, row.changes).activation, row.activation)
        << row.family << " " << row.changes;
  }
}

TEST(ClassKeysTest, AbsentWindows) {
  const auto window = [](const char* family, const char* changes) {
    return PlanOfClass(family, changes).layers[3].window;
  };
  const char* absent = R"({"use_sliding_window": true, "max_window_layers": 1})";
  const char* null = R"({"use_sliding_window": true, "max_window_layers": 1,
                         "sliding_window": null})";
  for (const char* family : {"qwen2", "qwen3"}) {
    EXPECT_EQ(window(family, absent), 4096) << family;
    EXPECT_EQ(window(family, null), 0) << family;
  }
  EXPECT_EQ(window("smollm3", absent), 0);
}

struct Warned {
  const char* family;
  const char* changes;
  const char* warning;  // after "m/config.json: "; "": none
};

const Warned kWarnings[] = {
    {"cohere", R"({"transformers_version": "4.40.0"})",
     "rope_theta is absent and counts as 10000, because the file names release \"4.40.0\" of "
     "transformers; from release 5 on it is 500000"},
    {"olmo3", R"({"transformers_version": "4.57.1"})",
     "rope_theta is absent and counts as 10000, because the file names release \"4.57.1\" of "
     "transformers; from release 5 on it is 500000"},
    {"cohere", R"({"transformers_version": "main"})",
     "rope_theta is absent and counts as 500000, as in transformers from release 5 on; earlier "
     "releases take 10000"},
    {"olmo3", "{}",
     "rope_theta is absent and counts as 500000, as in transformers from release 5 on; earlier "
     "releases take 10000"},
    {"cohere", R"({"transformers_version": "5.0.0.dev0"})", ""},
    {"cohere", R"({"transformers_version": "10.0"})", ""},
    {"cohere", R"({"transformers_version": "4.40.0", "rope_theta": 1e4})", ""},
    {"cohere", R"({"transformers_version": "4.40.0", "rope_parameters": {"rope_theta": 1e4}})", ""},
    {"llama", R"({"transformers_version": "4.40.0", "partial_rotary_factor": 1.0})", ""},
    {"llama", R"({"partial_rotary_factor": 0.5})",
     "keys that are not known to the backend hwfa2 are ignored: partial_rotary_factor"},
    {"llama", R"({"rope_parameters": {"partial_rotary_factor": 0.5}})",
     "keys that are not known to RoPE of the kind default are ignored: "
     "rope_parameters.partial_rotary_factor"},
    {"gemma3_text", R"({"attn_logit_softcapping": 5.0})",
     "attn_logit_softcapping = 5.0 has no effect in this family"},
    {"gemma3_text", R"({"attn_logit_softcapping": null})", ""},
    {"gemma", R"({"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu"})", ""},
    {"gemma", R"({"hidden_activation": "silu"})",
     "hidden_activation = \"silu\" has no effect in this family"},
    {"gemma2", R"({"hidden_act": "gelu"})", ""},
    {"gemma2", R"({"hidden_act": "silu"})", "hidden_act = \"silu\" has no effect in this family"},
};

TEST(ClassKeysTest, Warnings) {
  for (const Warned& row : kWarnings) {
    SCOPED_TRACE(std::string(row.family) + " " + row.changes);
    const Config config = BareConfigOf(row.family, row.changes);
    Hwfa2Plan(config, LoadOptions());
    if (row.warning[0] == '\0') {
      EXPECT_THAT(config.warnings(), IsEmpty());
    } else {
      EXPECT_THAT(config.warnings(), ElementsAre("m/config.json: " + std::string(row.warning)));
    }
  }
}

const Refusal kOtherMathematicsOfClass[] = {
    {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0},
         "partial_rotary_factor": 0.5})",
     "partial_rotary_factor must be 1 beside RoPE of the kind linear in a family that rotates "
     "whole heads, found 0.5"},
    {R"({"model_type": "llama", "rope_parameters": {"full_attention": {"rope_theta": 1e6}}})",
     "rope_parameters must be one dictionary for all layers in this family, found "
     "{\"full_attention\":{\"rope_theta\":1000000.0}}"},
    {R"({"model_type": "olmo3", "rope_parameters": {"rope_theta": 1e6}})",
     "rope_parameters must hold full_attention and sliding_attention in this family, found "
     "{\"rope_theta\":1000000.0}"},
    {R"({"model_type": "olmo3", "rope_theta": 10000})",
     "rope_theta must be 500000 or stand in rope_parameters for each layer type, because releases "
     "of transformers differ in whether it counts in windows, found 10000"},
    {R"({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "yarn", "factor": 2.0,
         "truncate": false}})",
     "rope_scaling.truncate must be true, found false"},
    {R"({"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 2.0}})",
     "rope_scaling.type must be called rope_type in this family, because releases of transformers "
     "differ in whether it counts, found \"linear\""},
    {R"({"model_type": "phi3", "rope_scaling": {"type": "longrope",
         "original_max_position_embeddings": 2048}})",
     "rope_scaling.original_max_position_embeddings must stand beside the dictionary in this "
     "family, found 2048 in it alone"},
    {R"({"model_type": "llama", "is_causal": false})", "is_causal must be true, found false"},
};

TEST(ClassKeysTest, SaysWhatIsWrong) {
  const auto plan = [](const char* changes, const char*) { PlanOfClass("llama", changes); };
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfClass, plan);
}

}  // namespace
}  // namespace longstream
