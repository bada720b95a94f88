// ORCA's load reports beside the requests (out-of-band). Debian's gRPC has no such service.
#ifndef LONGSTREAM_SERVICE_SERVER_CLUSTER_ORCA_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_CLUSTER_ORCA_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "absl/time/time.h"
#include "service/load/load.h"
#include "service/load/load_meter.h"
#include "service/server/cluster/load_streams.h"
#include "service/server/transport/decoding_service.h"
#include "xds/orca/v3/orca.pb.h"
#include "xds/orca/v3/orca_load_report.pb.h"

namespace longstream {

// Fills in a report. Weighted round robin weighs a server by turns_per_second / utilization.
void FillReport(const Load& load, xds::data::orca::v3::OrcaLoadReport* report);

// Sends the first report at once. The least time between two reports is the meter's period.
// Thread-safe. Must outlive its calls.
class OrcaService final : public DecodingService {
 public:
  // The pointers must outlive the service.
  OrcaService(LoadMeter* meter, RequestMemory* memory, const LoadStreamLimits& limits);

  size_t open_streams() const { return streams_.open(); }

 private:
  using Request = xds::service::orca::v3::OrcaLoadReportRequest;
  using Report = xds::data::orca::v3::OrcaLoadReport;

  grpc::ServerWriteReactor<Report>* StreamCoreMetrics(grpc::CallbackServerContext* context,
                                                      const Caller& caller,
                                                      Decoded<Request> request);

  const absl::Duration period_;  // of the meter
  LoadStreams<Report> streams_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_CLUSTER_ORCA_SERVICE_H_
