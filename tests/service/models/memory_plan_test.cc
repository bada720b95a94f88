// The account of the host's memory while models are loaded.
#include "service/models/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLimit = 800 * kMiB;  // 100 MiB are the reserve
constexpr uint64_t kUsed = 50 * kMiB;

// Needs of a model with sessions of 100 MiB.
constexpr CacheNeed kNeed = {.least = kMiB, .session = 100 * kMiB, .batch = 6400 * kMiB, .held = 0};

class MemoryPlanTest : public testing::Test {
 protected:
  // A model whose checkpoint's file has these bytes.
  ModelSource Model(const std::string& name, uint64_t cache_bytes = 0, uint64_t file_bytes = 0,
                    const std::string& device = "cpu") const {
    std::filesystem::create_directories(directory_.path() / name);
    directory_.Write(name + "/model.safetensors", "");
    std::filesystem::resize_file(directory_.path() / name / "model.safetensors", file_bytes);
    directory_.Write(name + "/tokenizer.json", "not a part of the weights");
    ModelSource source;
    source.name = name;
    source.directory = (directory_.path() / name).string();
    source.device = device;
    source.cache_bytes_budget = cache_bytes;
    return source;
  }

  static uint64_t ShareOf(const MemoryPlan& plan, const std::string& name) {
    bool settled = false;
    for (const MemoryPlan::Share& share : plan.Shares(&settled)) {
      if (share.name == name) return share.bytes;
    }
    return 0;
  }

  const TemporaryDirectory directory_;
};

TEST_F(MemoryPlanTest, TheReserve) {
  EXPECT_EQ(HostReserve::Of(0, 0).Sum(), 0u);
  EXPECT_EQ(HostReserve::Of(100 * kMiB, 0).Sum(), 25 * kMiB);
  EXPECT_EQ(HostReserve::Of(300 * kMiB, 0).Sum(), 64 * kMiB);
  EXPECT_EQ(HostReserve::Of(8192 * kMiB, 0).Sum(), 1024 * kMiB);
  EXPECT_EQ(HostReserve::Of(8192 * kMiB, 0).sessions, 512 * kMiB);
  EXPECT_EQ(HostReserve::Of(65536 * kMiB, 0).sessions, 4096 * kMiB);
  EXPECT_EQ(HostReserve::Of(65536 * kMiB, 0).rest, 1024 * kMiB);
}

TEST_F(MemoryPlanTest, SessionsGetWhatTheConfigurationSays) {
  EXPECT_EQ(HostReserve::Of(kLimit, 1).sessions, 1u);
  EXPECT_EQ(HostReserve::Of(kLimit, 1).rest, 50 * kMiB);
  EXPECT_EQ(HostReserve::Of(kLimit, UINT64_MAX).Sum(), UINT64_MAX);
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a")}, {}, 150 * kMiB);
  EXPECT_EQ(plan.BudgetFor("a").most, 550 * kMiB) << "100 MiB less than by default";
  EXPECT_EQ(plan.reserve().sessions, 150 * kMiB);
  const std::vector<ModelSource> sources = {Model("b", 600 * kMiB)};
  EXPECT_TRUE(CheckCacheBytes(kLimit, sources, {}, 150 * kMiB).ok());
  EXPECT_FALSE(CheckCacheBytes(kLimit, sources, {}, 150 * kMiB + 1).ok());
}

TEST_F(MemoryPlanTest, SessionBytesThatDoNotFitAreRefusedAtTheStart) {
  EXPECT_TRUE(CheckCacheBytes(kLimit, {}, {}, 750 * kMiB).ok());
  for (const uint64_t bytes : {750 * kMiB + 1, UINT64_MAX}) {
    const absl::Status status = CheckCacheBytes(kLimit, {}, {}, bytes);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    for (const std::string& part :
         {std::string("sessions.host_bytes: "), std::to_string(bytes), std::to_string(kLimit)}) {
      EXPECT_THAT(status.message(), HasSubstr(part));
    }
  }
}

