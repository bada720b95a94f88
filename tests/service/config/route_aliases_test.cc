// Aliases with routes in the configuration.
#include <gtest/gtest.h>

#include <vector>

#include "service/config/server_config.h"

namespace longstream {
namespace {

TEST(CheckConfigTest, RoutesHaveArmsInOrderAndBudgets) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("models:\n- {name: dense, directory: d}\n- {name: a, directory: e}\n"
                             "aliases:\n- name: auto\n  route:\n    arms: [dense, a]\n"
                             "    max_time_to_first_token: 1.5s\n    max_time_per_token: 40ms\n"
                             "    max_session_bytes: 2GiB\n    prompt_tokens: 8\n"
                             "    max_tokens: 9\n- {name: plain, route: {arms: [a]}}",
                             "f", &config)
                  .ok());
  AliasConfig expected{"auto", {{"dense", 0}, {"a", 0}}};
  expected.route =
      RouteConfig{{absl::Milliseconds(1500), absl::Milliseconds(40), uint64_t{2} << 30}, 8, 9};
  AliasConfig plain{"plain", {{"a", 0}}};
  plain.route.emplace();
  EXPECT_EQ(config.aliases, (std::vector<AliasConfig>{expected, plain}));
  EXPECT_TRUE(CheckConfig(config).ok());
  config.aliases[1].arms[0].model = "other";
  EXPECT_EQ(CheckConfig(config).message(),
            "aliases: an arm of plain is no model of this configuration: 'other'");
}

}  // namespace
}  // namespace longstream
