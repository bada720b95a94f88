// The command line of model_bench.
#include "tests/bench/model/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(const std::vector<std::string>& arguments) {
  try {
    ParseBenchOptions(arguments);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(BenchOptionsTest, WithoutArgumentsABriefRunOfEveryPlan) {
  const BenchOptions options = ParseBenchOptions({});
  EXPECT_EQ(options.shape, "200m");
  EXPECT_THAT(options.plans, ElementsAre("dense", "hwfa2", "hypenet", "chunked"));
  EXPECT_THAT(options.weights, ElementsAre(DType::kBF16));
  EXPECT_THAT(options.threads, ElementsAre(0u));
  EXPECT_FALSE(options.serve);
  EXPECT_FALSE(options.op_times);
  EXPECT_TRUE(ParseBenchOptions({"--op-times"}).op_times);
}

TEST(BenchOptionsTest, EveryOptionIsRead) {
  const BenchOptions options =
      ParseBenchOptions({"--shape",   "0.6b",     "--plan",   "dense,chunked", "--weights",
                         "int8,int4", "--cache",  "f16",      "--threads",     "2",
                         "--batch",   "16",       "--depths", "0,128",         "--prefill",
                         "64",        "--tokens", "8",        "--rounds",      "5",
                         "--json",    "out.json"});
  EXPECT_EQ(options.checkpoint, "");
  EXPECT_EQ(ParseBenchOptions({"--plan", "dense", "--checkpoint", "made"}).checkpoint, "made");
  EXPECT_EQ(options.load, "");
  EXPECT_EQ(ParseBenchOptions({"--plan", "dense", "--load", "made"}).load, "made");
  EXPECT_EQ(options.shape, "0.6b");
  EXPECT_THAT(options.plans, ElementsAre("dense", "chunked"));
  EXPECT_THAT(options.weights, ElementsAre(DType::kI8, DType::kI4));
  EXPECT_EQ(options.cache, "f16");
  EXPECT_THAT(options.threads, ElementsAre(2u));
  EXPECT_THAT(ParseBenchOptions({"--threads", "1,0"}).threads, ElementsAre(1u, 0u));
  EXPECT_EQ(options.batch, 16u);
  EXPECT_EQ(options.rounds, 5);
  EXPECT_EQ(options.json, "out.json");
  using Op = SliceKind::Op;
  EXPECT_THAT(options.slices(),
              ElementsAre(SliceKind{Op::kDecode, 0, 8}, SliceKind{Op::kPrefill, 0, 64},
                          SliceKind{Op::kDecode, 128, 8}, SliceKind{Op::kPrefill, 128, 64}));
}

TEST(BenchOptionsTest, ErrorsNameTheOptionAndWhatItTakes) {
  EXPECT_EQ(Error({"--checkpoint", "made"}), "--checkpoint: needs one --plan");
  EXPECT_THAT(Error({"--load", "made"}), StartsWith("--load: needs one --plan"));
  EXPECT_THAT(Error({"--load", "made", "--plan", "dense", "--threads", "1,2"}),
              HasSubstr("one of --threads"));
  EXPECT_EQ(Error({"--threads", "1,x"}), "--threads: expected a number from 0 to 1024, found x");
  EXPECT_EQ(Error({"--depth", "0"}), "--depth: there is no such option");
  EXPECT_EQ(Error({"--rounds"}), "--rounds: a value is missing");
  EXPECT_EQ(Error({"--batch", "0"}), "--batch: expected a number from 1 to 256, found 0");
  EXPECT_EQ(Error({"--tokens", "8x"}), "--tokens: expected a number from 0 to 1024, found 8x");
  EXPECT_EQ(Error({"--depths", ""}), "--depths: expected a list joined by commas");
  EXPECT_EQ(Error({"--shape", "7b"}),
            "--shape: shape must be one of 0.6b, 200m, 14b, tiny, found 7b");
  EXPECT_THAT(Error({"--plan", "dense,sparse"}), HasSubstr("found sparse"));
  EXPECT_THAT(Error({"--weights", "int2"}), StartsWith("--weights: "));
  EXPECT_THAT(Error({"--cache", "int2"}), StartsWith("--cache: "));
}

TEST(BenchOptionsTest, ThereMustBeSomethingToMeasure) {
  EXPECT_THAT(Error({"--tokens", "0", "--prefill", "0"}), HasSubstr("nothing to measure"));
  EXPECT_EQ(Error({"--tokens", "0"}), "");
}

TEST(BenchOptionsTest, OneModelIsServed) {
  EXPECT_THAT(Error({"--serve"}), HasSubstr("one --plan"));
  EXPECT_THAT(Error({"--serve", "--plan", "dense", "--weights", "bf16,int8"}),
              HasSubstr("one of --weights"));
  EXPECT_THAT(Error({"--serve", "--plan", "dense", "--threads", "1,2"}),
              HasSubstr("one of --threads"));
  EXPECT_TRUE(ParseBenchOptions({"--serve", "--plan", "dense"}).serve);
}

}  // namespace
}  // namespace longstream