TEST_F(MemoryPlanTest, OneModelGetsWhatIsLeft) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a")}, {});
  const HostBudget budget = plan.BudgetFor("a");
  EXPECT_TRUE(budget.refusal.ok()) << budget.refusal;
  EXPECT_EQ(budget.share, 650 * kMiB / 8 * 7);
  EXPECT_EQ(budget.most, 650 * kMiB);
  ASSERT_TRUE(plan.Add("a", 30 * kMiB, kNeed, 0).ok());
  EXPECT_EQ(ShareOf(plan, "a"), 620 * kMiB);
  plan.SetUsed(70 * kMiB);
  EXPECT_EQ(ShareOf(plan, "a"), 620 * kMiB) << "less than what was counted";
  plan.SetUsed(100 * kMiB);
  EXPECT_EQ(ShareOf(plan, "a"), 600 * kMiB) << "more than what was counted";
}

TEST_F(MemoryPlanTest, ALostModelKeepsItsWeightsAndWhatItsSessionsHold) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a"), Model("b"), Model("c", kMiB)},
                  {});
  ASSERT_TRUE(plan.Add("a", 30 * kMiB, kNeed, 0).ok());
  ASSERT_TRUE(plan.Add("b", 20 * kMiB, kNeed, 0).ok());
  ASSERT_TRUE(plan.Add("c", 0, kNeed, 100 * kMiB).ok());
  EXPECT_EQ(ShareOf(plan, "b"), 250 * kMiB);
  bool settled = false;
  plan.SetHeld("a", 40 * kMiB);
  plan.Lose("a");
  EXPECT_EQ(ShareOf(plan, "a"), 0u);
  EXPECT_EQ(ShareOf(plan, "b"), 460 * kMiB);
  plan.Shares(&settled);
  EXPECT_FALSE(settled);
  plan.SetHeld("a", 0);
  EXPECT_EQ(ShareOf(plan, "b"), 500 * kMiB) << "the weights stay in memory";
  plan.Shares(&settled);
  EXPECT_TRUE(settled);
  plan.Lose("c");
  EXPECT_EQ(ShareOf(plan, "b"), 600 * kMiB) << "cache_bytes go back, too";
  plan.Lose("none");
}

TEST_F(MemoryPlanTest, WeightsThatAreNotLoadedYetAreExpected) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a"), Model("b", 0, 250 * kMiB)},
                  {});
  EXPECT_EQ(plan.BudgetFor("a").share, 200 * kMiB / 8 * 7);
  ASSERT_TRUE(plan.Add("a", 0, kNeed, 0).ok());
  EXPECT_EQ(ShareOf(plan, "a"), 200 * kMiB);
  EXPECT_EQ(plan.BudgetFor("b").share, 200 * kMiB / 8 * 7);
  ASSERT_TRUE(plan.Add("b", 150 * kMiB, kNeed, 0).ok()) << "fewer: they were quantised";
  EXPECT_EQ(ShareOf(plan, "a"), 250 * kMiB);
  EXPECT_EQ(ShareOf(plan, "b"), 250 * kMiB);
  plan.Remove("b");
  EXPECT_EQ(ShareOf(plan, "a"), 650 * kMiB);
}

TEST_F(MemoryPlanTest, ModelsWithCacheBytesGetThemFirst) {
  MemoryPlan plan(kLimit, kUsed,
                  std::vector<ModelSource>{Model("a"), Model("b", 400 * kMiB), Model("c")}, {});
  EXPECT_EQ(plan.BudgetFor("a").most, 250 * kMiB);
  EXPECT_EQ(plan.BudgetFor("a").share, 125 * kMiB / 8 * 7);
  EXPECT_EQ(plan.BudgetFor("b").most, 400 * kMiB);
  ASSERT_TRUE(plan.Add("a", 10 * kMiB, kNeed, 0).ok());
  ASSERT_TRUE(plan.Add("b", 20 * kMiB, kNeed, 400 * kMiB).ok());
  ASSERT_TRUE(plan.Add("c", 20 * kMiB, kNeed, 0).ok());
  EXPECT_EQ(ShareOf(plan, "a"), 100 * kMiB);
  EXPECT_EQ(ShareOf(plan, "b"), 0u) << "it has no share";
  EXPECT_EQ(ShareOf(plan, "c"), 100 * kMiB);
}

