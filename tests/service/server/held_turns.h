// Serves Append and Generate on a port of its own. Its only thread for long texts is blocked until
// Release.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_HELD_TURNS_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_HELD_TURNS_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "service/server/append_reactor.h"
#include "service/server/text_threads.h"
#include "service/server/transport/decoding_service.h"
#include "service/server/turn_reactor.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {

class HeldTurns final : public DecodingService {
 public:
  // `text_bytes`: the length of a text that counts as long. Waiting long texts may hold at most
  // max_waiting_bytes.
  HeldTurns(SessionManager* sessions, size_t text_bytes, uint64_t max_waiting_bytes)
      : DecodingService(&memory_, AuthorizeEverybody),
        sessions_(sessions),
        threads_(1, max_waiting_bytes) {
    AddClientStream("/longstream.v1.Longstream/Append", &HeldTurns::Append);
    AddServerStream("/longstream.v1.Longstream/Generate", &HeldTurns::Generate);
    const auto hold = [this] {
      held_.Notify();
      release_.WaitForNotification();
    };
    EXPECT_TRUE(threads_.Run(text_bytes, 0, hold).ok());
    held_.WaitForNotification();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    stub_ = v1::Longstream::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                                        grpc::InsecureChannelCredentials()));
  }
  ~HeldTurns() override {
    Release();
    server_->Shutdown();
    server_->Wait();
    calls_.WaitUntilNone(MonotonicTime::InfiniteFuture());
  }

  grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* Append(
      grpc::CallbackServerContext* context, const Caller& caller, v1::AppendResponse* response) {
    return NewAppendReactor(context, caller, response, sessions_, &threads_, &memory_, &calls_);
  }
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const Caller& caller,
                                                           Decoded<v1::GenerateRequest> request) {
    auto* reactor =
        NewGenerateReactor(context, caller, std::move(request), sessions_, &threads_, &calls_,
                           /*twin_tools=*/nullptr, /*relays=*/nullptr);
    if (!generates_.HasBeenNotified()) generates_.Notify();
    return reactor;
  }

  v1::Longstream::Stub& stub() { return *stub_; }
  // Waits until a Generate has arrived and its text is queued.
  void WaitForGenerate() const { generates_.WaitForNotification(); }
  void Release() {
    if (!release_.HasBeenNotified()) release_.Notify();
  }

 private:
  SessionManager* const sessions_;
  absl::Notification held_;
  absl::Notification generates_;
  absl::Notification release_;
  CallCount calls_;
  RequestMemory memory_{std::numeric_limits<uint64_t>::max()};
  TextThreads threads_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_HELD_TURNS_H_
