// RoPE in a config: every kind of scaling, the places of its keys, and each refusal.
#include "backends/architectures/transformer/rope_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

constexpr int32_t kHeadDim = 12;
constexpr int64_t kPositions = 640;

RopeOfLayers Read(const std::string& config, const char* options = "{}",
                  int64_t context_limit = kPositions) {
  return ReadRope(Config(config, "m/config.json"), LoadOptions(options),
                  {.head_dim = kHeadDim,
                   .max_position_embeddings = kPositions,
                   .context_limit = context_limit});
}

void ExpectFrequencies(const RopeSpec& rope, const std::vector<double>& expected,
                       double magnitude = 1.0) {
  ASSERT_EQ(rope.inv_freq.size(), expected.size());
  EXPECT_EQ(rope.rotated, static_cast<int32_t>(2 * expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    // transformers 5.23 computes these, in f32.
    EXPECT_NEAR(rope.inv_freq[i], expected[i], 1e-6 * expected[i]) << i;
  }
  EXPECT_NEAR(rope.magnitude, magnitude, 1e-7);
}

TEST(RopeConfigTest, PlainRopeHasNoTable) {
  for (const char* config :
       {R"({"rope_theta": 7e5})",
        R"({"rope_theta": 7e5, "rope_scaling": null, "rope_parameters": null})",
        R"({"rope_theta": 7e5, "rope_scaling": {"type": "default"}})",
        R"({"rope_parameters": {"rope_type": "default", "rope_theta": 7e5}})",
        R"({"rope_theta": 7e5, "rope_parameters": {"rope_type": "default", "rope_theta": 7e5}})",
        R"({"rope_scaling": {"rope_theta": 7e5}})",
        R"({"rope_theta": 7e5, "partial_rotary_factor": 1.0})",
        R"({"rope_theta": 7e5, "original_max_position_embeddings": 64})"}) {
    SCOPED_TRACE(config);
    EXPECT_EQ(Read(config).full, RopeSpec{.theta = 7e5});
    EXPECT_EQ(Read(config).window, RopeSpec{.theta = 7e5});
  }
  EXPECT_EQ(Read("{}").full, RopeSpec());
  EXPECT_EQ(Read(R"({"rope_parameters": {"rope_type": "default"}})").full, RopeSpec());
}

TEST(RopeConfigTest, PartOfAHead) {
  const RopeSpec rope = Read(R"({"partial_rotary_factor": 0.7})").full;  // 8.4
  EXPECT_EQ(rope.rotated, 8);
  EXPECT_TRUE(rope.inv_freq.empty());
  const RopeSpec linear = Read(R"({"rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                                       "partial_rotary_factor": 0.5}})")
                              .full;
  EXPECT_EQ(linear.rotated, 6);
  EXPECT_EQ(linear.inv_freq.size(), 3u);
  EXPECT_DOUBLE_EQ(linear.inv_freq[1], std::pow(1e4, -2.0 / 6) / 2);
}

TEST(RopeConfigTest, Linear) {
  ExpectFrequencies(Read(R"({"rope_scaling": {"type": "linear", "factor": 4.0}})").full,
                    {0.25, 0.053860862, 0.011603971, 0.0024999999, 0.00053860858, 0.00011603974});
}

// The frequencies that transformers has for a sequence as long as the context limit.
TEST(RopeConfigTest, DynamicFollowsTheContextLimit) {
  const char* config = R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})";
  ExpectFrequencies(Read(config, "{}", 1500).full,
                    {1.0, 0.16595368, 0.027540624, 0.0045704688, 0.00075848604, 0.00012587362});
  const std::vector<double> plain = {1.0,  0.21544347,   0.046415888,
                                     0.01, 0.0021544347, 0.00046415888};
  ExpectFrequencies(Read(config).full, plain);
  ExpectFrequencies(Read(config, "{}", 64).full, plain);
}

// "ntk" grows the base by its factor: here by the growth that "dynamic" has at 1500 positions.
TEST(RopeConfigTest, NtkGrowsTheBase) {
  const double growth = 2.0 * 1500 / 640 - 1;
  const std::string config =
      R"({"rope_scaling": {"rope_type": "ntk", "factor": )" + std::to_string(growth) + "}}";
  const RopeSpec rope = Read(config).full;
  ExpectFrequencies(rope,
                    {1.0, 0.16595368, 0.027540624, 0.0045704688, 0.00075848604, 0.00012587362});
  EXPECT_EQ(rope.theta, 1e4);
}

TEST(RopeConfigTest, Yarn) {
  const std::vector<double> ramp = {1.0,          0.16158257,    0.02320794,
                                    0.0024999999, 0.00053860858, 0.00011603974};
  const RopeOfLayers layers = Read(R"({"rope_scaling": {"type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 160, "finetuned": true}})");
  ExpectFrequencies(layers.full, ramp, 1.138629436111989);
  EXPECT_EQ(layers.extended_length, 640);
  // Without a factor it is the ratio of the two lengths.
  const RopeOfLayers implied = Read(R"({"original_max_position_embeddings": 160,
      "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 99}})");
  ExpectFrequencies(implied.full, ramp, 1.138629436111989);
  for (const char* no : {"false", "null"}) {
    ExpectFrequencies(Read(R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "beta_fast": 8.0,
                 "original_max_position_embeddings": 160, "beta_slow": 2.0, "mscale": 1.0,
                 "mscale_all_dim": 0.5, "truncate": )" +
                           std::string(no) + "}}")
                          .full,
                      {1.0, 0.1714779, 0.011603971, 0.0024999999, 0.00053860858, 0.00011603974},
                      1.0648216253695715);
  }
  EXPECT_EQ(Read(R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 0.75}})")
                .full.magnitude,
            0.75f);
  EXPECT_EQ(Read(R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})").extended_length, 0);
}

