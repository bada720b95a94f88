// The weights of every format, held against the formula of the format for random codes of odd
// sizes. (The golden tests hold them against other programs.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "backends/checkpoint/quantised/float8_weight.h"
#include "kernels/core/thread_pool.h"
#include "tests/backends/checkpoint/quantised/quantised_fixture.h"

namespace longstream {
namespace {

// Codes, zero points and scales of a weight [n, k] with groups of group_size inputs.
struct Parts {
  int64_t n, k, group_size, groups;
  int bits;
  Codes codes, zeros;
  std::vector<float> scales;  // [n, groups], each an f16 number

  Parts(int64_t rows, int64_t inputs, int64_t size, int b, Draws& draws, int fixed_zero = -1)
      : n(rows),
        k(inputs),
        group_size(size),
        groups((inputs + size - 1) / size),
        bits(b),
        codes(n, k, [&](int64_t, int64_t) { return static_cast<int>(draws.Below(1u << bits)); }),
        zeros(n, groups, [&](int64_t, int64_t) {
          return fixed_zero >= 0 ? fixed_zero : 1 + static_cast<int>(draws.Below((1u << bits) - 1));
        }) {
    for (int64_t i = 0; i < n * groups; ++i) {
      scales.push_back(ToF32(ToF16(0.01f + 0.001f * static_cast<float>(draws.Below(100)))));
    }
  }

  float scale(int64_t row, int64_t group) const {
    return scales[static_cast<size_t>(row * groups + group)];
  }
  std::vector<float> Expected(const std::vector<int32_t>& group_of = {}) const {
    std::vector<float> numbers;
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t i = 0; i < k; ++i) {
        const int64_t group = group_of.empty() ? i / group_size : group_of[static_cast<size_t>(i)];
        numbers.push_back(static_cast<float>(codes.at(row, i) - zeros.at(row, group)) *
                          scale(row, group));
      }
    }
    return numbers;
  }
};

class WeightsTest : public QuantisedFixture {
 protected:
  void SetTransposedScales(const Parts& parts) {
    std::vector<float> transposed;
    for (int64_t group = 0; group < parts.groups; ++group) {
      for (int64_t row = 0; row < parts.n; ++row) transposed.push_back(parts.scale(row, group));
    }
    SetScales("scales", "F16", {parts.groups, parts.n}, transposed);
  }

  void SetGptq(const Parts& parts, int less) {
    const int per = 32 / parts.bits;
    Set("qweight", "I32", {parts.k / per, parts.n},
        PackWords(parts.k / per, parts.n, parts.bits,
                  [&](int64_t r, int64_t c, int i) { return parts.codes.at(c, r * per + i); }));
    Set("qzeros", "I32", {parts.groups, (parts.n + per - 1) / per},
        PackWords(parts.groups, (parts.n + per - 1) / per, parts.bits,
                  [&](int64_t r, int64_t c, int i) {
                    return c * per + i < parts.n ? parts.zeros.at(c * per + i, r) - less : 0;
                  }));
    SetTransposedScales(parts);
  }

  void SetPacked(const Parts& parts, bool with_zeros) {
    const int per = 32 / parts.bits;
    const int64_t words = (parts.k + per - 1) / per, zero_words = (parts.n + per - 1) / per;
    Set("weight_packed", "I32", {parts.n, words},
        PackWords(parts.n, words, parts.bits, [&](int64_t r, int64_t c, int i) {
          return c * per + i < parts.k ? parts.codes.at(r, c * per + i) : 0;
        }));
    Set("weight_shape", "I64", {2}, BytesOf(std::vector<int64_t>{parts.n, parts.k}));
    SetScales("weight_scale", "F16", {parts.n, parts.groups}, parts.scales);
    if (!with_zeros) return;
    Set("weight_zero_point", "I32", {zero_words, parts.groups},
        PackWords(zero_words, parts.groups, parts.bits, [&](int64_t r, int64_t c, int i) {
          return r * per + i < parts.n ? parts.zeros.at(r * per + i, c) : 0;
        }));
  }

