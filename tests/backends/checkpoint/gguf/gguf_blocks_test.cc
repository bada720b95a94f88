// The numbers of blocks against those of the package gguf (tests/golden/gguf/blocks.safetensors),
// and the groups that blocks become.
#include "backends/checkpoint/gguf_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "backends/checkpoint/safetensors.h"

namespace longstream {
namespace {

constexpr const char* kTypes[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",   "Q2_K",
                                  "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"};

class GgufBlocksTest : public ::testing::TestWithParam<const char*> {
 protected:
  GgufBlocksTest()
      : file_(LONGSTREAM_SOURCE_DIR "/tests/golden/gguf/blocks.safetensors"),
        type_(*FindGgufBlocks(GetParam())) {}

  std::vector<std::byte> Bytes(const std::string& suffix) const {
    for (const StoredTensor& tensor : file_.tensors()) {
      if (tensor.name != GetParam() + suffix) continue;
      std::vector<std::byte> bytes(tensor.num_bytes);
      file_.Read(tensor.offset, bytes, Executor());
      return bytes;
    }
    ADD_FAILURE() << "no tensor " << GetParam() << suffix;
    return {};
  }

  std::vector<float> Expected() const {
    const std::vector<std::byte> bytes = Bytes(".numbers");
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  // Whether block `g` is a group with the same numbers. A group cannot have -128, which no program
  // writes into a Q8_0.
  bool IsOneGroup(const std::vector<std::byte>& blocks, size_t g) const {
    if (type_.group == nullptr) return false;
    const WeightGroup group = type_.group(blocks.data() + g * type_.bytes);
    return std::find(std::begin(group.values), std::end(group.values), INT8_MIN) ==
           std::end(group.values);
  }

  const SafetensorsFile file_;
  const GgufBlocks& type_;
};

TEST_P(GgufBlocksTest, NumbersAreThoseOfThePackage) {
  const std::vector<std::byte> blocks = Bytes(".blocks");
  const std::vector<float> expected = Expected();
  ASSERT_EQ(blocks.size() / type_.bytes, expected.size() / type_.elements);
  ASSERT_EQ(expected.size(), 1024u);
  std::vector<float> numbers(static_cast<size_t>(type_.elements));
  for (size_t i = 0; i < expected.size(); i += numbers.size()) {
    // A block is read at an odd address.
    std::vector<std::byte> odd(static_cast<size_t>(type_.bytes) + 1);
    std::memcpy(odd.data() + 1, blocks.data() + i / numbers.size() * type_.bytes, type_.bytes);
    type_.numbers(odd.data() + 1, numbers.data());
    EXPECT_EQ(numbers,
              std::vector<float>(expected.begin() + i, expected.begin() + i + numbers.size()));
  }
}

TEST_P(GgufBlocksTest, GroupsHaveTheSameNumbersOrTheNearestOnes) {
  const std::vector<std::byte> blocks = Bytes(".blocks");
  const std::vector<float> expected = Expected();
  const auto count = static_cast<int64_t>(expected.size()) / type_.elements;
  std::vector<WeightGroup> groups(expected.size() / kGroupInputs);
  GroupsOfBlocks(type_, blocks.data(), count, groups.data());
  for (size_t g = 0; g < groups.size(); ++g) {
    const float* const numbers = expected.data() + g * kGroupInputs;
    const float scale = ToF32(groups[g].scale);
    if (IsOneGroup(blocks, g)) {
      for (int64_t i = 0; i < kGroupInputs; ++i) {
        EXPECT_EQ(scale * static_cast<float>(groups[g].values[i]), numbers[i]);
      }
      continue;
    }
    WeightGroup nearest;
    QuantiseGroups(type_.groups, numbers, 1, &nearest);
    EXPECT_EQ(std::memcmp(&nearest, &groups[g], sizeof(nearest)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufBlocksTest, ::testing::ValuesIn(kTypes));

TEST(GgufBlocksOfOtherTypesTest, AreNotRead) {
  for (const char* type : {"IQ2_XXS", "MXFP4", "F32", "Q8_1", ""}) {
    EXPECT_EQ(FindGgufBlocks(type), nullptr) << type;
  }
}

}  // namespace
}  // namespace longstream
