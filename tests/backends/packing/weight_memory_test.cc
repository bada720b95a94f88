// Memory of weights: zeroed, aligned, and spread over the host's nodes if it is large.
#include "backends/packing/weight_memory.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/backends/checkpoint/expect_error.h"
#include "tests/kernels/core/memory_policy.h"

namespace longstream {
namespace {

TEST(WeightMemoryTest, IsZeroedAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{9} << 20}) {
    const OwnedMemory memory = AllocateHostWeights(bytes);
    const std::span all(static_cast<std::byte*>(memory.get()), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.data()) % kWeightAlignment, 0u);
    EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](std::byte b) { return b == std::byte{}; }));
    std::fill(all.begin(), all.end(), std::byte{1});
  }
}

TEST(WeightMemoryTest, WhatThereIsNot) {
  ExpectError(
      LS_RESOURCE_EXHAUSTED,
      ::testing::MatchesRegex("weights: need 1152921504606846976 bytes of memory, [0-9]+ of "
                              "[0-9]+ are left"),
      [] { AllocateHostWeights(size_t{1} << 60); });
}

TEST(WeightMemoryTest, LargeWeightsAreSpreadOverNodes) {
  const std::vector<int> nodes = NodesForTest();
  const bool may = MayChoosePolicy(nodes);
  HostDevice host(nodes);
  constexpr size_t kLarge = (size_t{9} << 20) + 100;
  const OwnedMemory large = AllocateWeights(host, kLarge);
  const OwnedMemory small = AllocateWeights(host, size_t{1} << 20);
  const MemoryPolicy untouched = PolicyAt(small.get());
  EXPECT_NE(untouched.mode, MPOL_INTERLEAVE);
  const MemoryPolicy expected = may ? MemoryPolicy{MPOL_INTERLEAVE, nodes} : untouched;
  EXPECT_EQ(PolicyAt(large.get()), expected);
  EXPECT_EQ(PolicyAt(static_cast<std::byte*>(large.get()) + kLarge - 1), expected);
}

}  // namespace
}  // namespace longstream