TEST_F(MemoryPlanTest, TheErrorNamesModelsBytesAndLimit) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a"), Model("b", 600 * kMiB)}, {});
  ASSERT_TRUE(plan.Add("a", 10 * kMiB, kNeed, 0).ok());
  const absl::Status status = plan.Add("b", 100 * kMiB, kNeed, 600 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (const std::string& part :
       {std::to_string(kLimit), std::to_string(HostReserve::Of(kLimit, 0).Sum()),
        std::to_string(160 * kMiB),
        "a (weights and workspace " + std::to_string(10 * kMiB) + ", caches " +
            std::to_string(kMiB) + " at least)",
        "b (weights and workspace " + std::to_string(100 * kMiB) + ", caches cache_bytes " +
            std::to_string(600 * kMiB) + ")"}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_EQ(ShareOf(plan, "a"), 640 * kMiB) << "the refused model is no part of the plan";
}

TEST_F(MemoryPlanTest, CacheBytesThatCannotFitAreRefusedBeforeTheModelIsOpened) {
  MemoryPlan plan(kLimit, kUsed,
                  std::vector<ModelSource>{Model("a", 400 * kMiB), Model("b", 300 * kMiB)}, {});
  const absl::Status refusal = plan.BudgetFor("a").refusal;
  EXPECT_TRUE(absl::IsResourceExhausted(refusal)) << refusal;
  plan.Remove("a");
  EXPECT_TRUE(plan.BudgetFor("b").refusal.ok()) << "the models after it are loaded without it";
}

TEST_F(MemoryPlanTest, NothingLeftForCaches) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a", 0, 700 * kMiB), Model("b")},
                  {});
  EXPECT_TRUE(absl::IsResourceExhausted(plan.BudgetFor("a").refusal));
  plan.Remove("a");
  ASSERT_TRUE(plan.BudgetFor("b").refusal.ok());
  const absl::Status status = plan.Add("b", 649 * kMiB + 1, kNeed, 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << "less than the smallest session needs";
}

// Model a holds more than half when model b arrives. It keeps that until its sessions are closed.
TEST_F(MemoryPlanTest, WhatSessionsHoldIsTakenFromNobody) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a"), Model("b")}, {});
  ASSERT_TRUE(plan.Add("a", 0, kNeed, 0).ok());
  ASSERT_TRUE(plan.Add("b", 250 * kMiB, kNeed, 0).ok());
  plan.SetHeld("a", 300 * kMiB);
  bool settled = true;
  auto shares = plan.Shares(&settled);
  EXPECT_FALSE(settled);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].bytes, 300 * kMiB);
  EXPECT_EQ(shares[1].bytes, 100 * kMiB);
  plan.SetHeld("a", 20 * kMiB);
  shares = plan.Shares(&settled);
  EXPECT_TRUE(settled);
  EXPECT_EQ(shares[0].bytes, 200 * kMiB);
  EXPECT_EQ(shares[1].bytes, 200 * kMiB);
}

TEST_F(MemoryPlanTest, ModelsOnGpusTakeNothing) {
  MemoryPlan plan(
      kLimit, kUsed,
      std::vector<ModelSource>{Model("gpu", 900 * kMiB, 500 * kMiB, "cuda:0"), Model("b")}, {});
  EXPECT_EQ(plan.BudgetFor("gpu").most, 0u) << "all of the GPU's memory";
  EXPECT_EQ(plan.BudgetFor("b").share, 650 * kMiB / 8 * 7);
  EXPECT_TRUE(plan.Add("gpu", 900 * kMiB, kNeed, 0).ok());
  EXPECT_EQ(ShareOf(plan, "gpu"), 0u);
}

