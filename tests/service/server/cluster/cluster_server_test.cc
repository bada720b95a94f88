// The cluster's listener: health, ORCA's reports, and its limits.
#include "service/server/cluster/cluster_server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "service/load/load_signals.h"
#include "tests/service/server/cluster/cluster_fixture.h"
#include "tests/service/server/transport/raw_call.h"
#include "tests/service/wait_until.h"

namespace longstream {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using xds::data::orca::v3::OrcaLoadReport;
using xds::service::orca::v3::OrcaLoadReportRequest;

constexpr char kStreamCoreMetrics[] = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

OrcaLoadReportRequest Every(int64_t seconds) {
  OrcaLoadReportRequest request;
  request.mutable_report_interval()->set_seconds(seconds);
  return request;
}

// A stream of reports.
struct Reports {
  Reports(xds::service::orca::v3::OpenRcaService::Stub& stub, const OrcaLoadReportRequest& request)
      : reader(stub.StreamCoreMetrics(&context, request)) {}
  ~Reports() {
    context.TryCancel();
    OrcaLoadReport report;
    while (reader != nullptr && reader->Read(&report)) {
    }
    if (reader != nullptr) reader->Finish();
  }

  OrcaLoadReport Next() {
    OrcaLoadReport report;
    EXPECT_TRUE(reader->Read(&report));
    return report;
  }
  // Reads to the end. REQUIRES: the server ends the stream.
  std::pair<int, grpc::Status> Rest() {
    int reports = 0;
    OrcaLoadReport report;
    while (reader->Read(&report)) ++reports;
    std::pair<int, grpc::Status> rest(reports, reader->Finish());
    reader = nullptr;
    return rest;
  }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<OrcaLoadReport>> reader;
};

using ClusterServerTest = ClusterTest;

TEST_F(ClusterServerTest, ReportsAreTheNumbersOfPrometheus) {
  model_.AddGeneratedTokens(100);
  model_.SetMemory({.kv = 30, .window = 20, .budget = 100});
  for (const char* code : {"OK", "OK", "INTERNAL", "CANCELLED"}) model_.CountRequest(code, "");
  MeasureWith(2, 5);
  Reports reports(*orca_, Every(0));
  const OrcaLoadReport report = reports.Next();

  EXPECT_EQ(report.named_metrics_size(), static_cast<int>(kLoadSignals.size()));
  for (const LoadSignal& signal : kLoadSignals) {
    EXPECT_EQ(report.named_metrics().at(signal.name),
              Metric(std::string("longstream_load_") + signal.name))
        << signal.name;
  }
  EXPECT_EQ(report.named_metrics().at("turns_running"), Metric("longstream_requests_running"));
  EXPECT_EQ(report.named_metrics().at("turns_waiting"), Metric("longstream_requests_waiting"));
  EXPECT_EQ(report.named_metrics().at("turns_waiting"), 5);
  EXPECT_EQ(report.cpu_utilization(), Metric("longstream_load_cpu_utilization"));
  EXPECT_EQ(report.mem_utilization(), Metric("longstream_load_memory_utilization"));
  EXPECT_EQ(report.application_utilization(), Metric("longstream_load_utilization"));
  EXPECT_GT(report.application_utilization(), 0);
  EXPECT_EQ(report.rps_fractional(), Metric("longstream_load_turns_per_second"));
  EXPECT_GT(report.rps_fractional(), 0);
  EXPECT_NEAR(report.eps(), report.rps_fractional() / 4, 1e-6);
  EXPECT_EQ(report.utilization_size(), 1);
  EXPECT_EQ(report.utilization().at("cache_usage"), Metric("longstream_load_cache_usage"));
  EXPECT_EQ(report.utilization().at("cache_usage"), 0.5);
  EXPECT_EQ(report.request_cost_size(), 0);
}

TEST_F(ClusterServerTest, SharesInReportsAreAtMostOne) {
  OrcaLoadReport report;
  FillReport({.utilization = 1.5, .cache_usage = 1.5, .memory_utilization = 1.5}, &report);
  EXPECT_EQ(report.mem_utilization(), 1);
  EXPECT_EQ(report.utilization().at("cache_usage"), 1);
  EXPECT_EQ(report.application_utilization(), 1.5) << "this one may be more";
}

// No client gets reports more often than the load is measured, or more often than it wants.
TEST_F(ClusterServerTest, EachClientHasItsInterval) {
  constexpr int kMeasurements = 20;
  Reports often(*orca_, Every(0)), seldom(*orca_, Every(24 * 3600));
  often.Next();
  seldom.Next();
  for (int i = 0; i < kMeasurements; ++i) {
    meter_.Measure();
    often.Next();
  }
  cluster_->Shutdown();
  for (Reports* const reports : {&often, &seldom}) {
    const auto [more, status] = reports->Rest();
    EXPECT_EQ(more, 0);
    EXPECT_FALSE(status.ok());
  }
}

TEST_F(ClusterServerTest, IntervalsThatAreNone) {
  const auto refused = [this](int64_t seconds, int32_t nanos) {
    OrcaLoadReportRequest request = Every(seconds);
    request.mutable_report_interval()->set_nanos(nanos);
    Reports reports(*orca_, request);
    const grpc::Status status = reports.Rest().second;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_EQ(refused(-1, 0), "report_interval.seconds: expected 0 to 315576000000, found -1");
  EXPECT_EQ(refused(315'576'000'001, 0),
            "report_interval.seconds: expected 0 to 315576000000, found 315576000001");
  EXPECT_EQ(refused(1, -5), "report_interval.nanos: expected 0 to 999999999, found -5");
  EXPECT_EQ(refused(1, 1'000'000'000),
            "report_interval.nanos: expected 0 to 999999999, found 1000000000");
  EXPECT_EQ(cluster_->open_streams(), 0u);
}

TEST_F(ClusterServerTest, MalformedAndLargeRequests) {
  const std::vector<std::string> methods = cluster_->methods();
  for (const std::string& method : methods) {
    const RawAnswer malformed = CallRaw(channel_, method, {"\xff"});
    EXPECT_EQ(malformed.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(malformed.status.error_message(), HasSubstr("malformed at byte 0"));
    const RawAnswer large = CallRaw(channel_, method, {std::string(70'000, 'a')});
    EXPECT_EQ(large.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << method;
  }
  meter_.Measure();
  EXPECT_EQ(cluster_->open_streams(), 0u);
}

// This port asks nobody for a credential, so a new method here needs a thought about what it tells.
TEST_F(ClusterServerTest, TheseMethodsAndNoOthers) {
  EXPECT_THAT(cluster_->methods(),
              UnorderedElementsAre("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                                   kStreamCoreMetrics, "/externalscaler.ExternalScaler/IsActive",
                                   "/externalscaler.ExternalScaler/StreamIsActive",
                                   "/externalscaler.ExternalScaler/GetMetricSpec",
                                   "/externalscaler.ExternalScaler/GetMetrics"));
  for (const char* method :
       {"/longstream.v1.Longstream/ListModels", "/longstream.admin.v1.Admin/ListModels",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallRaw(channel_, method, {""}).status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
}

HealthCheckResponse::ServingStatus StatusOf(const std::shared_ptr<grpc::Channel>& channel,
                                            const std::string& service) {
  grpc::ClientContext context;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = Health::NewStub(channel)->Check(&context, request, &response);
  EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
  return response.status();
}

// A server that drains is alive and not ready.
TEST_F(ClusterServerTest, ReadinessIsThatOfTheServerOfClients) {
  const auto expect = [this](bool ready) {
    for (const char* service : {"", "live"}) {
      EXPECT_EQ(StatusOf(channel_, service), HealthCheckResponse::SERVING) << service;
    }
    for (const char* service : {"ready", "longstream.v1.Longstream"}) {
      EXPECT_EQ(StatusOf(channel_, service),
                ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING)
          << service;
    }
  };
  expect(false);
  for (const bool ready : {true, false, false, true}) {
    cluster_->SetReady(ready);
    expect(ready);
  }
  grpc::ClientContext context;
  HealthCheckRequest request;
  HealthCheckResponse response;
  request.set_service("m");
  EXPECT_EQ(Health::NewStub(channel_)->Check(&context, request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND)
      << "this port does not tell which models there are";
}

TEST_F(ClusterServerTest, AnAddressThatIsInUse) {
  ClusterServer::Options options;
  options.listen = "127.0.0.1:" + std::to_string(cluster_->port());
  const auto second = ClusterServer::Start(options, &meter_);
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cluster.listen: "));
}

class FewStreamsTest : public ClusterTest {
 protected:
  FewStreamsTest() : ClusterTest(absl::Hours(1), {.max_streams = 2}) {}
};

TEST_F(FewStreamsTest, FurtherOnesAreRefused) {
  auto one = std::make_unique<Reports>(*orca_, Every(1));
  Reports two(*orca_, Every(1));
  one->Next();
  two.Next();
  Reports three(*orca_, Every(1));
  const grpc::Status status = three.Rest().second;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "streams are open: 2, which is the limit");
  one = nullptr;
  EXPECT_TRUE(WaitUntil([this] { return cluster_->open_streams() == 1; }));
  Reports four(*orca_, Every(1));
  four.Next();
}

class ImpatientTest : public ClusterTest {
 protected:
  ImpatientTest() : ClusterTest(absl::Milliseconds(1), {.patience = absl::Milliseconds(20)}) {}
};

// The buffers of the connection fill up, and then no report can be sent. gRPC would let them grow
// with the speed of the connection.
TEST_F(ImpatientTest, ReadersThatDoNotReadAreDropped) {
  grpc::ChannelArguments small_buffers;
  small_buffers.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small_buffers.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4096);
  const auto stub = xds::service::orca::v3::OpenRcaService::NewStub(
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(cluster_->port()),
                                grpc::InsecureChannelCredentials(), small_buffers));
  Reports silent(*stub, Every(0));
  silent.Next();
  EXPECT_TRUE(WaitUntil([this] { return cluster_->open_streams() == 0; }));
  EXPECT_EQ(silent.Rest().second.error_code(), grpc::StatusCode::CANCELLED);
}

// Streams begin and end at any moment, also while the server ends.
TEST_F(ImpatientTest, ManyStreamsComeAndGo) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int i = 0; i < 25; ++i) {
        Reports reports(*orca_, Every(0));
        for (int report = 0; report < i % 5; ++report) {
          OrcaLoadReport read;
          reports.reader->Read(&read);
        }
        if (i == 20) cluster_->Shutdown();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cluster_->open_streams(), 0u);
}

}  // namespace
}  // namespace longstream
