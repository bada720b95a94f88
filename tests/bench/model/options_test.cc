// The command line of model_bench.
#include "tests/bench/model/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longstream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BenchOptions Parse(const std::string& arguments) {
  BenchOptions options;
  CLI::App app;
  AddBenchOptions(app, &options);
  app.parse(arguments);
  return options;
}

TEST(BenchOptionsTest, WithoutArgumentsABriefRunOfEveryPlan) {
  const BenchOptions options = Parse("");
  EXPECT_EQ(options.shape, "200m");
  EXPECT_THAT(options.plans, ElementsAre("dense", "hwfa2", "hypenet", "chunked"));
  EXPECT_THAT(options.weights, ElementsAre(DType::kBF16));
  EXPECT_THAT(options.threads, ElementsAre(0u));
  EXPECT_FALSE(options.serve);
  EXPECT_FALSE(options.op_times);
  EXPECT_EQ(options.checkpoint, "");
  EXPECT_EQ(options.load, "");
}

TEST(BenchOptionsTest, EveryOptionIsRead) {
  const BenchOptions options = Parse(
      "--shape 0.6b --plan dense,chunked --weights int8,int4 --cache f16 --threads 1,0 --batch 16 "
      "--depths 0,128 --prefill 64 --tokens 8 --rounds 5 --json out.json --op-times");
  EXPECT_EQ(options.shape, "0.6b");
  EXPECT_THAT(options.plans, ElementsAre("dense", "chunked"));
  EXPECT_THAT(options.weights, ElementsAre(DType::kI8, DType::kI4));
  EXPECT_EQ(options.cache, "f16");
  EXPECT_THAT(options.threads, ElementsAre(1u, 0u));
  EXPECT_EQ(options.batch, 16u);
  EXPECT_EQ(options.rounds, 5);
  EXPECT_EQ(options.json, "out.json");
  EXPECT_TRUE(options.op_times);
  using Op = SliceKind::Op;
  EXPECT_THAT(options.slices(),
              ElementsAre(SliceKind{Op::kDecode, 0, 8}, SliceKind{Op::kPrefill, 0, 64},
                          SliceKind{Op::kDecode, 128, 8}, SliceKind{Op::kPrefill, 128, 64}));
  EXPECT_EQ(Parse("--plan dense --checkpoint made").checkpoint, "made");
  EXPECT_EQ(Parse("--plan dense --load made").load, "made");
  EXPECT_TRUE(Parse("--serve --plan dense").serve);
  EXPECT_THAT(Parse("--tokens 0").slices(), ::testing::SizeIs(2));
}

TEST(BenchOptionsTest, ErrorsNameTheOptionAndWhatItTakes) {
  const struct {
    const char *arguments, *option, *sentence;
  } cases[] = {
      {"--checkpoint made", "--checkpoint", "needs one --plan"},
      {"--load made", "--load", "needs one --plan"},
      {"--load made --plan dense --threads 1,2", "--load", "one of --threads"},
      {"--serve", "--serve", "one --plan"},
      {"--serve --plan dense --weights bf16,int8", "--serve", "one of --weights"},
      {"--serve --plan dense --threads 1,2", "--serve", "one of --threads"},
      {"--tokens 0 --prefill 0", "--tokens, --prefill", "nothing to measure"},
      {"--depth 0", "--depth", "not expected"},
      {"--rounds", "--rounds", "required"},
      {"--threads 1,x", "--threads", "x not in range 0 to 1024"},
      {"--batch 0", "--batch", "0 not in range 1 to 256"},
      {"--tokens 8x", "--tokens", "8x not in range 0 to 1024"},
      {"--depths ,", "--depths", "missing"},
      {"--shape 7b", "--shape", "7b not in {0.6b,200m,2b,14b,tiny}"},
      {"--plan dense,sparse", "--plan", "sparse not in {dense,experts,hwfa2,hypenet,chunked}"},
      {"--weights int2", "--weights", "int2"},
      {"--cache int2", "--cache", "int2"},
  };
  for (const auto& test : cases) {
    try {
      Parse(test.arguments);
      ADD_FAILURE() << test.arguments;
    } catch (const CLI::ParseError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(test.option), HasSubstr(test.sentence)));
    }
  }
}

}  // namespace
}  // namespace longstream