TEST(RopeConfigTest, Llama3) {
  ExpectFrequencies(
      Read(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 160}})")
          .full,
      {1.0, 0.21544345, 0.008265499, 0.00125, 0.00026930429, 5.8019868e-05});
}

TEST(RopeConfigTest, LongRopeFollowsTheContextLimit) {
  for (const char* type : {"longrope", "su"}) {
    const std::string config = std::string(R"({"original_max_position_embeddings": 160,
        "rope_scaling": {"short_factor": [1, 1, 2, 2, 3, 4], "long_factor": [1, 2, 4, 8, 16, 32],
                         "type": ")") +
                               type + R"("}})";
    ExpectFrequencies(Read(config, "{}", 160).full,
                      {1.0, 0.21544345, 0.023207942, 0.0049999999, 0.00071814476, 0.00011603974},
                      1.1283404163624398);
    ExpectFrequencies(Read(config, "{}", 161).full,
                      {1.0, 0.10772172, 0.011603971, 0.00125, 0.00013465215, 1.4504967e-05},
                      1.1283404163624398);
  }
}

TEST(RopeConfigTest, ByLayerType) {
  const RopeOfLayers layers = Read(R"({"rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}})");
  EXPECT_EQ(layers.full.theta, 1e6);
  EXPECT_EQ(layers.full.inv_freq[0], 0.125);
  EXPECT_EQ(layers.window, RopeSpec{.theta = 5e3});
}

TEST(RopeConfigTest, TheOptionStandsInPlaceOfTheScaling) {
  const char* linear = R"({"rope_scaling": {"rope_type": "linear", "factor": 4.0}})";
  const RopeOfLayers layers = Read(R"({"rope_theta": 5e5, "partial_rotary_factor": 0.7,
               "rope_scaling": {"type": "dynamic", "factor": 2.0}})",
                                   linear);
  EXPECT_EQ(layers.full.theta, 5e5);
  EXPECT_EQ(layers.full.rotated, 8);
  EXPECT_EQ(layers.full.inv_freq[0], 0.25);
  EXPECT_EQ(layers.window, layers.full);

  const RopeOfLayers by_type = Read(R"({"rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 1e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}}})",
                                    linear);
  EXPECT_EQ(by_type.full.theta, 1e6);
  EXPECT_EQ(by_type.full.inv_freq[0], 0.25);
  EXPECT_EQ(by_type.window, RopeSpec{.theta = 5e3});

  EXPECT_EQ(Read(R"({"rope_scaling": {"type": "linear", "factor": 2.0}})",
                 R"({"rope_scaling": {"rope_type": "default", "rope_theta": 3e4}})")
                .full,
            RopeSpec{.theta = 3e4});
}

const Refusal kWrongValuesOfRope[] = {
    {R"({"rope_scaling": {"type": "linear"}})",
     "rope_scaling.factor is missing, expected a number"},
    {R"({"rope_scaling": {"type": "linear", "factor": 0.5}})",
     "rope_scaling.factor must be a number from 1 to 1e+09, found 0.5"},
    {R"({"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2.0}})",
     "rope_scaling.type = \"linear\" disagrees with rope_type = \"yarn\""},
    {R"({"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {}})",
     "rope_scaling must be absent beside rope_parameters, its new name, found "
     "{\"factor\":2.0,\"type\":\"linear\"}"},
    {R"({"rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
          "high_freq_factor": 4.0}})",
     "rope_scaling.high_freq_factor must be above low_freq_factor = 4.0, found 4.0"},
    {R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1],
          "long_factor": [1, 1, 1, 1, 1, 1]}})",
     "rope_scaling.short_factor must have 6 items, one for each pair of elements that rotates, "
     "found 2"},
    {R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 1, 1, 1]}})",
     "rope_scaling.long_factor is missing, expected a list of numbers"},
    {R"({"rope_scaling": {"type": "longrope", "short_factor": [0]}})",
     "rope_scaling.short_factor must be a list, each item a number from 1e-09 to 1e+09, found [0]"},
};

const Refusal kOtherMathematicsOfRope[] = {
    {R"({"rope_scaling": {"type": "mrope", "mrope_section": [1]}})",
     "rope_scaling.type must be default, linear, dynamic, ntk, yarn, llama3 or longrope, found "
     "\"mrope\""},
    {R"({"rope_parameters": {"rope_type": "proportional"}})",
     "rope_parameters.rope_type must be default, linear, dynamic, ntk, yarn, llama3 or longrope, "
     "found \"proportional\""},
    {R"({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 32}})",
     NotKnown("rope_scaling.beta_fast = 32", "RoPE of the kind linear")},
    {R"({"partial_rotary_factor": 0.25})",
     "partial_rotary_factor must rotate an even number of each head's 12 elements, found 3"},
    {R"({"rope_parameters": {"full_attention": {"rope_type": "default"},
          "chunked_attention": {"rope_type": "default"}}})",
     NotKnown("rope_parameters.chunked_attention = {\"rope_type\":\"default\"}",
              "RoPE by layer type")},
    {"{}",
     "options: rope_scaling.rope_type must be default, linear, dynamic, ntk, yarn, llama3 or "
     "longrope, found \"alibi\"",
     R"({"rope_scaling": {"rope_type": "alibi"}})"},
};

TEST(RopeConfigTest, SaysWhatIsWrong) {
  const auto read = [](const char* config, const char* options) { Read(config, options); };
  ExpectRefusals(LS_INVALID_ARGUMENT, kWrongValuesOfRope, read);
  ExpectRefusals(LS_UNIMPLEMENTED, kOtherMathematicsOfRope, read);
}

}  // namespace
}  // namespace longstream