TEST_F(MemoryPlanTest, AModelThatMayRunOnAGpuRefusesNoOther) {
  const auto gpu = Plugin::Load(LONGSTREAM_BINARY_DIR "/test_plugins/registry_for_gpus.so");
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  const std::vector<std::shared_ptr<const Plugin>> plugins = {*gpu};
  const std::vector<ModelSource> sources = {Model("a"),
                                            Model("either", 9000 * kMiB, 900 * kMiB, "auto")};
  EXPECT_TRUE(CheckCacheBytes(kLimit, sources, plugins).ok());
  MemoryPlan plan(kLimit, kUsed, sources, plugins);
  EXPECT_TRUE(plan.BudgetFor("a").refusal.ok());
  EXPECT_EQ(plan.BudgetFor("a").most, 650 * kMiB);
  EXPECT_EQ(plan.BudgetFor("a").share, 325 * kMiB / 8 * 7);
  ASSERT_TRUE(plan.Add("a", 0, kNeed, 0).ok());
  EXPECT_EQ(ShareOf(plan, "a"), 325 * kMiB);
  EXPECT_EQ(plan.BudgetFor("either").most, 9000 * kMiB);
  EXPECT_TRUE(absl::IsResourceExhausted(plan.BudgetFor("either").refusal))
      << "only for the host's memory";
  EXPECT_TRUE(absl::IsResourceExhausted(plan.Add("either", 0, kNeed, 9000 * kMiB)));
  EXPECT_EQ(ShareOf(plan, "a"), 650 * kMiB);
}

TEST_F(MemoryPlanTest, WithoutALimitThereIsNoPlan) {
  const MemoryPlan plan(0, kUsed, std::vector<ModelSource>{Model("a")}, {});
  EXPECT_FALSE(plan.is_active());
  EXPECT_EQ(plan.BudgetFor("a").most, 0u);
  EXPECT_EQ(plan.BudgetFor("a").share, 0u);
}

TEST_F(MemoryPlanTest, CacheBytesOfAllModelsAreCheckedAtTheStart) {
  const std::vector<ModelSource> sources = {Model("a", 400 * kMiB),
                                            Model("b", 301 * kMiB, 0, "auto"), Model("c"),
                                            Model("d", 9000 * kMiB, 0, "cuda")};
  const absl::Status status = CheckCacheBytes(kLimit, sources, {});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (const std::string& part :
       {"a (" + std::to_string(400 * kMiB) + "), b (" + std::to_string(301 * kMiB) + ")",
        std::to_string(701 * kMiB), std::to_string(kLimit), std::to_string(100 * kMiB)}) {
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
  EXPECT_TRUE(CheckCacheBytes(kLimit + 2 * kMiB, sources, {}).ok());
  EXPECT_TRUE(CheckCacheBytes(0, std::vector<ModelSource>{Model("c")}, {}).ok());
}

TEST_F(MemoryPlanTest, AModelIsExpectedBesideTheOthers) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a")}, {});
  ASSERT_TRUE(plan.Add("a", 30 * kMiB, kNeed, 0).ok());
  ASSERT_EQ(ShareOf(plan, "a"), 620 * kMiB);
  ModelSource source = Model("b", 0, 100 * kMiB);
  directory_.Write("b/config.json",
                   R"({"hidden_size": 256, "intermediate_size": 768, "vocab_size": 1024,
                       "num_hidden_layers": 4, "num_attention_heads": 4,
                       "num_key_value_heads": 2})");
  source.max_batch_tokens = 100;
  source.max_batch_sequences = 10;
  ASSERT_TRUE(plan.Expect("b version 1", source, {}).ok());
  // The rest is divided equally, but for what the session of one page needs.
  const uint64_t workspace = 4 * (100 * (6 * 256 + 2 * 768) + 10 * 1024);
  EXPECT_LE(ShareOf(plan, "a"), (520 * kMiB - workspace) / 2 + kMiB);
  EXPECT_GE(ShareOf(plan, "a"), (520 * kMiB - workspace) / 2 - kMiB);
  EXPECT_TRUE(plan.CheckHeld().ok());
  plan.SetHeld("a", 600 * kMiB);
  const absl::Status held = plan.CheckHeld();
  EXPECT_TRUE(absl::IsResourceExhausted(held));
  EXPECT_THAT(held.message(), HasSubstr(std::to_string(600 * kMiB)));
  plan.Remove("b version 1");
  EXPECT_EQ(ShareOf(plan, "a"), 620 * kMiB);
}

