// A call whose messages are given as bytes.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RAW_CALL_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace longstream {

struct RawAnswer {
  grpc::Status status;
  std::vector<std::string> messages;
};

// Sends the requests one after the other, closes the client's side and returns the answer. `method`
// is a path such as "/longstream.v1.Longstream/GetModel". The requests must outlive the call; the
// client does not copy them. `authorization`: the values of the header of this name. `timeout`: of
// the call.
inline RawAnswer CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                         const std::vector<std::string>& requests,
                         grpc_compression_algorithm compression = GRPC_COMPRESS_NONE,
                         const std::vector<std::string>& authorization = {},
                         std::chrono::milliseconds timeout = std::chrono::hours(1)) {
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_compression_algorithm(compression);
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  for (const std::string& value : authorization) context.AddMetadata("authorization", value);
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  wait();
  for (const std::string& request : requests) {
    const grpc::Slice slice(request.data(), request.size(), grpc::Slice::STATIC_SLICE);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    if (!wait()) break;
  }
  call->WritesDone(nullptr);
  wait();
  RawAnswer answer;
  grpc::ByteBuffer buffer;
  for (call->Read(&buffer, nullptr); wait(); call->Read(&buffer, nullptr)) {
    grpc::Slice whole;
    if (!buffer.DumpToSingleSlice(&whole).ok()) break;
    answer.messages.emplace_back(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  call->Finish(&answer.status, nullptr);
  wait();
  return answer;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSPORT_RAW_CALL_H_
