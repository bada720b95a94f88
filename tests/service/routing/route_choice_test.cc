// Which arm a route chooses, and why: a table of arms, requests and budgets.
#include "service/routing/route_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace longstream {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Full attention: fast without context, and slower with each token. Times as on two threads.
ArmCosts Dense() {
  ArmCosts costs;
  costs.measured_depth = 16384;
  costs.prefill = {0.002, 1e-6};
  costs.decode = {0.015, 3e-6};
  costs.context_limit = 40960;
  costs.kv_bytes_per_token = 114688;
  costs.page_tokens = 64;
  return costs;
}

// Recurrent layers: slower without context, and almost constant.
ArmCosts Hypenet() {
  ArmCosts costs = Dense();
  costs.prefill = {0.003, 1e-7};
  costs.decode = {0.020, 3e-7};
  costs.context_limit = 1'000'000;
  costs.kv_bytes_per_token = 28672;
  costs.fixed_bytes = 50'000'000;
  return costs;
}

std::vector<RouteArm> Arms() { return {{"dense", Dense()}, {"hypenet", Hypenet()}}; }

RouteAsk Ask(uint64_t prompt, uint64_t tokens) {
  RouteAsk ask;
  ask.prompt_tokens = prompt;
  ask.max_tokens = tokens;
  return ask;
}

struct RouteCase {
  const char* name;
  uint64_t prompt;
  uint64_t tokens;
  std::optional<absl::Duration> first_token;
  std::optional<absl::Duration> per_token;
  uint64_t bytes;
  size_t arm;
  RouteReason reason;
};

TEST(RouteChoiceTest, Table) {
  const auto none = std::nullopt;
  const RouteCase cases[] = {
      // Prefill: dense 0.002 n + 0.5e-6 n^2, hypenet 0.003 n + 0.5e-7 n^2; they cross at n = 2222.
      {"a short prompt", 512, 1, none, none, 0, 0, RouteReason::kLeastTime},
      {"before the crossover", 2200, 1, none, none, 0, 0, RouteReason::kLeastTime},
      {"behind it", 2300, 1, none, none, 0, 1, RouteReason::kLeastTime},
      {"a long answer to a short prompt", 512, 4000, none, none, 0, 1, RouteReason::kLeastTime},
      {"an answer that is almost as long", 512, 1000, none, none, 0, 0, RouteReason::kLeastTime},
      {"both fit: the first one, although it is slower", 8192, 100, absl::Seconds(60), none, 0, 0,
       RouteReason::kPreferred},
      {"dense reads too slowly", 8192, 100, absl::Seconds(40), none, 0, 1,
       RouteReason::kFirstWithin},
      {"dense writes too slowly", 8192, 100, absl::Seconds(60), absl::Milliseconds(30), 0, 1,
       RouteReason::kFirstWithin},
      {"dense takes too much memory", 8192, 100, none, none, 500'000'000, 1,
       RouteReason::kFirstWithin},
      {"hypenet's states take more than dense's few pages", 64, 1, none, none, 20'000'000, 0,
       RouteReason::kPreferred},
      // dense 49.9 / 10, hypenet 27.9 / 10
      {"no arm fits", 8192, 100, absl::Seconds(10), none, 0, 1, RouteReason::kLeastExcess},
      // Time: dense 1.6 times, hypenet 0.3; bytes: dense 95, hypenet 28 times.
      {"the largest excess counts", 8192, 100, absl::Seconds(30), none, 10'000'000, 1,
       RouteReason::kLeastExcess},
      {"the context of dense is too short", 50'000, 100, none, none, 0, 1, RouteReason::kLeastTime},
      {"the context, with a budget that both keep", 50'000, 100, absl::Hours(1), none, 0, 1,
       RouteReason::kFirstWithin},
      {"no context is long enough", 2'000'000, 100, none, none, 0, 1, RouteReason::kLeastExcess},
  };
  for (const RouteCase& test : cases) {
    SCOPED_TRACE(test.name);
    RouteAsk ask = Ask(test.prompt, test.tokens);
    ask.budgets = {test.first_token, test.per_token, test.bytes};
    const RouteDecision decision = ChooseRoute(Arms(), RouteConfig(), ask);
    EXPECT_EQ(decision.arm, test.arm) << decision.text;
    EXPECT_EQ(decision.reason, test.reason) << decision.text;
    // The same budgets in the alias.
    RouteConfig config;
    config.budgets = ask.budgets;
    config.prompt_tokens = test.prompt;
    config.max_tokens = test.tokens;
    const RouteDecision same = ChooseRoute(Arms(), config, RouteAsk());
    EXPECT_EQ(same.arm, test.arm);
    EXPECT_EQ(same.reason, test.reason);
    EXPECT_EQ(same.text, decision.text);
  }
}

TEST(RouteChoiceTest, TheRequestCountsBeforeTheAlias) {
  RouteConfig config;
  config.budgets.time_to_first_token = absl::Seconds(40);
  RouteAsk ask = Ask(8192, 100);
  EXPECT_EQ(ChooseRoute(Arms(), config, ask).arm, 1u);
  ask.budgets.time_to_first_token = absl::Seconds(60);
  EXPECT_EQ(ChooseRoute(Arms(), config, ask).arm, 0u);
  ask.budgets = {};
  ask.budgets.session_bytes = 2'000'000'000;  // the other budget is that of the alias
  EXPECT_EQ(ChooseRoute(Arms(), config, ask).arm, 1u);
}

TEST(RouteChoiceTest, BytesOfTextBecomeTokensOfEachArm) {
  std::vector<RouteArm> arms = Arms();
  arms[0].costs->bytes_per_token = 4;
  arms[1].costs->bytes_per_token = 1;
  RouteAsk ask;
  ask.prompt_bytes = 4000;
  const RouteDecision decision = ChooseRoute(arms, RouteConfig(), ask);
  EXPECT_EQ(decision.arms[0].prompt_tokens, 1000u);
  EXPECT_EQ(decision.arms[1].prompt_tokens, 4000u);
  ask.prompt_tokens = 10;
  EXPECT_EQ(ChooseRoute(arms, RouteConfig(), ask).arms[1].prompt_tokens, 10u);
}

TEST(RouteChoiceTest, ArmsWithoutCostsAreTheLastResort) {
  std::vector<RouteArm> arms = {{"new", std::nullopt}, {"dense", Dense()}};
  RouteDecision decision = ChooseRoute(arms, RouteConfig(), Ask(100, 10));
  EXPECT_EQ(decision.arm, 1u);
  EXPECT_EQ(decision.reason, RouteReason::kLeastTime);
  EXPECT_FALSE(decision.arms[0].measured);
  RouteConfig config;
  config.budgets.time_to_first_token = absl::Seconds(1);
  decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.reason, RouteReason::kFirstWithin);
  EXPECT_THAT(decision.text, HasSubstr("new has not been measured yet"));
  arms[1].costs.reset();
  decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.arm, 0u);
  EXPECT_EQ(decision.reason, RouteReason::kNotMeasured);
}

