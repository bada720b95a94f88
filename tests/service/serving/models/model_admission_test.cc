// A model is loaded only if there is memory for it; the models share one budget.
#include <filesystem>
#include <fstream>

#include "tests/service/serving/models/admin_fixture.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;
// Not taken from the machine: the models of the test are small.
constexpr uint64_t kLimit = 64 * kGiB;
const uint64_t kShared = kLimit - HostReserve::Of(kLimit, 0).Sum();
// The bytes that the test's process holds, and those that change meanwhile. A sanitizer keeps
// several times as much as the program.
constexpr uint64_t kOfProcess = 4 * kGiB;

class ModelAdmissionTest : public ModelAdminTest {
 protected:
  ModelAdmissionTest() : ModelAdminTest({.memory_bytes = kLimit, .at_start = {"a"}}) {}

  // A directory whose weights seem to have so many bytes. The file takes no room on the disk.
  void AddWeights(const std::string& name, uint64_t bytes) {
    AddDirectory(name);
    const std::filesystem::path file = roots_.path() / name / "model.safetensors";
    std::ofstream(file) << "x";
    std::filesystem::resize_file(file, bytes);
  }
  uint64_t Budget(const std::string& name) {
    return (*models_->Find(name))->model().backend().memory().budget;
  }
  // Waits until the budget of the model is about `share`.
  void ExpectShare(const std::string& name, uint64_t share) {
    EXPECT_TRUE(WaitUntil([&] {
      return Budget(name) <= share && Budget(name) + kOfProcess >= share;
    })) << name
        << ": " << Budget(name) << ", expected " << share;
  }
};

TEST_F(ModelAdmissionTest, AModelThatDoesNotFitChangesNothing) {
  ExpectShare("a", kShared);
  const SessionId session = Open("a");
  const uint64_t before = Budget("a");
  AddWeights("large", 100 * kGiB);
  const absl::Status refused = Load(Model("large", "large"));
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("weights " + std::to_string(100 * kGiB)));
  EXPECT_THAT(refused.message(), HasSubstr("bytes are available"));
  EXPECT_THAT(refused.message(), HasSubstr(std::to_string(kLimit)));
  EXPECT_TRUE(absl::IsResourceExhausted(Swap(Model("a", "large"))));
  EXPECT_THAT(Versions(), ElementsAre("a 1 2"));
  EXPECT_LE(Budget("a"), before + kOfProcess);
  EXPECT_GE(Budget("a") + kOfProcess, before);
  const Answer answer = Turn(session, "hello", 10);
  EXPECT_TRUE(answer.end.status.ok());
  EXPECT_EQ(answer.end.usage.recomputed_tokens, 0u);
}

TEST_F(ModelAdmissionTest, CachesThatDoNotFitAreRefused) {
  ModelAdmin::Wanted wanted = Model("b");
  wanted.cache_bytes = 100 * kGiB;
  const absl::Status refused = Load(wanted);
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr(std::to_string(100 * kGiB)));
  ExpectShare("a", kShared);
}

TEST_F(ModelAdmissionTest, MemoryIsDividedAnew) {
  ExpectShare("a", kShared);
  ASSERT_TRUE(Load(Model("b")).ok());
  ExpectShare("a", kShared / 2);
  ExpectShare("b", kShared / 2);
  ModelAdmin::Wanted wanted = Model("c");
  constexpr uint64_t kFixed = 12 * kGiB;
  wanted.cache_bytes = kFixed;
  ASSERT_TRUE(Load(wanted).ok());
  EXPECT_EQ(Budget("c"), kFixed);
  ExpectShare("a", (kShared - kFixed) / 2);
  ASSERT_TRUE(Unload("b").ok());
  ExpectShare("a", kShared - kFixed);
  ASSERT_TRUE(Unload("c").ok());
  ExpectShare("a", kShared);
}

TEST_F(ModelAdmissionTest, AnUnloadedModelTakesNoMemory) {
  ASSERT_TRUE(Unload("a").ok());
  ASSERT_TRUE(Load(Model("a", "other")).ok());
  ExpectShare("a", kShared);
}

}  // namespace
}  // namespace longstream
