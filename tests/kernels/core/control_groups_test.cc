// Limits of control groups, read from trees of files like the kernel's.
#include "kernels/core/limits/control_groups.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

class ControlGroupsTest : public ::testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_.path() / file).parent_path());
    root_.Write(file, text);
  }
  void SetGroups(const std::string& text) const { Write("proc/self/cgroup", text); }
  // Writes a file of a group. `group` begins at the usual mount of control groups.
  void Set(const std::string& group_and_file, const std::string& text) const {
    Write("sys/fs/cgroup/" + group_and_file, text);
  }
  ControlGroups Groups() const { return ControlGroups(root_.string()); }

  const TemporaryDirectory root_;
};

TEST_F(ControlGroupsTest, TheLeastLimitOfTheGroupAndItsParents) {
  SetGroups("4:memory:/other\n0::/pod/server\n");
  Set("pod/server/memory.max", "3000000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 3000000u);
  Set("pod/memory.max", "2000000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 2000000u);
  Set("memory.max", "1000000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 1000000u);
  Set("pod/server/memory.max", "max\n");
  EXPECT_EQ(Groups().MemoryLimit(), 1000000u);
  Set("other/memory.max", "10\n");
  EXPECT_EQ(Groups().MemoryLimit(), 1000000u) << "another group of version 2";
}

TEST_F(ControlGroupsTest, AContainersOwnGroupIsTheRoot) {
  SetGroups("0::/\n");
  Set("memory.max", "4096\n");
  EXPECT_EQ(Groups().MemoryLimit(), 4096u);
}

TEST_F(ControlGroupsTest, TheThresholdThatSlowsAGroupDownCounts) {
  SetGroups("0::/pod\n");
  Set("pod/memory.max", "4096000\n");
  Set("pod/memory.high", "max\n");
  EXPECT_EQ(Groups().MemoryLimit(), 4096000u);
  Set("pod/memory.high", "1024000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 1024000u);
}

TEST_F(ControlGroupsTest, NoLimit) {
  EXPECT_EQ(Groups().MemoryLimit(), UINT64_MAX) << "no file";
  EXPECT_EQ(Groups().MemoryLeft(), UINT64_MAX);
  EXPECT_EQ(Groups().ProcessorQuota(), kNoQuota);
  SetGroups("0::/pod\n4:cpu,memory:/pod\n");
  EXPECT_EQ(Groups().MemoryLimit(), UINT64_MAX) << "no group";
  EXPECT_EQ(Groups().ProcessorQuota(), kNoQuota);
  Set("pod/memory.max", "max\n");
  Set("pod/cpu.max", "max 100000\n");
  Set("memory/pod/memory.limit_in_bytes", "9223372036854771712\n");
  Set("cpu/pod/cpu.cfs_quota_us", "-1\n");
  Set("cpu/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Groups().MemoryLimit(), UINT64_MAX);
  EXPECT_EQ(Groups().MemoryLeft(), UINT64_MAX);
  EXPECT_EQ(Groups().ProcessorQuota(), kNoQuota);
}

// A folder in the place of a file cannot be read.
TEST_F(ControlGroupsTest, FilesThatCannotBeReadSetNoLimit) {
  SetGroups("0::/pod/server\nmalformed\n7:\n");
  for (const char* file : {"pod/server/memory.max", "pod/server/cpu.max", "pod/server/memory.stat",
                           "memory/memory.limit_in_bytes", "cpu/cpu.cfs_quota_us"}) {
    std::filesystem::create_directories(root_.path() / "sys/fs/cgroup" / file);
  }
  EXPECT_EQ(Groups().MemoryLimit(), UINT64_MAX);
  Set("pod/memory.max", "some\n");
  Set("pod/cpu.max", "100000\n");
  EXPECT_EQ(Groups().MemoryLimit(), UINT64_MAX);
  EXPECT_EQ(Groups().ProcessorQuota(), kNoQuota);
  Set("memory.max", "5000\n");
  Set("cpu.max", "50000 100000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 5000u) << "the readable files still count";
  EXPECT_EQ(Groups().ProcessorQuota(), 0.5);
}

TEST_F(ControlGroupsTest, APathWithoutAGroupIsTheTop) {
  for (const char* path : {"", "pod", "/../..", "/pod/../../x"}) {
    SetGroups(std::string("0::") + path + "\n");
    Set("memory.max", "5000\n");
    EXPECT_EQ(Groups().MemoryLimit(), 5000u) << path;
  }
}

TEST_F(ControlGroupsTest, VersionOne) {
  SetGroups("9:name=systemd:/x\n4:memory:/pod/server\n3:cpu,cpuacct:/pod\n0::/\n");
  Set("memory/pod/server/memory.limit_in_bytes", "3000000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 3000000u);
  Set("memory/pod/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 2000000u);
  Set("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Groups().MemoryLimit(), 2000000u);
  Set("memory/pod/memory.usage_in_bytes", "1500000\n");
  Set("memory/pod/memory.stat", "active_file 1\ntotal_active_file 300000\ntotal_inactive_file 0\n");
  EXPECT_EQ(Groups().MemoryLeft(), 800000u);
  Set("cpu/pod/cpu.cfs_quota_us", "250000\n");
  Set("cpu/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 2.5);
}

// The controllers cpu and cpuacct are often mounted together, under the names of both.
TEST_F(ControlGroupsTest, MountsInOtherPlaces) {
  Write("proc/self/mountinfo",
        "22 1 0:1 / /proc rw - proc proc rw\n"
        "30 1 0:2 /docker/a /groups/mem rw,relatime shared:9 - cgroup cgroup rw,memory\n"
        "31 1 0:3 / /groups/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 1 0:4 / /groups/two rw - cgroup2 cgroup2 rw\n"
        "broken - cgroup2\n");
  SetGroups("4:memory:/docker/a/b\n3:cpu,cpuacct:/docker/a\n0::/docker/a\n");
  Write("groups/mem/b/memory.limit_in_bytes", "4000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 4000u) << "the mount shows the group /docker/a as its top";
  Write("groups/mem/memory.limit_in_bytes", "3000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 3000u);
  Write("groups/two/docker/memory.max", "2000\n");
  EXPECT_EQ(Groups().MemoryLimit(), 2000u);
  Write("groups/cpu,cpuacct/docker/cpu.cfs_quota_us", "100000\n");
  Write("groups/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 2.0);
  SetGroups("4:memory:/elsewhere\n");
  EXPECT_EQ(Groups().MemoryLimit(), 3000u) << "the mount does not show the group by its name";
}

TEST_F(ControlGroupsTest, TheLeastQuotaOfTheGroupAndItsParents) {
  SetGroups("0::/pod/server\n");
  Set("pod/server/cpu.max", "400000 100000\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 4.0);
  Set("pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 1.5);
  Set("cpu.max", "200000 100000\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 1.5);
  Set("pod/cpu.max", "150000 0\n");
  EXPECT_EQ(Groups().ProcessorQuota(), 2.0) << "a period of 0 means nothing";
}

TEST_F(ControlGroupsTest, WhatIsLeftBesideWhatIsUsed) {
  SetGroups("0::/pod\n");
  Set("pod/memory.max", "1000000\n");
  EXPECT_EQ(Groups().MemoryLeft(), 1000000u) << "what is used is unknown";
  Set("pod/memory.current", "900000\n");
  EXPECT_EQ(Groups().MemoryLeft(), 100000u);
  Set("pod/memory.stat", "anon 300000\nfile 600000\nactive_file 200000\ninactive_file 350000\n");
  EXPECT_EQ(Groups().MemoryLeft(), 650000u);
  Set("pod/memory.current", "2000000\n");
  EXPECT_EQ(Groups().MemoryLeft(), 0u);
  Set("memory.max", "5000\n");
  Set("pod/memory.max", "max\n");
  EXPECT_EQ(Groups().MemoryLeft(), 5000u) << "the limit of a parent";
}

}  // namespace
}  // namespace longstream
