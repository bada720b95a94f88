// Gemma 3 beside a vision model: the config of its text model, and the keys allowed around it.
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

// As google/gemma-3-4b-it has it.
const std::string kReleased = R"({
  "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
  "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
  "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                  "num_hidden_layers": 34, "sliding_window": 1024,
                  "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
  "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
  "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})";

ModelSpec PlanOfTextConfig(const char* changes, const char* options = "{}") {
  return Hwfa2Plan(Edited(kReleased, changes), LoadOptions(options));
}

TEST(TextConfigTest, IsWhatIsServed) {
  const ModelSpec spec = PlanOfTextConfig("{}");
  EXPECT_EQ(spec.architecture, "gemma3_text");
  EXPECT_EQ(spec.vocabulary, 262208);
  EXPECT_EQ(spec.context_limit, 131072);
  EXPECT_TRUE(spec.tied_head);
  ASSERT_EQ(spec.layers.size(), 34u);
  EXPECT_EQ(spec.layers[0].num_heads, 8);
  EXPECT_EQ(spec.layers[0].num_kv_heads, 4);
  EXPECT_EQ(spec.layers[0].head_dim, 256);
  EXPECT_EQ(spec.layers[0].window, 1024);
  EXPECT_EQ(spec.layers[5].kind, MixerKind::kFull);
  EXPECT_EQ(spec.layers[5].rope.inv_freq[0], 0.125);
  // An untied head would be outside the text model.
  EXPECT_EQ(
      PlanOfTextConfig(R"({"tie_word_embeddings": true, "image_token_id": 262144})").layers.size(),
      34u);
}

TEST(TextConfigTest, UnknownKeysAreIgnored) {
  const Config config = Edited(kReleased, R"({"acme": 1, "text_config": {"hidden_size": 2560,
      "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
      "license": "mit"}})");
  Hwfa2Plan(config, LoadOptions());
  EXPECT_THAT(config.warnings(),
              ElementsAre("m/config.json: keys that are not known to the text model of gemma3 are "
                          "ignored: acme",
                          "m/config.json: keys that are not known to the backend hwfa2 are "
                          "ignored: text_config.license"));
}

// auto_map beside text_config counts for the text model, too.
TEST(TextConfigTest, OwnClassesMayKnowMore) {
  ExpectError(LS_UNIMPLEMENTED,
              "m/config.json: " + NotKnown("text_config.license = \"mit\"", "the backend hwfa2"),
              [] {
                PlanOfTextConfig(R"({"auto_map": {"AutoConfig": "acme.Config"}, "text_config": {
                    "hidden_size": 2560, "intermediate_size": 10240, "license": "mit",
                    "model_type": "gemma3_text", "num_hidden_layers": 34}})");
              });
}

TEST(TextConfigTest, ChoosesTheBackend) {
  std::string why;
  EXPECT_EQ(DenseFit(Edited(kReleased, "{}"), &why), 10);
  EXPECT_EQ(Hwfa2Fit(Edited(kReleased, "{}"), &why), 100);
}

const Refusal kWrongValuesOfTextConfig[] = {
    {R"({"text_config": "<absent>"})", "text_config is missing, expected an object"},
    {R"({"text_config": {"model_type": "gemma3_text", "hidden_size": 24, "intermediate_size": 30}})",
     "text_config.num_hidden_layers is missing, expected an integer from 1 to 4096"},
};

const Refusal kOtherMathematicsOfTextConfig[] = {
    {R"({"text_config": {"model_type": "acme"}})",
     "text_config.model_type must be hwfa2 or one of " + FamilyNames() +
         " for the backend hwfa2, found \"acme\""},
    {R"({"tie_word_embeddings": false})", "tie_word_embeddings must be true, found false"},
    {R"({"quantization_config": {"quant_method": "acme"}})",
     "quantization_config.quant_method must be one of awq, compressed-tensors, fbgemm_fp8, fp8, "
     "gptq "
     "(or use the original checkpoint, which the option weights quantises), found \"acme\""},
    {R"({"auto_map": {"AutoConfig": "acme.Config"}, "acme": 1})",
     NotKnown("acme = 1", "the text model of gemma3")},
    {R"({"num_experts": 8})", NotKnown("num_experts = 8", "the text model of gemma3")},
};

TEST(TextConfigTest, SaysWhatIsWrong) {
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfTextConfig, PlanOfTextConfig);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfTextConfig, PlanOfTextConfig);
}

}  // namespace
}  // namespace longstream
