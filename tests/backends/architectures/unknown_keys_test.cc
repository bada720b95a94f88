// Keys that no code reads: transformers ignores those that a class does not declare, and so do the
// families, with a warning. Other configs refuse them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backends/architectures/families/family.h"
#include "backends/architectures/placement/dense_plan.h"
#include "backends/architectures/placement/hwfa2_plan.h"
#include "tests/backends/architectures/config_edit.h"
#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Ignored {
  const char* changes;
  const char* warning;  // after "m/config.json: "; "": none
};

const Ignored kIgnored[] = {
    {R"({"use_flash_attn": true, "training_args": {"lr": 1e-5}, "license": "mit",
         "bos_token": "<s>"})",
     "keys that are not known to the backend hwfa2 are ignored: bos_token, license, training_args, "
     "use_flash_attn"},
    {R"({"acme": null, "num_experts": 0, "use_mrope": false, "layer_types": []})", ""},
    {R"({"acme": NaN, "bos_token": -Infinity})",
     "keys that are not known to the backend hwfa2 are ignored: acme, bos_token"},
    {R"({"initializer_range": Infinity, "pretraining_tp": NaN, "attention_dropout": NaN})", ""},
    {R"({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 32}})",
     "keys that are not known to RoPE of the kind linear are ignored: rope_scaling.beta_fast"},
    // Keys of other families.
    {R"({"logits_scaling": 8.0})",
     "keys that are not known to the backend hwfa2 are ignored: logits_scaling"},
    // A backend of the checkpoint's own is no reason to refuse keys that are known.
    {R"({"auto_map": {"AutoConfig": "acme.Config"}, "use_cache": true})", ""},
};

TEST(UnknownKeysTest, FamiliesIgnoreThem) {
  for (const Ignored& row : kIgnored) {
    SCOPED_TRACE(row.changes);
    const Config config = Edited(kLlama, row.changes);
    Hwfa2Plan(config, LoadOptions());
    if (row.warning[0] == '\0') {
      EXPECT_THAT(config.warnings(), IsEmpty());
    } else {
      EXPECT_THAT(config.warnings(), ElementsAre("m/config.json: " + std::string(row.warning)));
    }
  }
}

// The same keys for every family: none of them is read by only some families.
TEST(UnknownKeysTest, EveryFamilyIgnoresThem) {
  const std::string families = FamilyNames() + ", ";
  for (size_t begin = 0; begin < families.size();) {
    const size_t end = families.find(", ", begin);
    const std::string family = families.substr(begin, end - begin);
    begin = end + 2;
    SCOPED_TRACE(family);
    const Config config =
        Edited(EditedText(kLlama, "{\"model_type\": \"" + family + R"(", "rope_theta": 500000,
                                   "num_dense_layers": 3, "use_flash_attn": true})"),
               "{}");
    Hwfa2Plan(config, LoadOptions());
    EXPECT_THAT(config.warnings(), ::testing::Contains(::testing::HasSubstr("use_flash_attn")));
  }
}

TEST(UnknownKeysTest, LongListsAreCut) {
  std::string changes = "{";
  for (int i = 10; i < 40; ++i) changes += "\"key_" + std::to_string(i) + "\": 1, ";
  const Config config = Edited(kLlama, changes + "\"last\": 1}");
  DensePlan(config, LoadOptions());
  EXPECT_THAT(config.warnings(), ElementsAre(::testing::EndsWith("key_29 and 11 more")));
}

const Refusal kRefused[] = {
    // A class of the checkpoint's own may read any key.
    {R"({"auto_map": {"AutoConfig": "acme.Config"}, "use_flash_attn": true})",
     NotKnown("use_flash_attn = true", "the backend hwfa2")},
    {R"({"auto_map": {"AutoConfig": "acme.Config"}, "partial_rotary_factor": 0.5})",
     NotKnown("partial_rotary_factor = 0.5", "the backend hwfa2")},
    // Keys that are known to change the mathematics.
    {R"({"num_local_experts": 8})", NotKnown("num_local_experts = 8", "the backend hwfa2")},
    {R"({"alibi": true})", NotKnown("alibi = true", "the backend hwfa2")},
    {R"({"per_layer_config": {"0": {"mlp_bias": true}}})",
     NotKnown("per_layer_config = {\"0\":{\"mlp_bias\":true}}", "the backend hwfa2")},
    {R"({"rope_interleaved": true})", NotKnown("rope_interleaved = true", "the backend hwfa2")},
    {R"({"rerope_window": 512})", NotKnown("rerope_window = 512", "the backend hwfa2")},
    {R"({"rope_scaling": {"type": "linear", "factor": 2.0, "mrope_section": [1, 1, 2]}})",
     NotKnown("rope_scaling.mrope_section = [1,1,2]", "RoPE of the kind linear")},
    // Types of this project.
    {R"({"model_type": "hwfa2", "num_full_layers": 3, "full_position": "rope", "license": "mit"})",
     NotKnown("license = \"mit\"", "the backend hwfa2")},
    {R"({"model_type": "hwfa2", "num_full_layers": 3, "full_position": "rope", "num_experts": 0})",
     NotKnown("num_experts = 0", "the backend hwfa2")},
    {R"({"block_type": "gau", "head_dim": "<absent>", "num_attention_heads": "<absent>",
         "num_key_value_heads": "<absent>", "intermediate_size": "<absent>", "gau_key_dim": 8,
         "license": "mit"})",
     NotKnown("license = \"mit\"", "the backend hwfa2")},
};

TEST(UnknownKeysTest, OthersRefuseThem) {
  const auto plan = [](const char* changes, const char* options) {
    Hwfa2Plan(Edited(kLlama, changes), LoadOptions(options));
  };
  ExpectRefusals(LS_UNIMPLEMENTED, kRefused, plan);
}

}  // namespace
}  // namespace longstream
