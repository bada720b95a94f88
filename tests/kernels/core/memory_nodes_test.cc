// Tests of memory that is spread over the nodes of a machine. Directories that the tests make stand
// for a machine of several nodes. The policy of spread memory is tested on the machine's own nodes.
// That works even with a single node, because the system keeps the policy on such a machine too.
#include "kernels/core/memory_nodes.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>

#include <cstddef>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "tests/kernels/core/memory_policy.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using Numbers = std::vector<int>;

TEST(ParseNumberListTest, ReadsWhatTheSystemWrites) {
  EXPECT_EQ(ParseNumberList("0"), Numbers({0}));
  EXPECT_EQ(ParseNumberList("0\n"), Numbers({0}));
  EXPECT_EQ(ParseNumberList("0-3"), Numbers({0, 1, 2, 3}));
  EXPECT_EQ(ParseNumberList("0-1,4,6-7\n"), Numbers({0, 1, 4, 6, 7}));
  EXPECT_EQ(ParseNumberList(""), Numbers());
  EXPECT_EQ(ParseNumberList("\n"), Numbers());
}

TEST(ParseNumberListTest, RefusesAnythingElse) {
  for (const char* text : {"a", "-1", "1-", "1-0", "1,", ",1", "0,0", "1,0", "0-2,2", "0 1",
                           "0-1-2", "1x", "99999999999", "0-9999999"}) {
    EXPECT_EQ(ParseNumberList(text), std::nullopt) << text;
  }
}

class NodesOfProcessTest : public ::testing::Test {
 protected:
  void Nodes(const std::string& with_memory, const std::vector<std::string>& processors) const {
    directory_.Write("has_memory", with_memory);
    for (size_t node = 0; node < processors.size(); ++node) {
      const std::string name = "node" + std::to_string(node);
      std::filesystem::create_directory(directory_.path() / name);
      directory_.Write(name + "/cpulist", processors[node]);
    }
  }
  void Allowed(const std::string& processors, const std::string& memory) const {
    directory_.Write("status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + processors +
                                   "\nMems_allowed:\t3\nMems_allowed_list:\t" + memory + "\n");
  }
  Numbers Found() const {
    return NodesOfProcess(directory_.string(), directory_.string() + "/status");
  }

  const TemporaryDirectory directory_;
};

TEST_F(NodesOfProcessTest, AllOfThem) {
  Nodes("0-1\n", {"0-7,16-23\n", "8-15,24-31\n"});
  Allowed("0-31", "0-1");
  EXPECT_EQ(Found(), Numbers({0, 1}));
}

TEST_F(NodesOfProcessTest, ThoseWhoseMemoryIsAllowed) {
  Nodes("0-3", {"0", "1", "2", "3"});
  Allowed("0-3", "1,3");
  EXPECT_EQ(Found(), Numbers({1, 3}));
}

// The threads may run on node 1 only. They would read the memory of node 0 over the link between
// the processors, so node 0 is not used.
TEST_F(NodesOfProcessTest, ThoseWhoseProcessorsAreAllowed) {
  Nodes("0-1", {"0-7", "8-15"});
  Allowed("8-11", "0-1");
  EXPECT_EQ(Found(), Numbers({1}));
}

TEST_F(NodesOfProcessTest, ThoseWithMemoryAndProcessors) {
  Nodes("0,2-3", {"0-3", "4-7", "8-11", "\n"});
  Allowed("0-11", "0-3");
  EXPECT_EQ(Found(), Numbers({0, 2}));
}

TEST_F(NodesOfProcessTest, NoneWhereTheSystemDoesNotSay) {
  EXPECT_EQ(Found(), Numbers());
  Nodes("0-1", {"0", "1"});
  EXPECT_EQ(Found(), Numbers());
  Allowed("?", "0-1");
  EXPECT_EQ(Found(), Numbers());
  Allowed("0-1", "0-1");
  EXPECT_EQ(Found(), Numbers({0, 1}));
  directory_.Write("has_memory", "all");
  EXPECT_EQ(Found(), Numbers());
}

TEST(InterleaveTest, IsThePolicyOfThePagesAndOfNoOthers) {
  const Numbers nodes = NodesForTest();
  const bool may = MayChoosePolicy(nodes);
  constexpr size_t kSize = size_t{8} << 20;
  auto* data = static_cast<std::byte*>(
      mmap(nullptr, 3 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(data, MAP_FAILED);
  std::byte* middle = data + kSize;
  const MemoryPolicy before = PolicyAt(data);
  EXPECT_EQ(Interleave(middle, kSize - 100, nodes), may);  // counts up to the page's end
  const MemoryPolicy expected = may ? MemoryPolicy{MPOL_INTERLEAVE, nodes} : before;
  EXPECT_EQ(PolicyAt(middle), expected);
  EXPECT_EQ(PolicyAt(middle + kSize - 1), expected);
  EXPECT_EQ(PolicyAt(middle - 1), before);
  EXPECT_EQ(PolicyAt(middle + kSize), before);
  for (size_t i = 0; i < 3 * kSize; i += 4096) data[i] = std::byte{1};
  munmap(data, 3 * kSize);
}

TEST(InterleaveTest, WhatCannotBeLeavesMemoryAsItIs) {
  auto* data = static_cast<std::byte*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const MemoryPolicy before = PolicyAt(data);
  EXPECT_TRUE(Interleave(data, 8192, {}));
  EXPECT_FALSE(Interleave(data, 8192, {5000}));
  EXPECT_FALSE(Interleave(data + 8, 4096, {0}));
  EXPECT_EQ(PolicyAt(data), before);
  data[0] = data[8191] = std::byte{1};
  munmap(data, 8192);
}

TEST(NodesToSpreadOverTest, AreSeveralOrNone) {
  const Numbers all = NodesOfProcess("/sys/devices/system/node", "/proc/self/status");
  const Numbers& nodes = NodesToSpreadOver();
  std::cout << "[          ] " << all.size() << " node(s) here, spread over " << nodes.size()
            << "\n";
  EXPECT_NE(nodes.size(), 1u);
  EXPECT_TRUE(nodes.empty() || nodes == all);
}

// HostDevice allocates weights and caches, so it must spread them over the nodes.
TEST(HostDeviceTest, SpreadsWhatIsReadInLongRuns) {
  const Numbers nodes = NodesForTest();
  const bool may = MayChoosePolicy(nodes);
  constexpr size_t kSize = size_t{8} << 20;
  HostDevice spread(nodes);
  void* data = spread.Allocate(kSize);
  const MemoryPolicy before = PolicyAt(data);
  spread.PreferBandwidth(data, kSize);
  EXPECT_EQ(PolicyAt(data), may ? (MemoryPolicy{MPOL_INTERLEAVE, nodes}) : before);
  spread.Release(data, kSize);

  HostDevice whole{Numbers()};
  data = whole.Allocate(kSize);
  whole.PreferBandwidth(data, kSize);
  EXPECT_EQ(PolicyAt(data), before);
  whole.Release(data, kSize);
}

}  // namespace
}  // namespace longstream