// The activations of a mixture of experts: each row is copied for each of its experts.
TEST_F(MemoryPlanTest, ExpertsAreExpected) {
  const auto workspace = [&](const char* keys) {
    ModelSource source = Model("experts");
    source.max_batch_tokens = 100;
    directory_.Write("experts/config.json",
                     R"({"hidden_size": 256, "intermediate_size": 768)" + std::string(keys) + "}");
    return ExpectedMemory::Of(source).workspace;
  };
  EXPECT_EQ(workspace(""), 4u * 100 * (6 * 256 + 2 * 768));
  EXPECT_EQ(workspace(R"(, "num_experts_per_tok": 8, "moe_intermediate_size": 96)"),
            4u * 100 * (6 * 256 + 8 * (256 + 96) + 256));
  EXPECT_EQ(workspace(R"(, "num_experts_per_tok": 2, "shared_intermediate_size": 512)"),
            4u * 100 * (6 * 256 + 2 * (256 + 768) + 256 + 512));
}

TEST_F(MemoryPlanTest, AModelThatDoesNotFitIsNotExpected) {
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a")}, {});
  ASSERT_TRUE(plan.Add("a", 30 * kMiB, kNeed, 0).ok());
  // 620 MiB are left beside a's weights, and a needs one of them.
  EXPECT_TRUE(plan.Expect("fits", Model("fits", 0, 619 * kMiB), {}).ok());
  plan.Remove("fits");
  const absl::Status refused = plan.Expect("b", Model("b", 0, 619 * kMiB + 1), {});
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  for (const uint64_t bytes : {619 * kMiB + 1, 619 * kMiB, kLimit}) {
    EXPECT_THAT(refused.message(), HasSubstr(std::to_string(bytes)));
  }
  EXPECT_EQ(ShareOf(plan, "a"), 620 * kMiB);
  EXPECT_TRUE(plan.Expect("c", Model("c", 619 * kMiB), {}).ok()) << "cache_bytes";
  EXPECT_FALSE(plan.Expect("d", Model("d", kMiB), {}).ok());
  EXPECT_TRUE(plan.Expect("gpu", Model("gpu", 0, kLimit, "cuda"), {}).ok());
  MemoryPlan none(0, kUsed, {}, {});
  EXPECT_TRUE(none.Expect("b", Model("b", 0, kLimit), {}).ok());
}

// The plan cannot know whether there is a GPU: only the host's memory is refused.
TEST_F(MemoryPlanTest, AnExpectedModelThatMayRunOnAGpuIsRefusedForTheHostOnly) {
  const auto gpu = Plugin::Load(LONGSTREAM_BINARY_DIR "/test_plugins/registry_for_gpus.so");
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  const std::vector<std::shared_ptr<const Plugin>> plugins = {*gpu};
  MemoryPlan plan(kLimit, kUsed, std::vector<ModelSource>{Model("a")}, plugins);
  ASSERT_TRUE(plan.Add("a", 30 * kMiB, kNeed, 0).ok());
  ASSERT_TRUE(plan.Expect("large", Model("large", 0, 619 * kMiB + 1, "auto"), plugins).ok());
  EXPECT_EQ(ShareOf(plan, "a"), 310 * kMiB) << "it takes no more than a share";
  const absl::Status refused = plan.BudgetFor("large").refusal;
  ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  for (const uint64_t bytes : {619 * kMiB + 1, 619 * kMiB, kLimit}) {
    EXPECT_THAT(refused.message(), HasSubstr(std::to_string(bytes)));
  }
  plan.Remove("large");

  ASSERT_TRUE(plan.Expect("b", Model("b", 0, 100 * kMiB, "auto"), plugins).ok());
  const HostBudget budget = plan.BudgetFor("b");
  EXPECT_TRUE(budget.refusal.ok()) << budget.refusal;
  EXPECT_EQ(budget.most, 520 * kMiB) << "beside its own weights";
  plan.SetHeld("a", 519 * kMiB);
  EXPECT_TRUE(plan.BudgetFor("b").refusal.ok());
  plan.SetHeld("a", 520 * kMiB + 1);
  const absl::Status held = plan.BudgetFor("b").refusal;
  EXPECT_TRUE(absl::IsResourceExhausted(held)) << held;
  EXPECT_THAT(held.message(), HasSubstr("running turns hold"));
  plan.Remove("b");
  EXPECT_EQ(ShareOf(plan, "a"), 620 * kMiB);
  EXPECT_FALSE(plan.Expect("c", Model("c", 0, 619 * kMiB + 1, "auto"), {}).ok())
      << "without a plugin for GPUs it runs on the host";
}

}  // namespace
}  // namespace longstream
