// A request as gRPC received it, and its decoded message.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSPORT_RAW_REQUEST_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSPORT_RAW_REQUEST_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "service/wire/request_memory.h"

namespace longstream {

// The bytes of one message of the type Request. gRPC fills it instead of a Request, so gRPC itself
// parses nothing. Decode reads the bytes.
template <typename Request>
struct RawRequest {
  // gRPC passes requests as const. Decode frees the bytes nevertheless.
  mutable grpc::ByteBuffer bytes;
};

// A decoded message, and the memory that is counted for it.
template <typename Request>
struct Decoded {
  // On the heap, so that a Decoded can be moved.
  std::unique_ptr<Request> message;
  RequestCharge charge;
};

// Decodes the bytes into `message`, and frees them. The error names the type of the message.
absl::Status DecodeBytes(grpc::ByteBuffer* bytes, RequestCharge* charge,
                         google::protobuf::Message* message);

// Decodes a request. `memory` must outlive the result. Errors as for DecodeMessage
// (wire_decoder.h). INVALID_ARGUMENT, too: the client sent no message.
template <typename Request>
absl::StatusOr<Decoded<Request>> Decode(const RawRequest<Request>& raw, RequestMemory* memory) {
  Decoded<Request> decoded{std::make_unique<Request>(), RequestCharge(memory, raw.bytes.Length())};
  absl::Status status = DecodeBytes(&raw.bytes, &decoded.charge, decoded.message.get());
  if (!status.ok()) return status;
  return decoded;
}

}  // namespace longstream

namespace grpc {

// How gRPC fills a RawRequest. It never fails, so every error of a message reaches its call.
template <typename Request>
class SerializationTraits<longstream::RawRequest<Request>> {
 public:
  static Status Deserialize(ByteBuffer* buffer, longstream::RawRequest<Request>* request) {
    request->bytes.Clear();
    request->bytes.Swap(buffer);
    return Status::OK;
  }
};

}  // namespace grpc

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSPORT_RAW_REQUEST_H_