  // Reads m.weight in windows of several sizes and on several threads: the elements, and the groups
  // if there are any.
  static void ExpectWeight(const Checkpoint& checkpoint, const Parts& parts,
                           const std::vector<float>& expected) {
    const Tensor& tensor = *checkpoint.Find("m.weight");
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{parts.n, parts.k}));
    ThreadPool pool(3);
    for (const int64_t rows : {1, 3, 7, 16, 1000}) {
      ASSERT_EQ(Weight(checkpoint, rows), expected) << rows;
      ASSERT_EQ(Weight(checkpoint, rows, pool.AsExecutor()), expected) << rows;
    }
    if (!tensor.groups) return;
    const int64_t of_row = NumGroups(parts.k);
    for (int64_t first = 0; first < parts.n; first += 5) {
      const int64_t rows = std::min<int64_t>(5, parts.n - first);
      const std::vector<WeightGroup> groups = Groups(checkpoint, first, rows, pool.AsExecutor());
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < of_row * kGroupInputs; ++i) {
          const WeightGroup& group = groups[static_cast<size_t>(row * of_row + i / kGroupInputs)];
          const float number = ToF32(group.scale) * group.values[i % kGroupInputs];
          const auto place = static_cast<size_t>((first + row) * parts.k + i);
          ASSERT_EQ(number, i < parts.k ? expected[place] : 0.0f) << first + row << ", " << i;
        }
      }
    }
  }
};

std::string Gptq(int bits, int64_t group_size, bool symmetric, const char* version) {
  return R"({"torch_dtype": "float32", "quantization_config": {"quant_method": "gptq", "bits": )" +
         std::to_string(bits) + R"(, "group_size": )" + std::to_string(group_size) +
         R"(, "sym": )" + (symmetric ? "true" : "false") + R"(, "checkpoint_format": ")" + version +
         R"("}})";
}

std::string Compressed(const std::string& weights, const std::string& type = "float32") {
  return R"({"torch_dtype": ")" + type +
         R"(", "quantization_config": {"quant_method": "compressed-tensors",
           "config_groups": {"group_0": {"targets": ["Linear"], "weights": )" +
         weights + "}}}}";
}

TEST_F(WeightsTest, Gptq) {
  Draws draws;
  for (const int bits : {4, 8}) {
    for (const char* version : {"gptq", "gptq_v2"}) {
      for (const bool symmetric : {true, false}) {
        SCOPED_TRACE(std::to_string(bits) + version + (symmetric ? " symmetric" : ""));
        const Parts parts(21, 72, 32, bits, draws, symmetric ? 1 << (bits - 1) : -1);
        SetGptq(parts, std::string(version) == "gptq" ? 1 : 0);
        const Checkpoint checkpoint = Open(Gptq(bits, 32, symmetric, version));
        const std::optional<DType> groups = checkpoint.Find("m.weight")->groups;
        if (bits == 8) {
          EXPECT_EQ(groups, symmetric ? std::optional(DType::kI8) : std::nullopt);
          EXPECT_EQ(Weight(checkpoint, 4), parts.Expected());
        } else {
          EXPECT_EQ(groups, symmetric ? DType::kI4 : DType::kI8);
          ExpectWeight(checkpoint, parts, parts.Expected());
        }
        EXPECT_EQ(checkpoint.tensors().size(), 1u);  // the parts are gone
      }
    }
  }
}

// A stored zero point of 15 stands for 16, so differences go down to -16.
TEST_F(WeightsTest, GptqsLargestZeroPoint) {
  Draws draws;
  const Parts parts(5, 64, 64, 4, draws, 16);
  SetGptq(parts, 1);
  ExpectWeight(Open(Gptq(4, 64, false, "gptq")), parts, parts.Expected());
}

// Groups that are no runs of inputs: g_idx names the group of each input.
TEST_F(WeightsTest, GroupsInTheOrderOfActivations) {
  Draws draws;
  const Parts parts(9, 64, 32, 4, draws, 8);
  SetGptq(parts, 1);
  std::vector<int32_t> group_of(64);
  for (size_t i = 0; i < 64; ++i) group_of[i] = static_cast<int32_t>(i * 7 % 2);
  Set("g_idx", "I32", {64}, BytesOf(group_of));
  const Checkpoint checkpoint = Open(Gptq(4, 32, true, "gptq"));
  EXPECT_FALSE(checkpoint.Find("m.weight")->groups);
  ExpectWeight(checkpoint, parts, parts.Expected(group_of));

  // Runs are the usual groups.
  for (size_t i = 0; i < 64; ++i) group_of[i] = static_cast<int32_t>(i / 32);
  Set("g_idx", "I32", {64}, BytesOf(group_of));
  const Checkpoint usual = Open(Gptq(4, 32, true, "gptq"));
  EXPECT_EQ(usual.Find("m.weight")->groups, DType::kI4);
  ExpectWeight(usual, parts, parts.Expected());
}

TEST_F(WeightsTest, Awq) {
  Draws draws;
  const Parts parts(24, 75, 32, 4, draws);
  constexpr std::array<int, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};  // output of nibble i
  const auto order = [&](int i) { return kOrder[static_cast<size_t>(i)]; };
  Set("qweight", "I32", {75, 3}, PackWords(75, 3, 4, [&](int64_t r, int64_t c, int i) {
        return parts.codes.at(c * 8 + order(i), r);
      }));
  Set("qzeros", "I32", {3, 3}, PackWords(3, 3, 4, [&](int64_t r, int64_t c, int i) {
        return parts.zeros.at(c * 8 + order(i), r);
      }));
  SetTransposedScales(parts);
  const Checkpoint checkpoint =
      Open(R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32}})");
  EXPECT_EQ(checkpoint.Find("m.weight")->groups, DType::kI8);
  ExpectWeight(checkpoint, parts, parts.Expected());
}

