// The cluster's listener, with a model whose metrics the test sets, and whose load it measures.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "externalscaler/externalscaler.grpc.pb.h"
#include "service/load/load_meter.h"
#include "service/metrics/model_metrics.h"
#include "service/server/cluster/cluster_server.h"
#include "tests/service/metric_value.h"
#include "xds/orca/v3/orca.grpc.pb.h"

namespace longstream {

class ClusterTest : public testing::Test {
 protected:
  // The meter's own period is so long that only the test measures, unless `period` is given.
  explicit ClusterTest(absl::Duration period = absl::Hours(1), const LoadStreamLimits& limits = {})
      : meter_(registry_, {.places = 4, .memory_limit = uint64_t{1} << 40, .period = period}) {
    ClusterServer::Options options;
    options.listen = "127.0.0.1:0";
    options.streams = limits;
    auto started = ClusterServer::Start(options, &meter_);
    if (!started.ok()) throw std::runtime_error(started.status().ToString());
    cluster_ = *std::move(started);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(cluster_->port()),
                                   grpc::InsecureChannelCredentials());
    orca_ = xds::service::orca::v3::OpenRcaService::NewStub(channel_);
    scaler_ = externalscaler::ExternalScaler::NewStub(channel_);
  }

  double Metric(const std::string& name) const { return MetricValue(*registry_, name); }
  // Measures the load while so many turns run and wait.
  void MeasureWith(size_t running, size_t waiting = 0) {
    model_.SetRequests(running, waiting, 0);
    meter_.Measure();
  }

  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  ModelMetrics model_{registry_.get(), {"m", "1", "dense", "cpu"}};
  LoadMeter meter_;
  std::unique_ptr<ClusterServer> cluster_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<xds::service::orca::v3::OpenRcaService::Stub> orca_;
  std::unique_ptr<externalscaler::ExternalScaler::Stub> scaler_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_
