// Tests that an op table is chosen by instruction set, and that every table is complete.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/instruction_set.h"
#include "kernels/core/pinned_isa.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/reference/reference_ops.h"

namespace longstream {
namespace {

TEST(Dispatch, BaselineIsAlwaysThere) {
  ASSERT_NE(OpsFor("baseline"), nullptr);
  EXPECT_STREQ(OpsFor("baseline")->name, "baseline");
}

TEST(Dispatch, EveryTableBearsItsNameAndIsComplete) {
  std::vector<const OpTable*> tables = {&ReferenceOps()};
  for (const char* isa : kIsaNames) {
    const OpTable* ops = OpsFor(isa);
    if (ops == nullptr) continue;
    EXPECT_STREQ(ops->name, isa);
    tables.push_back(ops);
  }
  for (const OpTable* table : tables) {
    // Up to cut_grid, the table has only pointers: its name and its functions.
    void* pointers[offsetof(OpTable, cut_grid) / sizeof(void*)];
    static_assert(sizeof(pointers) + sizeof(void*) == sizeof(OpTable));
    std::memcpy(pointers, table, sizeof(pointers));
    for (size_t i = 0; i < std::size(pointers); ++i) {
      EXPECT_NE(pointers[i], nullptr) << table->name << ", entry " << i;
    }
    EXPECT_TRUE(table->int8_pages) << table->name;
    ASSERT_GT(table->cut_grid, 0) << table->name;
    EXPECT_EQ(64 % table->cut_grid, 0) << table->name;
  }
}

// If LONGSTREAM_ISA names a set that the processor lacks, no device is opened.
TEST(Dispatch, APinnedSetThatIsNotThereIsRefused) {
  ASSERT_EQ(setenv("LONGSTREAM_ISA", "sse9", 1), 0);
  const OpenedDevice refused = OpenDevice("cpu");
  EXPECT_EQ(refused.device, nullptr);
  EXPECT_FALSE(refused.unknown);
  EXPECT_EQ(refused.why,
            "LONGSTREAM_ISA: expected one of baseline, avx2, avx512_f32, avx512, amx that this "
            "processor has, found 'sse9'");
  ASSERT_EQ(setenv("LONGSTREAM_ISA", "baseline", 1), 0);
  EXPECT_NE(OpenDevice("cpu").device, nullptr);
  EXPECT_EQ(OpenDevice("cpu").name, "cpu");
  ASSERT_EQ(setenv("LONGSTREAM_ISA", "", 1), 0);  // counts as unset
  EXPECT_NE(OpenDevice("cpu").device, nullptr);
  unsetenv("LONGSTREAM_ISA");
  EXPECT_NE(OpenDevice("cpu").device, nullptr);
}

// One test per set, so that a run on a processor without the set reports a skipped test. Each is a
// ctest entry of its own, which ctest lists as skipped.
class InstructionSet : public testing::TestWithParam<const char*> {};

TEST_P(InstructionSet, IsOfThisProcessor) {
  const OpTable* ops = OpsFor(GetParam());
  if (ops == nullptr) {
    GTEST_SKIP() << "this processor has no " << GetParam() << ": no kernel for it is tested";
  }
  EXPECT_STREQ(ops->name, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Isa, InstructionSet, testing::ValuesIn(kIsaNames),
                         [](const auto& test) { return std::string(test.param); });

TEST(Dispatch, UnknownSetsAreNotFound) {
  EXPECT_EQ(OpsFor("avx1024"), nullptr);
  EXPECT_EQ(OpsFor(""), nullptr);
}

// Returns the value that the system reports of the first processor under `name`, such as "cpu
// family", or "" if it reports none.
std::string ProcessorSays(const std::string& name) {
  std::ifstream says("/proc/cpuinfo");
  for (std::string line; std::getline(says, line);) {
    if (line.rfind(name, 0) == 0) return line.substr(line.find(": ") + 2);
  }
  return "";
}

TEST(Dispatch, ZenFiveAsksIntoTheFirstLevelCache) {
  const bool amd = ProcessorSays("vendor_id") == "AuthenticAMD";
  const std::string family = ProcessorSays("cpu family");
  ASSERT_NE(family, "") << "of /proc/cpuinfo";
  EXPECT_EQ(AsksIntoFirstLevelCache(), amd && std::stoi(family) >= 26);
}

// DeviceOps chooses once per process, so each case runs in a process of its own.
void ExitWithDeviceIs(const char* isa, const std::string& expected) {
  if (isa == nullptr) {
    unsetenv("LONGSTREAM_ISA");
  } else {
    setenv("LONGSTREAM_ISA", isa, 1);
  }
  std::exit(DeviceOps().name == expected ? 0 : 1);
}

TEST(Dispatch, OnlyAmdHasFastDotsOfBF16) {
  EXPECT_EQ(HasFastBF16Dots(), ProcessorSays("vendor_id") == "AuthenticAMD");
}

TEST(DispatchDeathTest, TheEnvironmentChoosesAmongWhatThereIs) {
  std::string best;
  for (const std::string isa : kIsaNames) {
    if (OpsFor(isa.c_str()) == nullptr) continue;
    if (isa != "avx512" || HasFastBF16Dots()) best = isa;
    EXPECT_EXIT(ExitWithDeviceIs(isa.c_str(), isa), testing::ExitedWithCode(0), "") << isa;
  }
  EXPECT_EXIT(ExitWithDeviceIs(nullptr, best), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ExitWithDeviceIs("", best), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(ExitWithDeviceIs("avx1024", best), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace longstream
