// The limits of control groups, read from a tree of files like the kernel's.
#include "backends/common/cache/physical_memory.h"

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

TEST(PhysicalMemoryTest, IsAtMostTheMachines) {
  EXPECT_GT(PhysicalMemory(), 0u);
  EXPECT_LE(PhysicalMemory(), static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                  static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace longstream
