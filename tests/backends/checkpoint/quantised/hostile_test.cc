// Parts that do not fit each other: each is refused in a sentence that names the part.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/backends/checkpoint/quantised/quantised_fixture.h"

namespace longstream {
namespace {

constexpr const char* kGptq =
    R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}})";
constexpr const char* kPacked = R"({"quantization_config": {"quant_method": "compressed-tensors",
    "config_groups": {"g": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}}}}})";
constexpr const char* kFp8 =
    R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}})";

class HostileTest : public QuantisedFixture {
 protected:
  // A valid weight [8, 64] of GPTQ.
  void SetGptq() {
    Set("qweight", "I32", {8, 8}, std::string(256, '\x99'));
    Set("qzeros", "I32", {2, 1}, std::string(8, '\x77'));
    SetScales("scales", "F16", {2, 8}, std::vector<float>(16, 0.5f));
    Set("g_idx", "I32", {64}, BytesOf(Index()));
  }
  static std::vector<int32_t> Index() {
    std::vector<int32_t> groups(64);
    for (size_t i = 0; i < 64; ++i) groups[i] = static_cast<int32_t>(i / 32);
    return groups;
  }
  // A valid weight [8, 64] of compressed-tensors.
  void SetPacked() {
    Set("weight_packed", "I32", {8, 8}, std::string(256, '\x99'));
    Set("weight_shape", "I64", {2}, BytesOf(std::vector<int64_t>{8, 64}));
    SetScales("weight_scale", "F16", {8, 2}, std::vector<float>(16, 0.5f));
  }
  void SetFp8() {
    Set("weight", "F8_E4M3", {8, 40}, std::string(320, '\x38'));
    SetScales("weight_scale_inv", "F32", {1, 3}, {1.0f, 2.0f, 3.0f});
  }
};

TEST_F(HostileTest, TheValidOnes) {
  SetGptq();
  EXPECT_EQ(Weight(Open(kGptq)), std::vector<float>(512, 0.5f));
  parts_.clear();
  SetPacked();
  EXPECT_EQ(Weight(Open(kPacked)), std::vector<float>(512, 0.5f));
  parts_.clear();
  SetFp8();
  EXPECT_EQ(Weight(Open(kFp8))[39], 3.0f);
}

TEST_F(HostileTest, PartsThatAreMissing) {
  for (const char* part : {"scales", "qzeros"}) {
    SetGptq();
    parts_.erase(std::string("m.") + part);
    ExpectError(LS_INVALID_ARGUMENT,
                directory_.string() + ": tensor \"m." + part +
                    "\" is missing, though other parts of the quantised weight are there",
                [&] { Open(kGptq); });
  }
  parts_.clear();
  SetPacked();
  parts_.erase("m.weight_shape");
  ExpectError(LS_INVALID_ARGUMENT, ::testing::HasSubstr("\"m.weight_shape\" is missing"),
              [&] { Open(kPacked); });
}

TEST_F(HostileTest, ShapesThatDoNotFit) {
  SetGptq();
  Set("qzeros", "I32", {1, 2}, std::string(8, '\x77'));
  ExpectRefused(kGptq, "\"m.qzeros\" must have the shape [2, 1], found [1, 2]");
  SetGptq();
  SetScales("scales", "F16", {8, 2}, std::vector<float>(16, 0.5f));
  ExpectRefused(kGptq, "\"m.scales\" must have the shape [2, 2], found [8, 2]");
  SetGptq();
  Set("qweight", "I32", {64}, std::string(256, '\x99'));
  ExpectRefused(kGptq, "\"m.qweight\" must have 2 dimensions, found the shape [64]");
  SetGptq();
  Set("qweight", "I16", {8, 8}, std::string(128, '\x99'));
  ExpectRefused(kGptq, "\"m.qweight\" must be I32, found I16");
  SetGptq();
  Set("g_idx", "I32", {56}, std::string(224, '\0'));
  ExpectRefused(kGptq, "\"m.g_idx\" must have the shape [64], found [56]");
}

// Tensors of no bytes can have any other extent.
TEST_F(HostileTest, ShapesWithoutElements) {
  const std::string expected = " must have extents from 1 to 1099511627776, found the shape ";
  SetGptq();
  Set("qweight", "I32", {int64_t{1} << 60, 0}, "");
  ExpectRefused(kGptq, "\"m.qweight\"" + expected + "[1152921504606846976, 0]");
  SetGptq();
  Set("scales", "F16", {0, INT64_MAX}, "");
  ExpectRefused(kGptq, "\"m.scales\"" + expected + "[0, 9223372036854775807]");
  parts_.clear();
  SetPacked();
  Set("weight_scale", "F16", {0}, "");
  ExpectRefused(kPacked, "\"m.weight_scale\"" + expected + "[0]");
  parts_.clear();
  SetFp8();
  Set("weight", "F8_E4M3", {INT64_MAX, 0}, "");
  ExpectRefused(kFp8, "\"m.weight\"" + expected + "[9223372036854775807, 0]");
}

