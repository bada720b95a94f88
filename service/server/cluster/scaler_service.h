// KEDA's external scaler: tells an autoscaler one number of this server's load.
#ifndef LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "externalscaler/externalscaler.pb.h"
#include "service/load/load_meter.h"
#include "service/server/cluster/load_streams.h"
#include "service/server/transport/decoding_service.h"

namespace longstream {

// The caller's ScaledObjectRef says which number (scaler_trigger.h). A server answers for itself
// alone. Thread-safe. Must outlive its calls.
class ScalerService final : public DecodingService {
 public:
  // The pointers must outlive the service.
  ScalerService(LoadMeter* meter, RequestMemory* memory, const LoadStreamLimits& limits);

  size_t open_streams() const { return streams_.open(); }

 private:
  using Object = externalscaler::ScaledObjectRef;
  using Activity = externalscaler::IsActiveResponse;

  grpc::ServerUnaryReactor* IsActive(grpc::CallbackServerContext* context, const Caller& caller,
                                     const Object& object, Activity* response);
  // Tells the activity at once, and then each change.
  grpc::ServerWriteReactor<Activity>* StreamIsActive(grpc::CallbackServerContext* context,
                                                     const Caller& caller, Decoded<Object> object);
  grpc::ServerUnaryReactor* GetMetricSpec(grpc::CallbackServerContext* context,
                                          const Caller& caller, const Object& object,
                                          externalscaler::GetMetricSpecResponse* response);
  grpc::ServerUnaryReactor* GetMetrics(grpc::CallbackServerContext* context, const Caller& caller,
                                       const externalscaler::GetMetricsRequest& request,
                                       externalscaler::GetMetricsResponse* response);

  LoadMeter* const meter_;
  LoadStreams<Activity> streams_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_SERVICE_H_
