// Translates loads into reports, at the interval that each client wants.
#include "service/server/cluster/orca_service.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/clock/monotonic_time.h"
#include "service/load/load_signals.h"

namespace longstream {
namespace {

constexpr int64_t kMostIntervalSeconds = 315'576'000'000;  // of a google.protobuf.Duration
constexpr int32_t kMostIntervalNanos = 999'999'999;

absl::StatusOr<absl::Duration> IntervalOf(const google::protobuf::Duration& interval) {
  if (interval.seconds() < 0 || interval.seconds() > kMostIntervalSeconds) {
    return absl::InvalidArgumentError(absl::StrCat("report_interval.seconds: expected 0 to ",
                                                   kMostIntervalSeconds, ", found ",
                                                   interval.seconds()));
  }
  if (interval.nanos() < 0 || interval.nanos() > kMostIntervalNanos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "report_interval.nanos: expected 0 to ", kMostIntervalNanos, ", found ", interval.nanos()));
  }
  return absl::Seconds(interval.seconds()) + absl::Nanoseconds(interval.nanos());
}

}  // namespace

void FillReport(const Load& load, xds::data::orca::v3::OrcaLoadReport* report) {
  report->set_cpu_utilization(load.cpu_utilization);
  report->set_mem_utilization(std::min(1.0, load.memory_utilization));
  report->set_rps_fractional(load.turns_per_second);
  report->set_eps(load.failed_turns_per_second);
  report->set_application_utilization(load.utilization);
  (*report->mutable_utilization())["cache_usage"] = std::min(1.0, load.cache_usage);
  auto& named = *report->mutable_named_metrics();
  for (const LoadSignal& signal : kLoadSignals) named[signal.name] = load.*signal.value;
}

OrcaService::OrcaService(LoadMeter* meter, RequestMemory* memory, const LoadStreamLimits& limits)
    : DecodingService(memory, AuthorizeEverybody),
      period_(meter->period()),
      streams_(meter, limits) {
  AddServerStream("/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics",
                  &OrcaService::StreamCoreMetrics);
}

grpc::ServerWriteReactor<OrcaService::Report>* OrcaService::StreamCoreMetrics(
    grpc::CallbackServerContext* context, const Caller& /*caller*/, Decoded<Request> request) {
  const absl::StatusOr<absl::Duration> interval = IntervalOf(request.message->report_interval());
  if (!interval.ok()) return LoadStreams<Report>::Refuse(interval.status());
  // Measurements come a little before or after their time.
  const absl::Duration pause = *interval - period_ / 2;
  return streams_.Open(context, [pause, next = MonotonicTime::InfinitePast()](
                                    const Load& load, Report* report) mutable {
    const MonotonicTime now = MonotonicTime::Now();
    if (now < next) return false;
    next = now + pause;
    FillReport(load, report);
    return true;
  });
}

}  // namespace longstream
