// Aliases in the configuration.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/config/server_config.h"

namespace longstream {
namespace {

TEST(CheckConfigTest, ArmsOfAliasesAreModels) {
  ServerConfig good;
  ASSERT_TRUE(
      ReadConfigText(
          "models:\n- {name: dense, directory: d}\n- {name: 1, directory: e}\n"
          "aliases:\n- {name: chat, arms: {dense: 90, 1: 10}, shadow: {model: 1, share: 0.5}}",
          "f", &good)
          .ok());
  AliasConfig chat{"chat", {{"dense", 90}, {"1", 10}}};
  chat.shadow = AliasShadow{"1", 0.5};
  EXPECT_EQ(good.aliases, std::vector<AliasConfig>{chat});
  EXPECT_TRUE(CheckConfig(good).ok());
  ServerConfig config = good;
  config.aliases[0].arms[1].model = "other";
  EXPECT_EQ(CheckConfig(config).message(),
            "f:5: aliases[0]: an arm of chat is no model of this configuration: 'other'");
  config = good;
  config.aliases.push_back({"best", {{"chat", 1}}});
  EXPECT_EQ(CheckConfig(config).message(),
            "aliases: an arm of best is no model of this configuration: 'chat'");
  config = good;
  config.aliases[0].shadow = AliasShadow{"best", 0.5};
  EXPECT_EQ(CheckConfig(config).message(),
            "f:5: aliases[0]: the shadow of chat is no model of this configuration: 'best'");
  config = good;
  config.models[1].name = "chat";
  EXPECT_EQ(CheckConfig(config).message(), "f:5: aliases[0]: chat is also the name of a model");
}

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
            "f:13: aliases[1]: an arm of plain is no model of this configuration: 'other'");
}

}  // namespace
}  // namespace longstream