TEST_F(WeightsTest, PackedWords) {
  Draws draws;
  for (const int bits : {4, 8}) {
    for (const bool zeros : {false, true}) {
      for (const int64_t size : {32, 64, 45}) {
        SCOPED_TRACE(std::to_string(bits) + " bits, groups of " + std::to_string(size));
        const Parts parts(13, 77, size, bits, draws, zeros ? -1 : 1 << (bits - 1));
        parts_.clear();
        SetPacked(parts, zeros);
        const Checkpoint checkpoint = Open(
            Compressed(R"({"num_bits": )" + std::to_string(bits) +
                       R"(, "type": "int", "symmetric": )" + (zeros ? "false" : "true") +
                       R"(, "strategy": "group", "group_size": )" + std::to_string(size) + "}"));
        const bool has_groups = size % 32 == 0 && !(bits == 8 && zeros);
        EXPECT_EQ(checkpoint.Find("m.weight")->groups.has_value(), has_groups);
        if (bits == 8) {
          EXPECT_EQ(Weight(checkpoint, 4), parts.Expected());
        } else {
          ExpectWeight(checkpoint, parts, parts.Expected());
        }
      }
    }
  }
}

TEST_F(WeightsTest, PackedWordsInTheOrderOfActivations) {
  Draws draws;
  const Parts parts(9, 64, 32, 4, draws);
  SetPacked(parts, true);
  std::vector<int32_t> group_of;
  for (int32_t i = 0; i < 64; ++i) group_of.push_back(i % 3 % 2);
  Set("weight_g_idx", "I32", {64}, BytesOf(group_of));
  const Checkpoint checkpoint = Open(Compressed(
      R"({"num_bits": 4, "symmetric": false, "strategy": "group", "group_size": 32,
          "actorder": "group"})"));
  EXPECT_FALSE(checkpoint.Find("m.weight")->groups);
  ExpectWeight(checkpoint, parts, parts.Expected(group_of));
}

// The parts of a weight may lie in several shards.
TEST_F(WeightsTest, PartsInSeveralShards) {
  Draws draws;
  const Parts parts(16, 64, 32, 4, draws, 8);
  SetGptq(parts, 1);
  std::string map;
  for (const auto& [name, tensor] : parts_) {
    const std::string file = name + ".safetensors";
    directory_.Write(file, SafetensorsBytes({tensor}));
    map.append(map.empty() ? "" : ", ").append("\"" + name + "\": \"" + file + "\"");
  }
  directory_.Write("model.safetensors.index.json", R"({"weight_map": {)" + map + "}}");
  const Checkpoint checkpoint =
      OpenCheckpoint(directory_.string(), Config(Gptq(4, 32, true, "gptq"), "m/config.json"));
  EXPECT_EQ(checkpoint.files().size(), 3u);
  EXPECT_EQ(checkpoint.FileOf(*checkpoint.Find("m.weight")),
            directory_.string() + "/m.qweight.safetensors");
  ExpectWeight(checkpoint, parts, parts.Expected());
}

