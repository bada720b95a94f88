// gRPC's reflection service, with bounds on what a request can make the server hold. gRPC's own
// implementation parses requests without bounds and takes a thread for each open stream.
#ifndef LONGSTREAM_SERVICE_SERVER_STANDARD_REFLECTION_SERVICE_H_
#define LONGSTREAM_SERVICE_SERVER_STANDARD_REFLECTION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "service/server/transport/decoding_service.h"

namespace longstream {

// Answers from the descriptors that are linked into the program. Thread-safe.
class ReflectionService final : public DecodingService {
 public:
  // `services`: the full names that the service lists. `memory` must outlive the service.
  ReflectionService(std::vector<std::string> services, RequestMemory* memory,
                    Authorize authorize = AuthorizeEverybody);

 private:
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;
  class Reactor;

  grpc::ServerBidiReactor<RawRequest<Request>, Response>* ServerReflectionInfo(
      grpc::CallbackServerContext* context, const Caller& caller);
  // Fills in the answer to response->original_request().
  void Answer(Response* response) const;

  const std::vector<std::string> services_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_STANDARD_REFLECTION_SERVICE_H_
