// How much memory the machine has, and how much is left.
#include "kernels/core/physical_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

TEST(PhysicalMemoryTest, WhatTheMachineHasLeft) {
  const TemporaryDirectory root;
  const std::string file =
      root.Write("meminfo", "MemTotal: 4000 kB\nMemAvailable:   2000 kB\nSwapFree: 24 kB\n");
  EXPECT_EQ(MachineLeft(file), 2024u * 1024);
  EXPECT_EQ(MachineLeft(root.string() + "/none"), UINT64_MAX);
}

TEST(PhysicalMemoryTest, SomeIsLeft) {
  EXPECT_GT(AvailableMemory(), 0u);
  EXPECT_LT(AvailableMemory(), uint64_t{1} << 60);
}

TEST(PhysicalMemoryTest, IsAtMostTheMachines) {
  EXPECT_GT(PhysicalMemory(), 0u);
  EXPECT_LE(PhysicalMemory(), static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                  static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

TEST(PhysicalMemoryTest, AnonymousMemoryGrowsWithWhatIsWritten) {
  constexpr size_t kBytes = size_t{64} << 20;
  const uint64_t before = AnonymousMemory();
  std::vector<char> written(kBytes);
  std::fill(written.begin(), written.end(), 'x');
  EXPECT_EQ(written[kBytes / 2], 'x');
  EXPECT_GE(AnonymousMemory(), before + kBytes / 2);
}

}  // namespace
}  // namespace longstream
