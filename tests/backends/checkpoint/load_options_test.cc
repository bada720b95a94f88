// LoadOptions: every option, every refusal.
#include "backends/checkpoint/load_options.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/backends/checkpoint/expect_error.h"

namespace longstream {
namespace {

using ::testing::StartsWith;

TEST(LoadOptionsTest, NothingGivenMeansAsStored) {
  for (const LoadOptions& options : {LoadOptions(), LoadOptions(nullptr), LoadOptions("{}")}) {
    EXPECT_FALSE(options.weights());
    EXPECT_FALSE(options.rerope_window());
    EXPECT_FALSE(options.leaky_rerope_factor());
    EXPECT_FALSE(options.window());
    EXPECT_FALSE(options.full_layers());
    EXPECT_FALSE(options.logn());
    EXPECT_FALSE(options.context_limit());
    EXPECT_FALSE(options.training_length());
    EXPECT_EQ(options.packed_cache(), "auto");
    EXPECT_EQ(options.CacheType(DType::kF32), DType::kF32);
    EXPECT_EQ(options.CacheType(DType::kF16), DType::kBF16);
    EXPECT_EQ(options.CacheType(DType::kBF16), DType::kBF16);
  }
}

TEST(LoadOptionsTest, ReadsEveryOption) {
  const LoadOptions options(R"({"weights": "f16", "cache": "f32", "rerope_window": 256,
      "leaky_rerope_factor": 16, "window": 64, "full_layers": [2, 5], "logn": "extrapolate",
      "context_limit": 65536, "training_length": 512, "packed_cache": "/var/cache/packed",
      "rope_scaling": {"rope_type": "linear", "factor": 2}})");
  EXPECT_EQ(options.weights(), DType::kF16);
  EXPECT_EQ(options.CacheType(DType::kF16), DType::kF32);
  EXPECT_EQ(options.rerope_window(), 256);
  EXPECT_EQ(options.leaky_rerope_factor(), 16.0);
  EXPECT_EQ(options.window(), 64);
  EXPECT_EQ(options.full_layers(), (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(options.logn(), "extrapolate");
  EXPECT_EQ(options.context_limit(), 65536);
  EXPECT_EQ(options.training_length(), 512);
  EXPECT_EQ(options.packed_cache(), "/var/cache/packed");
  EXPECT_EQ(options.rope_scaling()->String("rope_type"), "linear");
}

TEST(LoadOptionsTest, QuantisedWeights) {
  EXPECT_EQ(LoadOptions(R"({"weights": "int8"})").weights(), DType::kI8);
  const LoadOptions options(R"({"weights": "int4"})");
  EXPECT_EQ(options.weights(), DType::kI4);
  EXPECT_EQ(options.CacheType(DType::kI4), DType::kBF16);
}

TEST(LoadOptionsTest, Int8CachesAreAskedFor) {
  const LoadOptions options(R"({"cache": "int8"})");
  EXPECT_FALSE(options.weights());
  EXPECT_EQ(options.CacheType(DType::kF32), DType::kI8);
  EXPECT_EQ(options.CacheType(DType::kI8), DType::kI8);
}

TEST(LoadOptionsTest, AutoIsTheDefaultSpelledOut) {
  const LoadOptions options(R"({"weights": "auto", "cache": "auto", "full_layers": []})");
  EXPECT_FALSE(options.weights());
  EXPECT_EQ(options.CacheType(DType::kF32), DType::kF32);
  EXPECT_EQ(options.full_layers(), std::vector<int64_t>());
}

struct Refusal {
  const char* json;
  ls_code code;
  const char* message;
};

class LoadOptionsErrorTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(LoadOptionsErrorTest, NamesTheOption) {
  ExpectError(GetParam().code, StartsWith(GetParam().message),
              [] { LoadOptions options(GetParam().json); });
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadOptionsErrorTest,
    ::testing::Values(
        Refusal{"[]", LS_INVALID_ARGUMENT, "options: expected a JSON object, found array"},
        Refusal{"", LS_INVALID_ARGUMENT, "options: no valid JSON: "},
        Refusal{R"({"wieghts": "f32"})", LS_INVALID_ARGUMENT,
                "options: wieghts is no option, expected one of weights, cache, packed_cache, "
                "rerope_window, leaky_rerope_factor, window, full_layers, logn, context_limit, "
                "training_length, rope_scaling"},
        Refusal{R"({"rope_scaling": "yarn"})", LS_INVALID_ARGUMENT,
                "options: rope_scaling must be an object, found \"yarn\""},
        Refusal{R"({"weights": "f64"})", LS_INVALID_ARGUMENT,
                "options: weights must be auto, f32, f16, bf16, int8 or int4, found \"f64\""},
        Refusal{R"({"weights": 16})", LS_INVALID_ARGUMENT,
                "options: weights must be a string, found 16"},
        Refusal{R"({"cache": "int4"})", LS_INVALID_ARGUMENT,
                "options: cache must be auto, f32, f16, bf16 or int8, found \"int4\""},
        Refusal{R"({"cache": "fp8"})", LS_INVALID_ARGUMENT,
                "options: cache must be auto, f32, f16, bf16 or int8, found \"fp8\""},
        Refusal{R"({"packed_cache": ""})", LS_INVALID_ARGUMENT,
                "options: packed_cache must be auto, off or a directory, found \"\""},
        Refusal{R"({"packed_cache": false})", LS_INVALID_ARGUMENT,
                "options: packed_cache must be a string, found false"},
        Refusal{R"({"rerope_window": 0})", LS_INVALID_ARGUMENT,
                "options: rerope_window must be an integer from 1 to 1073741824, found 0"},
        Refusal{R"({"leaky_rerope_factor": 0.5})", LS_INVALID_ARGUMENT,
                "options: leaky_rerope_factor must be a number from 1 to 1e+09, found 0.5"},
        Refusal{R"({"window": "64"})", LS_INVALID_ARGUMENT,
                "options: window must be an integer from 1 to 1073741824, found \"64\""},
        Refusal{R"({"full_layers": [3, 3]})", LS_INVALID_ARGUMENT,
                "options: full_layers must rise, found [3,3]"},
        Refusal{R"({"full_layers": [5, 2]})", LS_INVALID_ARGUMENT,
                "options: full_layers must rise, found [5,2]"},
        Refusal{R"({"full_layers": [-1]})", LS_INVALID_ARGUMENT,
                "options: full_layers must be a list, each item an integer from 0 to 65536, found "
                "[-1]"},
        Refusal{R"({"logn": "sometimes"})", LS_INVALID_ARGUMENT,
                "options: logn must be always or extrapolate, found \"sometimes\""},
        Refusal{R"({"context_limit": 0})", LS_INVALID_ARGUMENT,
                "options: context_limit must be an integer from 1 to 1099511627776, found 0"},
        Refusal{R"({"training_length": 1})", LS_INVALID_ARGUMENT,
                "options: training_length must be an integer from 2 to 1099511627776, found 1"}));

TEST(LoadOptionsTest, OverridesThatABackendDoesNotServe) {
  const LoadOptions options(R"({"logn": "always", "window": 4, "weights": "f32",
                                "context_limit": 9})");
  ExpectError(
      LS_UNIMPLEMENTED,
      "options: window is not served by the backend dense: name the backend hwfa2",
      [&options] { options.RefuseOverridesBut({"logn"}, "dense", "name the backend hwfa2"); });
  options.RefuseOverridesBut({"logn", "window"}, "hwfa2", "");
}

}  // namespace
}  // namespace longstream
