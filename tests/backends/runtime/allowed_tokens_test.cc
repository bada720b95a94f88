// Masks of allowed tokens (ls_sampling.allowed) in steps of a model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"

namespace longstream {
namespace {

constexpr int32_t kLastToken = 70;

class AllowedTokensTest : public testing::Test {
 protected:
  AllowedTokensTest()
      : spec_(RandomSpec("full+window")),
        model_(spec_, RandomWeights(spec_, DType::kF32, DeviceOps()), DType::kF32, DeviceOps(),
               Executor(), {0, 512, 8}) {}

  // Samples after a prompt, in a step of its own.
  PieceResult Sample(const ls_sampling& sampling) {
    const auto sequence = CreateReserved(model_, 20);
    return Step(model_, {{sequence.get(), {1, 2, 3}, false, LS_ROWS_NONE, &sampling}})[0];
  }

  const ModelSpec spec_;
  Model model_;
};

TEST_F(AllowedTokensTest, TheMessageSaysWhyThereIsNoToken) {
  std::vector<uint32_t> allowed = {0, 0, ~0u << 7};  // the bits beyond the vocabulary
  ls_sampling sampling = WarmSampling();
  sampling.allowed = allowed.data();
  EXPECT_EQ(Sample(sampling).code, LS_INVALID_ARGUMENT);
  EXPECT_EQ(Sample(sampling).message, "allowed: no token is allowed");
  allowed[2] |= 1u << 6;
  EXPECT_EQ(Sample(sampling).sampled, kLastToken);
  const ls_logit_bias ban = {kLastToken, -INFINITY};
  sampling.bias = &ban;
  sampling.num_bias = 1;
  EXPECT_EQ(Sample(sampling).code, LS_INVALID_ARGUMENT);
  EXPECT_EQ(Sample(sampling).message, "allowed: bias bans every allowed token");
}

// The structure of an older host ends before the mask. AddressSanitizer ends the program at a read
// behind it.
TEST_F(AllowedTokensTest, AnOlderHostHasNone) {
  ls_sampling sampling = WarmSampling();
  const int32_t expected = Sample(sampling).sampled;
  sampling.struct_size = LS_SAMPLING_SIZE_1_0;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::malloc(LS_SAMPLING_SIZE_1_0),
                                                           &std::free);
  std::memcpy(memory.get(), &sampling, LS_SAMPLING_SIZE_1_0);
  EXPECT_EQ(Sample(*static_cast<const ls_sampling*>(memory.get())).sampled, expected);
}

}  // namespace
}  // namespace longstream
