// Memory of weights: zeroed, aligned, and spread over the nodes of the host where it is large.
#include "backends/common/weights/weight_memory.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "tests/kernels/memory_policy.h"

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
  EXPECT_THROW(AllocateHostWeights(size_t{1} << 60), std::bad_alloc);
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
