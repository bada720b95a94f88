// The table of aliases: what it finds, its changes, and the metrics of arms.
#include "service/serving/aliases/alias_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/service/metric_value.h"

namespace longstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const SessionId kSession{1, 2};

AliasConfig Chat(std::vector<AliasArm> arms) { return {"chat", std::move(arms)}; }

size_t NumSeries(const prometheus::Registry& registry) {
  size_t series = 0;
  for (const prometheus::MetricFamily& family : registry.Collect()) series += family.metric.size();
  return series;
}

TEST(AliasTableTest, FindsWhatWasConfiguredAndSet) {
  AliasTable table({Chat({{"dense", 1}})});
  EXPECT_TRUE(table.Has("chat"));
  EXPECT_FALSE(table.Has("dense"));
  EXPECT_FALSE(table.Choose("dense", kSession).has_value());
  EXPECT_EQ(table.Choose("chat", kSession)->model, "dense");
  EXPECT_EQ(table.Choose("chat", kSession)->alias, "chat");
  EXPECT_EQ(table.Choose("chat", kSession)->metrics, nullptr);
  table.Set({"best", {{"dense", 1}, {"hypenet", 0}}});
  EXPECT_THAT(table.NamesOf("dense"), ElementsAre("best", "chat"));
  EXPECT_THAT(table.NamesOf("hypenet"), ElementsAre("best"));
  EXPECT_THAT(table.NamesOf("other"), IsEmpty());
  EXPECT_EQ(table.List().size(), 2u);
  table.Set(Chat({{"hypenet", 1}}));
  EXPECT_EQ(table.Choose("chat", kSession)->model, "hypenet");
  EXPECT_TRUE(table.Remove("chat"));
  EXPECT_FALSE(table.Remove("chat"));
  EXPECT_FALSE(table.Find("chat").has_value());
}

// Reads prompts in `prefill` seconds a token.
ArmCosts CostsOf(double prefill) {
  ArmCosts costs;
  costs.prefill = {prefill, 0};
  costs.context_limit = 10'000;
  return costs;
}

TEST(AliasTableTest, ARouteChoosesByTheCostsInTheBook) {
  prometheus::Registry registry;
  const auto book = std::make_shared<ArmBook>();
  AliasConfig alias{"auto", {{"dense", 0}, {"hypenet", 0}}};
  alias.route.emplace();
  AliasTable table({Chat({{"other", 1}}), alias}, &registry, book);
  EXPECT_TRUE(book->IsWanted("dense"));
  EXPECT_FALSE(book->IsWanted("other")) << "arms with weights cost nothing";
  EXPECT_EQ(table.Choose("auto", kSession)->model, "dense");
  EXPECT_EQ(table.Choose("auto", kSession)->routing->reason, RouteReason::kNotMeasured);
  const auto is_served = [](const std::string& model) { return model != "dense"; };
  EXPECT_EQ(table.Choose("auto", kSession, {}, is_served)->model, "hypenet");
  book->Put("dense", CostsOf(2));
  book->Put("hypenet", CostsOf(1));
  const auto chosen = table.Choose("auto", kSession, {.prompt_tokens = 10});
  EXPECT_EQ(chosen->model, "hypenet");
  EXPECT_EQ(chosen->routing->reason, RouteReason::kLeastTime);
  EXPECT_EQ(chosen->routing->arms[0].time_to_first_token, 20.0);
  chosen->metrics->CountRouted(NameOf(chosen->routing->reason));
  EXPECT_EQ(MetricValue(registry, "longstream_alias_routed_total",
                        {{"alias", "auto"}, {"arm", "hypenet"}, {"reason", "least_time"}}),
            1);
  RouteAsk ask;
  ask.budgets.time_to_first_token = absl::Hours(1);
  ask.prompt_tokens = 10;
  EXPECT_EQ(table.Choose("auto", kSession, ask)->model, "dense");
  EXPECT_EQ(table.Choose("chat", kSession)->routing, nullptr);
  EXPECT_TRUE(table.Remove("auto"));
  EXPECT_FALSE(book->IsWanted("dense"));
}

TEST(AliasTableTest, ARouteWithoutABookChoosesItsFirstArm) {
  AliasConfig alias{"auto", {{"dense", 0}, {"hypenet", 0}}};
  alias.route.emplace();
  AliasTable table({alias});
  EXPECT_EQ(table.book(), nullptr);
  EXPECT_FALSE(table.CostsOf("dense").has_value());
  EXPECT_EQ(table.Choose("auto", kSession)->routing->reason, RouteReason::kNotMeasured);
  EXPECT_EQ(table.Choose("auto", kSession)->model, "dense");
  alias.arms = {{"hypenet", 0}};
  table.Set(alias);
  EXPECT_EQ(table.Choose("auto", kSession)->model, "hypenet");
  EXPECT_TRUE(table.Remove("auto"));
}