TEST_F(HostileTest, IndicesBeyondTheGroups) {
  for (const int32_t group : {2, -1, std::numeric_limits<int32_t>::min()}) {
    SetGptq();
    std::vector<int32_t> groups = Index();
    groups[50] = group;
    Set("g_idx", "I32", {64}, BytesOf(groups));
    ExpectRefused(kGptq, "\"m.g_idx\" has the group " + std::to_string(group) +
                             " for input 50, expected one of 0 to 1");
  }
}

TEST_F(HostileTest, ZeroPointsThatAreNotSymmetric) {
  SetGptq();
  Set("qzeros", "I32", {2, 1}, std::string("\x77\x77\x77\x77\x77\x57\x77\x77", 8));
  ExpectRefused(kGptq,
                "\"m.qzeros\": the zero point of output 3, group 1 is 6, expected 8 because the "
                "config says that it is symmetric");
}

TEST_F(HostileTest, ZeroPointsOfBytesThatAreNotSymmetric) {
  const auto set = [this](char last) {
    Set("qweight", "I32", {16, 8}, std::string(512, '\x99'));
    Set("qzeros", "I32", {2, 2}, std::string(15, '\x7f') + last);
    SetScales("scales", "F16", {2, 8}, std::vector<float>(16, 0.5f));
  };
  const char* config =
      R"({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 32}})";
  set('\x7f');
  const Checkpoint checkpoint = Open(config);
  EXPECT_EQ(Groups(checkpoint, 0, 8)[15].values[31], 0x99 - 128);
  set('\x7d');
  ExpectRefused(
      config,
      "\"m.qzeros\": the zero point of output 7, group 1 is 126, expected 128 because the "
      "config says that it is symmetric");
}

TEST_F(HostileTest, ScalesThatAreNoNumbers) {
  for (const float scale : {std::nanf(""), std::numeric_limits<float>::infinity(), 1e30f}) {
    SetPacked();
    std::vector<float> scales(16, 0.5f);
    scales[13] = scale;
    SetScales("weight_scale", "F32", {8, 2}, scales);
    char text[32];
    std::snprintf(text, sizeof(text), "%g", scale);
    ExpectRefused(kPacked, "\"m.weight_scale\": the scale of output 6, group 1 is " +
                               std::string(text) + ", expected a magnitude of at most 32768");
  }
  parts_.clear();
  SetFp8();
  SetScales("weight_scale_inv", "F32", {1, 3}, {1.0f, std::nanf(""), 3.0f});
  ExpectRefused(kFp8,
                "\"m.weight_scale_inv\": the scale of output 0, group 1 is nan, expected a "
                "magnitude of at most 3.32307e+35");
}

TEST_F(HostileTest, ShapesThatLie) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> lies = {
      {{8, 63}, ""},
      {{8, 65}, "\"m.weight_packed\" of shape [8, 8] does not fit weight_shape, [8, 65]"},
      {{9, 64}, "\"m.weight_packed\" of shape [8, 8] does not fit weight_shape, [9, 64]"},
      {{8, 0}, "\"m.weight_shape\" must have numbers from 1 to 1099511627776, found 0"},
      {{8, INT64_MAX},
       "\"m.weight_shape\" must have numbers from 1 to 1099511627776, found 9223372036854775807"},
      {{8, int64_t{1} << 40},
       "\"m.weight_packed\" of shape [8, 8] does not fit weight_shape, [8, 1099511627776]"},
      {{8, 32},
       "\"m.weight_packed\" fits no scheme of config_groups: 8 bits, 2 groups of 32 "
       "inputs"},
  };
  for (const auto& [shape, problem] : lies) {
    SetPacked();
    Set("weight_shape", "I64", {2}, BytesOf(shape));
    if (problem.empty()) {
      EXPECT_EQ(Weight(Open(kPacked)).size(), 8u * 63);
    } else {
      ExpectRefused(kPacked, problem);
    }
  }
}

TEST_F(HostileTest, SchemesThatDoNotFit) {
  SetPacked();
  SetScales("weight_scale", "F16", {8, 4}, std::vector<float>(32, 0.5f));
  ExpectRefused(
      kPacked,
      "\"m.weight_packed\" fits no scheme of config_groups: 4 bits, 4 groups of 64 inputs");
  SetPacked();
  Set("weight_zero_point", "I32", {1, 2}, std::string(8, '\x77'));
  ExpectRefused(kPacked,
                "\"m.weight_packed\" fits no scheme of config_groups: 4 bits with zero points, 2 "
                "groups of 64 inputs");
  parts_.clear();
  SetPacked();
  ExpectRefused(R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {
      "a": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}},
      "b": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 48}}}}})",
                "\"m.weight_packed\" fits more than one scheme of config_groups");
}

