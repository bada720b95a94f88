// The metric of sessions that are in the store of a fleet and in the memory of no replica.
#include <prometheus/registry.h>

#include "tests/service/metric_value.h"
#include "tests/service/serving/fleet/replicas.h"

namespace longstream {
namespace {

using FleetStoredCountTest = Replicas;

// A sum over the replicas counts each session once.
TEST_F(FleetStoredCountTest, StoredSessionsCountAtOneReplica) {
  prometheus::Registry registry;
  ModelRegistry models({model_.plugins(), model_.host(), &registry, {}}, {model_.Source()},
                       nullptr);
  ASSERT_TRUE(models.WaitUntilLoaded().ok());
  uint64_t id = 0;
  for (const char* owner : {"c/3", "c/3", "d/4", "d/4", "d/4", "d/4"}) {
    store::SessionRow row;
    row.key = {"", SessionId{5, ++id}};
    row.model = "m";
    row.owner = owner;
    const store::Change open = store::OpenSession{row};
    ASSERT_TRUE(store_->Apply({&open, 1})[0].ok());
  }
  Replica replica(&models, store_.get(), &commits_, "c/3", /*engine_patience=*/absl::Seconds(5),
                  /*look_period=*/absl::Milliseconds(1));
  const auto expect_stored = [&](double stored) {
    EXPECT_EQ(WaitForMetric(registry, stored, "longstream_sessions", {{"state", "stored"}}),
              stored);
  };
  expect_stored(2);
  replica.gate.EndOthers();
  expect_stored(6);
  replica.gate.SetFirst(false);
  expect_stored(2);
}

}  // namespace
}  // namespace longstream