// Weights of 8 bits have -128, which no group of ours has. Such a group is quantised again; all
// others are kept.
TEST_F(WeightsTest, MinusOneHundredAndTwentyEight) {
  constexpr int64_t kN = 6, kK = 96;
  std::vector<int8_t> values(kN * kK);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int8_t>(i * 37 % 255 - 127);
  values[2 * kK + 40] = -128;
  Set("weight", "I8", {kN, kK}, BytesOf(values));
  SetScales("weight_scale", "F16", {kN, 1}, std::vector<float>(kN, 0.03125f));
  const Checkpoint checkpoint =
      Open(Compressed(R"({"num_bits": 8, "type": "int", "strategy": "channel"})"));
  EXPECT_EQ(checkpoint.Find("m.weight")->groups, DType::kI8);
  EXPECT_EQ(Weight(checkpoint)[2 * kK + 40], -4.0f);
  const std::vector<WeightGroup> groups = Groups(checkpoint, 0, kN);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::vector<float> weights;
    for (size_t i = 0; i < 32; ++i) {
      weights.push_back(0.03125f * static_cast<float>(values[g * 32 + i]));
    }
    const bool again = g == 2 * 3 + 1;
    const WeightGroup expected = QuantiseGroup(DType::kI8, weights.data(), 32);
    if (again) {
      EXPECT_EQ(groups[g].scale.bits, expected.scale.bits);
    } else {
      EXPECT_EQ(ToF32(groups[g].scale), 0.03125f);
    }
    for (size_t i = 0; i < 32; ++i) {
      ASSERT_EQ(groups[g].values[i], again ? expected.values[i] : values[g * 32 + i]);
      ASSERT_NEAR(ToF32(groups[g].scale) * groups[g].values[i], weights[i], 0.6f * 0.03125f);
    }
  }
}

// Bytes with zero points, per group and per output.
TEST_F(WeightsTest, BytesWithZeroPoints) {
  Draws draws;
  for (const int64_t size : {7, 21}) {
    const Parts parts(11, 21, size, 8, draws);
    const auto bytes = [](const std::vector<int>& codes) {
      std::vector<int8_t> values;
      for (const int code : codes) values.push_back(static_cast<int8_t>(code - 128));
      return BytesOf(values);
    };
    Set("weight", "I8", {11, 21}, bytes(parts.codes.values));
    Set("weight_zero_point", "I8", {11, parts.groups}, bytes(parts.zeros.values));
    SetScales("weight_scale", "F32", {11, parts.groups}, parts.scales);
    const Checkpoint checkpoint = Open(
        Compressed(R"({"num_bits": 8, "symmetric": false, "strategy": "group", "group_size": )" +
                   std::to_string(size) + "}"));
    EXPECT_FALSE(checkpoint.Find("m.weight")->groups);
    ExpectWeight(checkpoint, parts, parts.Expected());
  }
}

// A BF16 scale of at least 2^-17 is an f16; an F32 scale is rounded: by 2^-12 at most.
TEST_F(WeightsTest, ScalesOfOtherTypes) {
  Draws draws;
  const Parts parts(4, 32, 32, 4, draws, 8);
  for (const char* type : {"BF16", "F32"}) {
    SetPacked(parts, false);
    SetScales("weight_scale", type, {4, 1}, {0x1.7p-17f, 0.013f, 3e-3f, 1.7f});
    const Checkpoint checkpoint =
        Open(Compressed(R"({"num_bits": 4, "type": "int", "strategy": "channel"})"));
    const std::vector<float> rows = Weight(checkpoint);
    const std::vector<WeightGroup> groups = Groups(checkpoint, 0, 4);
    const float error = type == std::string("F32") ? 0x1p-11f : 0.0f;
    for (size_t row = 0; row < 4; ++row) {
      for (size_t i = 0; i < 32; ++i) {
        const float number = ToF32(groups[row].scale) * groups[row].values[i];
        ASSERT_LE(std::fabs(number - rows[row * 32 + i]), error * std::fabs(rows[row * 32 + i]));
      }
    }
  }
}

