// A counter is made when the first call of its method ends with its code.
#include "service/metrics/calls/call_metrics.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

namespace longstream {
namespace {

// The names of the service and of the method. Both are empty if the program has no such method: a
// client can call any name, and must not make metrics by it.
std::pair<std::string, std::string> NamesOf(std::string_view path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  std::string name(path);
  std::replace(name.begin(), name.end(), '/', '.');
  const google::protobuf::MethodDescriptor* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  if (method == nullptr) return {};
  return {method->service()->full_name(), method->name()};
}

}  // namespace

CallMetrics::CallMetrics(prometheus::Registry* registry, const std::vector<std::string>& watched)
    : family_(prometheus::BuildCounter()
                  .Name("longstream_calls_total")
                  .Help("Calls that have ended, by service, method and status code")
                  .Register(*registry)) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& method : watched) {
    for (const absl::StatusCode code :
         {absl::StatusCode::kOk, absl::StatusCode::kUnknown, absl::StatusCode::kInternal,
          absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss}) {
      Of(method, code);
    }
  }
}

prometheus::Counter* CallMetrics::Of(std::string_view method, absl::StatusCode code) {
  const auto found = counters_.find({std::string(method), code});
  if (found != counters_.end()) return found->second;
  const auto [service, name] = NamesOf(method);
  // All unknown methods have one entry for each code.
  prometheus::Counter*& counter = counters_[{service.empty() ? "" : std::string(method), code}];
  if (counter == nullptr) {
    counter = &family_.Add(
        {{"service", service}, {"method", name}, {"code", absl::StatusCodeToString(code)}});
  }
  return counter;
}

void CallMetrics::Count(std::string_view method, absl::StatusCode code) {
  absl::MutexLock lock(&mutex_);
  Of(method, code)->Increment();
}

}  // namespace longstream