TEST_F(HostileTest, FloatsThatDoNotFit) {
  SetFp8();
  SetScales("weight_scale_inv", "F32", {3, 1}, {1.0f, 2.0f, 3.0f});
  ExpectRefused(kFp8, "\"m.weight_scale_inv\" must have the shape [1, 3], found [3, 1]");
  SetFp8();
  Set("weight", "F8_E5M2", {8, 40}, std::string(320, '\x38'));
  ExpectRefused(kFp8, "\"m.weight\" must be F8_E4M3, found F8_E5M2");
  SetFp8();
  Set("weight_scale_inv", "I32", {1, 3}, std::string(12, '\0'));
  ExpectRefused(kFp8, "\"m.weight_scale_inv\" must be F16 or BF16 or F32, found I32");
}

// Parts of random types, shapes and bytes: each checkpoint is read or refused.
TEST_F(HostileTest, PartsOfRandomTypesAndShapes) {
  struct Format {
    const char* config;
    std::function<void()> set;
  };
  const Format formats[] = {
      {kGptq, [this] { SetGptq(); }},
      {kPacked, [this] { SetPacked(); }},
      {kFp8, [this] { SetFp8(); }},
      {R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 5}})",
       [this] { SetGptq(); }},
      {R"({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 7}})",
       [this] { SetGptq(); }},
  };
  constexpr std::array<std::pair<const char*, int64_t>, 8> kTypes = {{{"I32", 4},
                                                                      {"I64", 8},
                                                                      {"F16", 2},
                                                                      {"BF16", 2},
                                                                      {"F32", 4},
                                                                      {"F8_E4M3", 1},
                                                                      {"I8", 1},
                                                                      {"U8", 1}}};
  Draws draws;
  int read = 0;
  for (int i = 0; i < 400; ++i) {
    const Format& format = formats[draws.Below(std::size(formats))];
    parts_.clear();
    format.set();
    auto part = std::next(parts_.begin(), draws.Below(static_cast<uint32_t>(parts_.size())));
    if (draws.Below(3) > 0) {
      const auto& [type, bytes] = kTypes[draws.Below(std::size(kTypes))];
      TensorSource& tensor = part->second;
      if (draws.Below(2) == 0) tensor.type_name = type;
      std::vector<int64_t> shape(draws.Below(4));
      for (int64_t& extent : shape) extent = draws.Below(12);
      if (draws.Below(4) > 0) shape = tensor.shape;
      int64_t size = 1;
      for (const int64_t extent : shape) size *= extent;
      for (const auto& [name, width] : kTypes) {
        if (tensor.type_name == name) size *= width;
      }
      tensor.shape = shape;
      tensor.bytes.resize(static_cast<size_t>(size), '\x55');
    }
    for (char& byte : part->second.bytes) {
      if (draws.Below(8) == 0) byte = static_cast<char>(draws.Below(256));
    }
    try {
      const Checkpoint checkpoint = Open(format.config);
      const Tensor* tensor = checkpoint.Find("m.weight");
      ASSERT_NE(tensor, nullptr);
      if (tensor->shape[0] == 0 || tensor->shape[1] == 0) continue;
      if (tensor->groups) Groups(checkpoint, 0, tensor->shape[0]);
      if (tensor->type) Weight(checkpoint, 3);
      ++read;
    } catch (const BackendError&) {
    }
  }
  EXPECT_GT(read, 30);
  EXPECT_LT(read, 370);
}

// The name of the weight belongs to a plain tensor, too.
TEST_F(HostileTest, AWeightThatIsThereTwice) {
  SetGptq();
  Set("weight", "F32", {1}, std::string(4, '\0'));
  ExpectRefused(kGptq, "\"m.weight\" is there twice: as it is in " + path() +
                           ", and in a form that it is computed from");
}

TEST_F(HostileTest, PartsOfActivationsAndCachesAreNotMissed) {
  SetPacked();
  Set("input_scale", "F32", {1}, std::string(4, '\0'));
  Set("k_scale", "F32", {1}, std::string(4, '\0'));
  const Checkpoint checkpoint = Open(kPacked);
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_NE(checkpoint.Find("m.weight"), nullptr);
}

// Files that end before their tensors do.
TEST_F(HostileTest, FilesThatAreShortenedWhileTheyAreRead) {
  SetGptq();
  const Checkpoint checkpoint = Open(kGptq);
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 300);
  ExpectError(LS_DATA_LOSS, ::testing::HasSubstr("was shortened while it was read"),
              [&] { Weight(checkpoint); });
}

TEST_F(HostileTest, PiecesOfRowsAreRefused) {
  SetGptq();
  const Checkpoint checkpoint = Open(kGptq);
  std::vector<std::byte> bytes(100);
  ExpectError(LS_INVALID_ARGUMENT, ::testing::HasSubstr("is read in pieces of rows"),
              [&] { checkpoint.Read(*checkpoint.Find("m.weight"), 4, bytes, Executor()); });
}

}  // namespace
}  // namespace longstream
