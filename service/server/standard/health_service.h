// gRPC's health service, with bounds on what a request can make the server hold. gRPC's own
// implementation takes up to seven bytes for each byte of a request.
#ifndef LONGSTREAM_SERVICE_SERVER_STANDARD_HEALTH_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_STANDARD_HEALTH_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.pb.h"
#include "service/server/transport/decoding_service.h"

namespace longstream {

// Thread-safe. Must outlive its calls.
class HealthService final : public DecodingService {
 public:
  // `memory` must outlive the service.
  explicit HealthService(RequestMemory* memory, Authorize authorize = AuthorizeEverybody);

  // Sets the status of a name, and tells it to the calls that watch the name. `Check` answers
  // NOT_FOUND for a name that was not set.
  void SetServing(const std::string& name, bool serving) ABSL_LOCKS_EXCLUDED(mutex_);
  // The name does not exist any more: calls that watch it get SERVICE_UNKNOWN.
  void Forget(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets every status to NOT_SERVING.
  void SetNotServing() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Request = grpc::health::v1::HealthCheckRequest;
  using Response = grpc::health::v1::HealthCheckResponse;
  using ServingStatus = Response::ServingStatus;
  class Watcher;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const Caller& caller,
                                  const Request& request, Response* response)
      ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context,
                                            const Caller& caller, Decoded<Request> request)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // SERVICE_UNKNOWN for a name that was never set.
  ServingStatus StatusOf(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Set(const std::string& name, ServingStatus status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<std::string, ServingStatus> statuses_ ABSL_GUARDED_BY(mutex_);
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_STANDARD_HEALTH_SERVICE_H_