TEST(RouteChoiceTest, ArmsThatAreNotServedAreTheLastResort) {
  // Dense would be the first within the budget, and the fastest.
  std::vector<RouteArm> arms = Arms();
  arms[0].served = false;
  EXPECT_EQ(ChooseRoute(arms, RouteConfig(), Ask(100, 10)).arm, 1u);
  RouteConfig config;
  config.budgets.time_to_first_token = absl::Seconds(1);
  RouteDecision decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.arm, 1u);
  EXPECT_THAT(decision.text, HasSubstr("dense is not served now"));
  config.budgets.time_to_first_token = absl::Nanoseconds(1);
  decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.arm, 1u) << "beyond the budget, like dense";
  for (RouteArm& arm : arms) arm.costs.reset();
  decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.arm, 1u);
  EXPECT_EQ(decision.reason, RouteReason::kNotMeasured);
  EXPECT_THAT(decision.text, HasSubstr("hypenet is the first that is served"));
  arms[1].served = false;
  EXPECT_EQ(ChooseRoute(arms, config, Ask(100, 10)).arm, 0u) << "none is served";
}

TEST(RouteChoiceTest, EqualArmsAreChosenInTheOrderOfPreference) {
  const std::vector<RouteArm> arms = {{"a", Dense()}, {"b", Dense()}};
  EXPECT_EQ(ChooseRoute(arms, RouteConfig(), Ask(100, 10)).arm, 0u);
  RouteConfig config;
  config.budgets.session_bytes = 1;
  const RouteDecision decision = ChooseRoute(arms, config, Ask(100, 10));
  EXPECT_EQ(decision.arm, 0u);
  EXPECT_EQ(decision.reason, RouteReason::kLeastExcess);
}

TEST(RouteChoiceTest, TheTextHasTheNumbers) {
  RouteConfig config;
  EXPECT_EQ(ChooseRoute(Arms(), config, Ask(1000, 100)).text,
            "dense takes the least time for 1000 prompt tokens and 100 to generate: 4.31 s; "
            "hypenet: 5.08 s");
  config.budgets.time_to_first_token = absl::Seconds(40);
  config.budgets.time_per_token = absl::Milliseconds(50);
  EXPECT_EQ(ChooseRoute(Arms(), config, Ask(8192, 100)).text,
            "hypenet is the first arm within the budgets for 8192 prompt tokens and 100 to "
            "generate: 27.9 s to the first token (at most 40 s), 22.5 ms a token (at most 50 ms); "
            "dense exceeds max_time_to_first_token: 49.9 s to the first token (at most 40 s)");
  config.budgets = {};
  config.budgets.session_bytes = uint64_t{100} << 20;
  EXPECT_THAT(ChooseRoute(Arms(), config, Ask(8192, 100)).text,
              AllOf(HasSubstr("no arm is within the budgets and the context"),
                    HasSubstr("hypenet exceeds max_session_bytes: "),
                    HasSubstr("(at most 100.0 MiB)"), Not(HasSubstr("dense"))));
}

TEST(RouteConfigTest, ErrorsNameTheFieldTheValueAndTheLimit) {
  const auto message = [](const RouteConfig& route) {
    return std::string(CheckRoute(route).message());
  };
  RouteConfig route;
  EXPECT_TRUE(CheckRoute(route).ok());
  route.budgets.time_to_first_token = absl::ZeroDuration();
  EXPECT_EQ(message(route),
            "max_time_to_first_token: expected more than 0 and at most 24h, found 0");
  route.budgets.time_to_first_token = absl::Hours(24);
  route.budgets.time_per_token = absl::Hours(25);
  EXPECT_EQ(message(route), "max_time_per_token: expected more than 0 and at most 24h, found 25h");
  route.budgets.time_per_token.reset();
  route.prompt_tokens = 0;
  EXPECT_EQ(message(route), "prompt_tokens: expected 1 to 2147483648, found 0");
  route.prompt_tokens = 1;
  route.max_tokens = kMaxRouteTokens + 1;
  EXPECT_EQ(message(route), "max_tokens: expected 1 to 2147483648, found 2147483649");
}

}  // namespace
}  // namespace longstream