// Integers without groups of ours become elements of the checkpoint's type, rounded once.
TEST_F(WeightsTest, DecodesToTheTypeOfTheCheckpoint) {
  Draws draws;
  const Parts parts(5, 45, 45, 8, draws);
  SetPacked(parts, true);
  const std::string weights =
      R"({"num_bits": 8, "type": "int", "symmetric": false, "strategy": "channel"})";
  const std::vector<float> exact = parts.Expected();
  const std::vector<float> half = Weight(Open(Compressed(weights, "float16")));
  const std::vector<float> brain = Weight(Open(Compressed(weights, "bfloat16")));
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(half[i], ToF32(ToF16(exact[i])));
    ASSERT_EQ(brain[i], ToF32(ToBF16(exact[i])));
  }
}

TEST_F(WeightsTest, Float8Numbers) {
  EXPECT_EQ(FromFloat8(0x00), 0.0f);
  EXPECT_EQ(FromFloat8(0x01), 0x1p-9f);
  EXPECT_EQ(FromFloat8(0x07), 0x7p-9f);
  EXPECT_EQ(FromFloat8(0x08), 0x1p-6f);
  EXPECT_EQ(FromFloat8(0x38), 1.0f);
  EXPECT_EQ(FromFloat8(0x3c), 1.5f);
  EXPECT_EQ(FromFloat8(0x7e), 448.0f);
  EXPECT_EQ(FromFloat8(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(FromFloat8(0x7f)));
  EXPECT_TRUE(std::isnan(FromFloat8(0xff)));
}

// Blocks that the weight does not fill, and single scales.
TEST_F(WeightsTest, Float8Scales) {
  constexpr int64_t kN = 37, kK = 21;
  Draws draws;
  std::vector<uint8_t> codes;
  for (int64_t i = 0; i < kN * kK; ++i) codes.push_back(static_cast<uint8_t>(draws.Below(127)));
  Set("weight", "F8_E4M3", {kN, kK}, BytesOf(codes));
  struct Case {
    const char* section;
    const char* part;
    std::vector<int64_t> shape;
    int64_t rows, columns;  // of a block
  };
  const Case cases[] = {
      {R"("quant_method": "fp8", "weight_block_size": [16, 8])", "weight_scale_inv", {3, 3}, 16, 8},
      {R"("quant_method": "fp8")", "weight_scale", {}, kN, kK},
      {R"("quant_method": "fp8")", "weight_scale", {1}, kN, kK},
      {R"("quant_method": "fbgemm_fp8")", "weight_scale", {kN, 1}, 1, kK},
      {R"("quant_method": "fbgemm_fp8")", "weight_scale", {kN}, 1, kK},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.section + ShapeText(test.shape));
    const int64_t across = (kK + test.columns - 1) / test.columns;
    std::vector<float> scales;
    for (int64_t i = 0; i < (kN + test.rows - 1) / test.rows * across; ++i) {
      scales.push_back(0.01f + 0.003f * static_cast<float>(i));
    }
    parts_.erase("m.weight_scale");
    SetScales(test.part, "F32", test.shape, scales);
    Set("input_scale", "F32", {}, BytesOf(std::vector<float>{1.0f}));
    const Checkpoint checkpoint = Open(R"({"torch_dtype": "bfloat16", "quantization_config": {)" +
                                       std::string(test.section) + "}}");
    std::vector<float> expected;
    for (int64_t row = 0; row < kN; ++row) {
      for (int64_t i = 0; i < kK; ++i) {
        const auto block = static_cast<size_t>(row / test.rows * across + i / test.columns);
        const float code = FromFloat8(codes[static_cast<size_t>(row * kK + i)]);
        expected.push_back(ToF32(ToBF16(code * scales[block])));
      }
    }
    for (const int64_t rows : {1, 5, 17, 1000}) EXPECT_EQ(Weight(checkpoint, rows), expected);
    EXPECT_EQ(checkpoint.tensors().size(), 1u);
    parts_.erase("m.weight_scale_inv");
  }
}

}  // namespace
}  // namespace longstream
