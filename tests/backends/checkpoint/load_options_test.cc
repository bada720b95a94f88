// LoadOptions: every option, every refusal.
#include "backends/checkpoint/load_options.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/api/path_options.h"
#include "backends/errors/error.h"
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
      "rope_scaling": {"rope_type": "linear", "factor": 2},
      "ignore_keys": ["license", "rope_scaling.acme"]})");
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
  EXPECT_EQ(options.ignore_keys(), (std::vector<std::string>{"license", "rope_scaling.acme"}));
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

// A call could otherwise make the server write files anywhere.
TEST(LoadOptionsTest, AnOptionThatTakesAPathIsAPathOption) {
  size_t paths = 0;
  for (const std::string_view option : LoadOptions::Known()) {
    for (const char* path : {"/etc", "../../x"}) {
      const std::string json = "{\"" + std::string(option) + "\": \"" + path + "\"}";
      bool is_taken = true;
      try {
        const LoadOptions options(json.c_str());
      } catch (const BackendError&) {
        is_taken = false;
      }
      EXPECT_EQ(is_taken, IsPathOption(option)) << option;
      if (is_taken) ++paths;
    }
  }
  EXPECT_EQ(paths, 2 * std::size(kPathOptions)) << "each is known";
}

// Options as text, and the sentence after "options: ".
const std::pair<const char*, const char*> kRefusals[] = {
    {"[]", "expected a JSON object, found array"},
    {R"({"wieghts": "f32"})",
     "wieghts is no option, expected one of weights, cache, packed_cache, rerope_window, "
     "leaky_rerope_factor, window, full_layers, logn, context_limit, training_length, "
     "rope_scaling, ignore_keys"},
    {R"({"ignore_keys": "license"})", "ignore_keys must be a list of strings, found \"license\""},
    {R"({"rope_scaling": "yarn"})", "rope_scaling must be an object, found \"yarn\""},
    {R"({"weights": "f64"})", "weights must be auto, f32, f16, bf16, int8 or int4, found \"f64\""},
    {R"({"weights": 16})", "weights must be a string, found 16"},
    {R"({"cache": "int4"})", "cache must be auto, f32, f16, bf16 or int8, found \"int4\""},
    {R"({"cache": "fp8"})", "cache must be auto, f32, f16, bf16 or int8, found \"fp8\""},
    {R"({"packed_cache": ""})", "packed_cache must be auto, off or a directory, found \"\""},
    {R"({"packed_cache": false})", "packed_cache must be a string, found false"},
    {R"({"rerope_window": 0})", "rerope_window must be an integer from 1 to 1073741824, found 0"},
    {R"({"leaky_rerope_factor": 0.5})",
     "leaky_rerope_factor must be a number from 1 to 1e+09, found 0.5"},
    {R"({"window": "64"})", "window must be an integer from 1 to 1073741824, found \"64\""},
    {R"({"full_layers": [3, 3]})", "full_layers must rise, found [3,3]"},
    {R"({"full_layers": [5, 2]})", "full_layers must rise, found [5,2]"},
    {R"({"full_layers": [-1]})",
     "full_layers must be a list, each item an integer from 0 to 65536, found [-1]"},
    {R"({"logn": "sometimes"})", "logn must be always or extrapolate, found \"sometimes\""},
    {R"({"context_limit": 0})",
     "context_limit must be an integer from 1 to 1099511627776, found 0"},
    {R"({"training_length": 1})",
     "training_length must be an integer from 2 to 1099511627776, found 1"},
};

TEST(LoadOptionsTest, SaysWhatIsWrong) {
  for (const auto& [json, sentence] : kRefusals) {
    SCOPED_TRACE(json);
    ExpectError(LS_INVALID_ARGUMENT, "options: " + std::string(sentence),
                [json = json] { LoadOptions options(json); });
  }
  ExpectError(LS_INVALID_ARGUMENT, StartsWith("options: no valid JSON: "),
              [] { LoadOptions options(""); });
}

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
