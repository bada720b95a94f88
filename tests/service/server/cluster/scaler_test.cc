// KEDA's contract, as KEDA calls it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "service/load/load_signals.h"
#include "service/server/cluster/scaler_trigger.h"
#include "tests/service/server/cluster/cluster_fixture.h"

namespace longstream {
namespace {

using externalscaler::GetMetricSpecResponse;
using externalscaler::GetMetricsRequest;
using externalscaler::GetMetricsResponse;
using externalscaler::IsActiveResponse;
using externalscaler::ScaledObjectRef;

using Metadata = std::map<std::string, std::string>;

ScaledObjectRef Object(const Metadata& metadata) {
  ScaledObjectRef object;
  object.set_name("longstream");
  object.set_namespace_("default");
  for (const auto& [key, value] : metadata) (*object.mutable_scalermetadata())[key] = value;
  return object;
}

// The metadata that KEDA sends for a trigger of a ScaledObject.
Metadata Trigger(const std::string& metric, const std::string& target) {
  return {{"scalerAddress", "longstream:50053"}, {"metricName", metric}, {"targetValue", target}};
}

class ScalerTest : public ClusterTest {
 protected:
  bool IsActive(const Metadata& metadata) {
    grpc::ClientContext context;
    IsActiveResponse response;
    const grpc::Status status = scaler_->IsActive(&context, Object(metadata), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.result();
  }
  grpc::Status GetMetrics(const Metadata& metadata, const std::string& name,
                          GetMetricsResponse* response) {
    grpc::ClientContext context;
    GetMetricsRequest request;
    *request.mutable_scaledobjectref() = Object(metadata);
    request.set_metricname(name);
    return scaler_->GetMetrics(&context, request, response);
  }
};

TEST_F(ScalerTest, AMetricHasItsTarget) {
  for (const auto& [target, number, whole] :
       {std::tuple("4", 4.0, 4), std::tuple("0.8", 0.8, 1), std::tuple("1e3", 1000.0, 1000),
        std::tuple("0.001", 0.001, 1)}) {
    grpc::ClientContext context;
    GetMetricSpecResponse response;
    const grpc::Status status =
        scaler_->GetMetricSpec(&context, Object(Trigger("turns_waiting", target)), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.metricspecs_size(), 1);
    EXPECT_EQ(response.metricspecs(0).metricname(), "turns_waiting");
    EXPECT_EQ(response.metricspecs(0).targetsizefloat(), number);
    EXPECT_EQ(response.metricspecs(0).targetsize(), whole);
  }
}

TEST_F(ScalerTest, ValuesAreTheNumbersOfPrometheus) {
  model_.AddGeneratedTokens(100);
  model_.CountRequest("INTERNAL", "");
  MeasureWith(1, 3);
  for (const LoadSignal& signal : kLoadSignals) {
    GetMetricsResponse response;
    const grpc::Status status = GetMetrics(Trigger(signal.name, "1"), signal.name, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.metricvalues_size(), 1);
    EXPECT_EQ(response.metricvalues(0).metricname(), signal.name);
    EXPECT_EQ(response.metricvalues(0).metricvaluefloat(),
              Metric(std::string("longstream_load_") + signal.name));
  }
  GetMetricsResponse response;
  EXPECT_TRUE(GetMetrics(Trigger("turns_running", "1"), "turns_running", &response).ok());
  EXPECT_EQ(response.metricvalues(0).metricvalue(), 1);
  EXPECT_EQ(response.metricvalues(0).metricvaluefloat(), Metric("longstream_requests_running"));
}

TEST_F(ScalerTest, ThereIsWorkAboveTheActivationTarget) {
  Metadata metadata = Trigger("turns_running", "4");
  EXPECT_FALSE(IsActive(metadata));
  MeasureWith(2);
  EXPECT_TRUE(IsActive(metadata));
  metadata["activationTargetValue"] = "1.5";
  EXPECT_TRUE(IsActive(metadata));
  metadata["activationTargetValue"] = "2";
  EXPECT_FALSE(IsActive(metadata));
}

// A client like KEDA's push scaler gets the state at once, and then each change.
TEST_F(ScalerTest, TheStreamTellsChanges) {
  grpc::ClientContext context;
  const auto reader = scaler_->StreamIsActive(&context, Object(Trigger("turns_running", "4")));
  IsActiveResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_FALSE(response.result());
  meter_.Measure();
  for (int i = 0; i < 3; ++i) {
    MeasureWith(1);
    MeasureWith(2);
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_TRUE(response.result());
    MeasureWith(0);
    meter_.Measure();
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_FALSE(response.result());
  }
  cluster_->Shutdown();
  EXPECT_FALSE(reader->Read(&response)) << "there was no other change";
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(ScalerTest, AnotherMetricThanTheTriggers) {
  GetMetricsResponse response;
  const grpc::Status status =
      GetMetrics(Trigger("turns_waiting", "1"), "s0-turns_waiting", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "metricName: expected 'turns_waiting', as in scalerMetadata.metricName");
}

TEST_F(ScalerTest, EveryCallChecksTheMetadata) {
  const ScaledObjectRef object = Object(Trigger("turns_waiting", "0"));
  const std::string error =
      "scalerMetadata.targetValue: expected a number from 0.001 to 1e15, found '0'";
  grpc::ClientContext contexts[3];
  IsActiveResponse active;
  GetMetricSpecResponse spec;
  GetMetricsResponse metrics;
  const auto reader = scaler_->StreamIsActive(&contexts[0], object);
  EXPECT_FALSE(reader->Read(&active));
  for (const grpc::Status& status :
       {reader->Finish(), scaler_->IsActive(&contexts[1], object, &active),
        scaler_->GetMetricSpec(&contexts[2], object, &spec),
        GetMetrics(Trigger("turns_waiting", "0"), "turns_waiting", &metrics)}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), error);
  }
}

TEST(ScalerTriggerTest, Errors) {
  const std::string names = "one of: " + LoadSignalNames();
  const auto number = [](const std::string& key, const char* from, const std::string& found) {
    return "scalerMetadata." + key + ": expected a number " + from + " to 1e15, found " + found;
  };
  const std::pair<Metadata, std::string> cases[] = {
      {{}, "scalerMetadata.metricName: expected " + names + ", found nothing"},
      {{{"targetValue", "1"}}, "scalerMetadata.metricName: expected " + names + ", found nothing"},
      {{{"metricName", "turns_waiting"}}, number("targetValue", "from 0.001", "nothing")},
      {Trigger("turns", "1"), "scalerMetadata.metricName: expected " + names + ", found 'turns'"},
      {Trigger(std::string(65, 'a'), "1"), "scalerMetadata.metricName: expected " + names +
                                               ", found '" + std::string(64, 'a') + "...'"},
      {Trigger("a\n", "1"), "scalerMetadata.metricName: expected " + names + ", found 'a\\n'"},
      {Trigger("turns_waiting", ""), number("targetValue", "from 0.001", "''")},
      {Trigger("turns_waiting", "four"), number("targetValue", "from 0.001", "'four'")},
      {Trigger("turns_waiting", "4 turns"), number("targetValue", "from 0.001", "'4 turns'")},
      {Trigger("turns_waiting", "-1"), number("targetValue", "from 0.001", "'-1'")},
      {Trigger("turns_waiting", "nan"), number("targetValue", "from 0.001", "'nan'")},
      {Trigger("turns_waiting", "inf"), number("targetValue", "from 0.001", "'inf'")},
      {Trigger("turns_waiting", "0.0009"), number("targetValue", "from 0.001", "'0.0009'")},
      {Trigger("turns_waiting", "1e16"), number("targetValue", "from 0.001", "'1e16'")},
      {{{"metricName", "utilization"}, {"targetValue", "1"}, {"activationTargetValue", "-0.1"}},
       number("activationTargetValue", "from 0", "'-0.1'")},
      {{{"metricName", "utilization"}, {"target", "1"}},
       "scalerMetadata: unknown key 'target'; expected one of: metricName, targetValue, "
       "activationTargetValue"},
  };
  for (const auto& [metadata, error] : cases) {
    const auto trigger = ReadTrigger(Object(metadata));
    EXPECT_TRUE(absl::IsInvalidArgument(trigger.status()));
    EXPECT_EQ(trigger.status().message(), error);
  }
}

TEST(ScalerTriggerTest, KeysOfKedaAreIgnored) {
  Metadata metadata = Trigger("utilization", "1e15");
  metadata["enableTLS"] = "false";
  metadata["unsafeSsl"] = "false";
  metadata["activationTargetValue"] = "0";
  const auto trigger = ReadTrigger(Object(metadata));
  ASSERT_TRUE(trigger.ok()) << trigger.status();
  EXPECT_STREQ(trigger->signal->name, "utilization");
  EXPECT_EQ(trigger->target, 1e15);
  EXPECT_EQ(trigger->activation, 0);
}

}  // namespace
}  // namespace longstream
