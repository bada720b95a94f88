// A trigger of KEDA: one number that decides how many replicas run.
#ifndef LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_TRIGGER_H_
#define LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_TRIGGER_H_

#include "absl/status/statusor.h"
#include "externalscaler/externalscaler.pb.h"
#include "service/load/load_signals.h"

namespace longstream {

struct ScalerTrigger {
  const LoadSignal* signal = nullptr;
  double target = 0;      // the value at which the number of replicas is right
  double activation = 0;  // above this value there is work
};

// Reads scalerMetadata: metricName (the name of a signal), targetValue and, if it is there,
// activationTargetValue. Keys that KEDA has for itself are ignored. INVALID_ARGUMENT: the message
// names the key, the value and the limit.
absl::StatusOr<ScalerTrigger> ReadTrigger(const externalscaler::ScaledObjectRef& object);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_CLUSTER_SCALER_TRIGGER_H_
