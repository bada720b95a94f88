// A server with the model "m", and the cluster's listener beside it, whose load a test measures.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "externalscaler/externalscaler.grpc.pb.h"
#include "service/load/load_meter.h"
#include "service/server/cluster/cluster_server.h"
#include "tests/service/metric_value.h"
#include "tests/service/server/server_fixture.h"
#include "xds/orca/v3/orca.grpc.pb.h"

namespace longstream {

class ClusterTest : public ServerTest {
 protected:
  // The meter's own period is so long that only the test measures, unless `period` is given.
  explicit ClusterTest(absl::Duration period = absl::Hours(1), const LoadStreamLimits& limits = {})
      : ServerTest(R"({"step_delay_us": 2000})"),
        meter_(std::shared_ptr<prometheus::Registry>(std::shared_ptr<void>(), registry()),
               {.places = 4, .memory_limit = uint64_t{1} << 40, .period = period}) {
    ClusterServer::Options options;
    options.listen = "127.0.0.1:0";
    options.streams = limits;
    auto started = ClusterServer::Start(options, &meter_);
    if (!started.ok()) throw std::runtime_error(started.status().ToString());
    cluster_ = *std::move(started);
    cluster_channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(cluster_->port()),
                                           grpc::InsecureChannelCredentials());
    orca_ = xds::service::orca::v3::OpenRcaService::NewStub(cluster_channel_);
    scaler_ = externalscaler::ExternalScaler::NewStub(cluster_channel_);
  }
  ~ClusterTest() override { cluster_->Shutdown(); }

  // A turn that runs until the object is destroyed.
  class RunningTurn {
   public:
    explicit RunningTurn(ClusterTest* test)
        : thread_([this, test] {
            v1::GenerateRequest request = test->Request(test->Open());
            request.set_max_tokens(1'000'000);
            test->Generate(request,
                           [this](const v1::GenerateResponse&, grpc::ClientContext* context) {
                             if (ends_) context->TryCancel();
                           });
          }) {}
    ~RunningTurn() {
      ends_ = true;
      thread_.join();
    }
    RunningTurn(const RunningTurn&) = delete;
    RunningTurn& operator=(const RunningTurn&) = delete;

   private:
    std::atomic<bool> ends_ = false;
    std::thread thread_;
  };

  // Waits until so many turns run, and measures the load then.
  void MeasureWith(double running_turns) {
    EXPECT_EQ(WaitForMetric(*registry(), running_turns, "longstream_requests_running"),
              running_turns);
    meter_.Measure();
  }

  LoadMeter meter_;
  std::unique_ptr<ClusterServer> cluster_;
  std::shared_ptr<grpc::Channel> cluster_channel_;
  std::unique_ptr<xds::service::orca::v3::OpenRcaService::Stub> orca_;
  std::unique_ptr<externalscaler::ExternalScaler::Stub> scaler_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_CLUSTER_CLUSTER_FIXTURE_H_
