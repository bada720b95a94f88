// Memory limits of control groups, read from a tree of files like the kernel's.
#include "kernels/core/physical_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

class ControlGroupTest : public ::testing::Test {
 protected:
  void SetGroups(const std::string& text) const { root_.Write("cgroup", text); }
  void SetLimit(const std::string& group, const std::string& text) const {
    std::filesystem::create_directories(root_.path() / "mount" / group);
    root_.Write("mount/" + group + "/memory.max", text);
  }
  uint64_t Limit() const {
    return ControlGroupLimit(root_.path() / "cgroup", root_.path() / "mount");
  }

  uint64_t Left() const {
    return ControlGroupLeft(root_.path() / "cgroup", root_.path() / "mount");
  }

  const TemporaryDirectory root_;
};

TEST_F(ControlGroupTest, TheLeastOfTheGroupAndThoseAroundIt) {
  SetGroups("4:memory:/other\n0::/pod/server\n");
  SetLimit("pod/server", "3000000\n");
  EXPECT_EQ(Limit(), 3000000u);
  SetLimit("pod", "2000000\n");
  EXPECT_EQ(Limit(), 2000000u);
  SetLimit(".", "1000000\n");
  EXPECT_EQ(Limit(), 1000000u);
  SetLimit("pod/server", "max\n");
  EXPECT_EQ(Limit(), 1000000u);
}

TEST_F(ControlGroupTest, AContainersOwnGroupIsTheRoot) {
  SetGroups("0::/\n");
  SetLimit(".", "4096\n");
  EXPECT_EQ(Limit(), 4096u);
}

TEST_F(ControlGroupTest, NoLimit) {
  EXPECT_EQ(Limit(), UINT64_MAX) << "no file";
  SetGroups("0::/pod\n");
  EXPECT_EQ(Limit(), UINT64_MAX) << "no group";
  SetLimit("pod", "max\n");
  EXPECT_EQ(Limit(), UINT64_MAX);
  SetGroups("4:memory:/pod\n");
  EXPECT_EQ(Limit(), UINT64_MAX) << "cgroup v1";
}

TEST_F(ControlGroupTest, WhatIsLeftBesideWhatIsUsed) {
  SetGroups("0::/pod\n");
  SetLimit("pod", "1000000\n");
  EXPECT_EQ(Left(), 1000000u) << "what is used is unknown";
  root_.Write("mount/pod/memory.current", "900000\n");
  EXPECT_EQ(Left(), 100000u);
  root_.Write("mount/pod/memory.stat",
              "anon 300000\nfile 600000\nactive_file 200000\ninactive_file 350000\n");
  EXPECT_EQ(Left(), 650000u);
  root_.Write("mount/pod/memory.current", "2000000\n");
  EXPECT_EQ(Left(), 0u);
  SetLimit("pod", "max\n");
  EXPECT_EQ(Left(), UINT64_MAX);
}

TEST_F(ControlGroupTest, WhatTheMachineHasLeft) {
  const std::string file =
      root_.Write("meminfo", "MemTotal: 4000 kB\nMemAvailable:   2000 kB\nSwapFree: 24 kB\n");
  EXPECT_EQ(MachineLeft(file), 2024u * 1024);
  EXPECT_EQ(MachineLeft(root_.string() + "/none"), UINT64_MAX);
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

}  // namespace
}  // namespace longstream
