// With two steps in flight an engine gives exactly the same results as with one. Tested on the
// minimal model and on the demo model of each backend.
#include <gtest/gtest.h>

#include <string>

#include "tests/service/engine/session_scripts.h"

namespace longstream {
namespace {

TEST(SameTokensTest, OfTheMinimalModel) {
  ExpectSameWithTwoInFlight({LONGSTREAM_TEST_PLUGIN_DIR "/asynchronous_minimal.so", ""}, {});
}

class SameTokens : public testing::TestWithParam<std::string> {};

TEST_P(SameTokens, OfADemoModel) {
  const std::string directory = LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam();
  const std::string plugin = LONGSTREAM_TEST_PLUGIN_DIR "/asynchronous_" + GetParam() + ".so";
  ExpectSameWithTwoInFlight({plugin, directory}, {.num_scripts = 16});
}

INSTANTIATE_TEST_SUITE_P(Backends, SameTokens, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace longstream
