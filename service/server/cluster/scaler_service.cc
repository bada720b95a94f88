// Answers KEDA's questions about one signal.
#include "service/server/cluster/scaler_service.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/server/cluster/scaler_trigger.h"

namespace longstream {
namespace {

bool IsActiveAt(const ScalerTrigger& trigger, const Load& load) {
  return load.*trigger.signal->value > trigger.activation;
}

grpc::ServerUnaryReactor* End(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// The trigger of a request for one metric, which must be the trigger's. KEDA has it from
// GetMetricSpec.
absl::StatusOr<ScalerTrigger> ReadMetricsRequest(const externalscaler::GetMetricsRequest& request) {
  absl::StatusOr<ScalerTrigger> trigger = ReadTrigger(request.scaledobjectref());
  if (!trigger.ok() || request.metricname() == trigger->signal->name) return trigger;
  return absl::InvalidArgumentError(absl::StrCat("metricName: expected '", trigger->signal->name,
                                                 "', as in scalerMetadata.metricName"));
}

}  // namespace

ScalerService::ScalerService(LoadMeter* meter, RequestMemory* memory,
                             const LoadStreamLimits& limits)
    : DecodingService(memory, AuthorizeEverybody), meter_(meter), streams_(meter, limits) {
  AddUnary("/externalscaler.ExternalScaler/IsActive", &ScalerService::IsActive);
  AddServerStream("/externalscaler.ExternalScaler/StreamIsActive", &ScalerService::StreamIsActive);
  AddUnary("/externalscaler.ExternalScaler/GetMetricSpec", &ScalerService::GetMetricSpec);
  AddUnary("/externalscaler.ExternalScaler/GetMetrics", &ScalerService::GetMetrics);
}

grpc::ServerUnaryReactor* ScalerService::IsActive(grpc::CallbackServerContext* context,
                                                  const Caller& /*caller*/, const Object& object,
                                                  Activity* response) {
  const absl::StatusOr<ScalerTrigger> trigger = ReadTrigger(object);
  if (trigger.ok()) response->set_result(IsActiveAt(*trigger, meter_->Latest()));
  return End(context, trigger.status());
}

grpc::ServerWriteReactor<ScalerService::Activity>* ScalerService::StreamIsActive(
    grpc::CallbackServerContext* context, const Caller& /*caller*/, Decoded<Object> object) {
  const absl::StatusOr<ScalerTrigger> trigger = ReadTrigger(*object.message);
  if (!trigger.ok()) return LoadStreams<Activity>::Refuse(trigger.status());
  return streams_.Open(context, [trigger = *trigger, told = std::optional<bool>()](
                                    const Load& load, Activity* response) mutable {
    const bool is_active = IsActiveAt(trigger, load);
    if (told == is_active) return false;
    told = is_active;
    response->set_result(is_active);
    return true;
  });
}

grpc::ServerUnaryReactor* ScalerService::GetMetricSpec(
    grpc::CallbackServerContext* context, const Caller& /*caller*/, const Object& object,
    externalscaler::GetMetricSpecResponse* response) {
  const absl::StatusOr<ScalerTrigger> trigger = ReadTrigger(object);
  if (trigger.ok()) {
    externalscaler::MetricSpec& spec = *response->add_metricspecs();
    spec.set_metricname(trigger->signal->name);
    spec.set_targetsizefloat(trigger->target);
    // For versions of KEDA that know only this field. A target must be above 0.
    spec.set_targetsize(std::max<int64_t>(1, std::llround(trigger->target)));
  }
  return End(context, trigger.status());
}

grpc::ServerUnaryReactor* ScalerService::GetMetrics(
    grpc::CallbackServerContext* context, const Caller& /*caller*/,
    const externalscaler::GetMetricsRequest& request,
    externalscaler::GetMetricsResponse* response) {
  const absl::StatusOr<ScalerTrigger> trigger = ReadMetricsRequest(request);
  if (trigger.ok()) {
    const double value = meter_->Latest().*trigger->signal->value;
    externalscaler::MetricValue& metric = *response->add_metricvalues();
    metric.set_metricname(trigger->signal->name);
    metric.set_metricvaluefloat(value);
    metric.set_metricvalue(std::llround(value));
  }
  return End(context, trigger.status());
}

}  // namespace longstream