TEST(AliasTableTest, ErrorsOfAModelNameTheAliasAndTheArm) {
  const AliasTable::Chosen chosen{"chat", "hypenet", nullptr};
  EXPECT_TRUE(chosen.Explain(absl::OkStatus()).ok());
  const absl::Status loading = chosen.Explain(absl::UnavailableError("model hypenet is loading"));
  EXPECT_TRUE(absl::IsUnavailable(loading));
  EXPECT_THAT(std::string(loading.message()), HasSubstr("alias chat has chosen its arm hypenet"));
  EXPECT_THAT(std::string(loading.message()), HasSubstr("is loading"));
  const absl::Status missing = chosen.Explain(absl::NotFoundError("no model; available: secret"));
  EXPECT_TRUE(absl::IsFailedPrecondition(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("arm hypenet"));
}

TEST(AliasTableTest, ArmsHaveMetricsUntilTheAliasHasThemNoMore) {
  prometheus::Registry registry;
  AliasTable table({Chat({{"dense", 90}, {"hypenet", 10}})}, &registry);
  const std::map<std::string, std::string> dense = {{"alias", "chat"}, {"arm", "dense"}};
  const std::map<std::string, std::string> hypenet = {{"alias", "chat"}, {"arm", "hypenet"}};
  EXPECT_EQ(MetricValue(registry, "longstream_alias_weight", dense), 90);
  EXPECT_EQ(MetricValue(registry, "longstream_alias_weight", hypenet), 10);
  const std::shared_ptr<ArmMetrics> of_hypenet = table.MetricsOf("chat", "hypenet");
  of_hypenet->CountRequest("OK", "max_tokens");
  of_hypenet->CountSession("OK");
  of_hypenet->AddGeneratedTokens(5);

  table.Set(Chat({{"dense", 50}, {"hypenet", 0}}));
  EXPECT_EQ(table.MetricsOf("chat", "hypenet"), of_hypenet) << "an arm without weight stays";
  EXPECT_EQ(MetricValue(registry, "longstream_alias_weight", hypenet), 0);
  EXPECT_EQ(MetricValue(registry, "longstream_alias_generated_tokens_total", hypenet), 5);
  EXPECT_EQ(MetricValue(registry, "longstream_alias_requests_total",
                        {{"arm", "hypenet"}, {"code", "OK"}, {"finish_reason", "max_tokens"}}),
            1);

  table.Set(Chat({{"dense", 50}}));
  EXPECT_EQ(table.MetricsOf("chat", "hypenet"), nullptr);
  of_hypenet->CountRequest("OK", "context");  // a turn of it has still run
  of_hypenet->ObserveEndToEnd(1);
  EXPECT_EQ(MetricValue(registry, "longstream_alias_requests_total"), 0);
  table.Set(Chat({{"dense", 50}, {"hypenet", 1}}));
  EXPECT_EQ(MetricValue(registry, "longstream_alias_generated_tokens_total", hypenet), 0);
  of_hypenet->AddGeneratedTokens(7);
  EXPECT_EQ(MetricValue(registry, "longstream_alias_generated_tokens_total", hypenet), 0);

  EXPECT_TRUE(table.Remove("chat"));
  EXPECT_EQ(NumSeries(registry), 0u);
}

TEST(AliasTableTest, TheListenerHearsAllChangesInOrder) {
  AliasTable table({Chat({{"dense", 1}})});
  std::vector<size_t> sizes;
  table.SetListener(
      [&](const std::vector<AliasConfig>& aliases) { sizes.push_back(aliases.size()); });
  table.Set({"best", {{"dense", 1}}});
  table.Remove("chat");
  table.Remove("chat");
  table.SetListener(nullptr);
  table.Remove("best");
  EXPECT_THAT(sizes, ElementsAre(1, 2, 1));
}

TEST(AliasTableTest, CallsAndChangesAtTheSameTime) {
  prometheus::Registry registry;
  AliasTable table({Chat({{"a", 1}, {"b", 1}})}, &registry);
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int thread = 0; thread < 3; ++thread) {
    callers.emplace_back([&] {
      for (uint64_t i = 0; !stop.load(); ++i) {
        const auto chosen = table.Choose("chat", {i, i});
        if (!chosen.has_value()) continue;
        chosen->metrics->CountTurn();
        chosen->metrics->ObserveInterTokenLatency(0.01);
        chosen->metrics->CountRequest("OK", "");
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    table.Set(Chat({{"a", 1}, {i % 2 == 0 ? "b" : "c", 1}}));
    if (i % 10 == 0) table.Remove("chat");
    registry.Collect();
  }
  stop.store(true);
  for (std::thread& caller : callers) caller.join();
  table.Remove("chat");
  EXPECT_EQ(NumSeries(registry), 0u);
}

}  // namespace
}  // namespace longstream
