// An Append whose call ends while one of its messages waits for a thread.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "service/server/append_reactor.h"
#include "service/server/text_threads.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

constexpr size_t kLongText = 1 << 20;

// The server's Append on a port of its own, with the one thread for long texts held.
class HeldAppend final : public v1::Longstream::CallbackService {
 public:
  explicit HeldAppend(Dispatcher* dispatcher) : dispatcher_(dispatcher) {
    EXPECT_TRUE(threads_.Run(kLongText, 0, [this] { release_.WaitForNotification(); }).ok());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    stub_ = v1::Longstream::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                                        grpc::InsecureChannelCredentials()));
  }
  ~HeldAppend() override {
    Release();
    calls_.WaitUntilNone(MonotonicTime::Now() + absl::Seconds(10));
    server_->Shutdown();
  }

  grpc::ServerReadReactor<v1::AppendRequest>* Append(grpc::CallbackServerContext* context,
                                                     v1::AppendResponse* response) override {
    return NewAppendReactor(context, response, dispatcher_, &threads_, &calls_);
  }

  v1::Longstream::Stub& stub() { return *stub_; }
  void Release() {
    if (!release_.HasBeenNotified()) release_.Notify();
  }

 private:
  Dispatcher* const dispatcher_;
  absl::Notification release_;
  CallCount calls_;
  TextThreads threads_{1, std::numeric_limits<uint64_t>::max()};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

class AppendRaceTest : public ServerTest {
 protected:
  // Memory that is freed does not keep what was in it: a use of it is seen.
  AppendRaceTest() { mallopt(M_PERTURB, 0x5a); }
  ~AppendRaceTest() override { mallopt(M_PERTURB, 0); }
};

// The end does not wait for the text, and when the text's time has come nothing reads on from a
// call that is gone.
TEST_F(AppendRaceTest, TheCallEndsBeforeItsTextIsRead) {
  HeldAppend held(&dispatcher());
  for (int i = 0; i < 20; ++i) {
    const std::string id = Open();
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = held.stub().Append(&context, &response);
    v1::AppendRequest piece;
    piece.set_session_id(id);
    piece.mutable_input()->set_text("short");
    ASSERT_TRUE(writer->Write(piece));
    piece.mutable_input()->set_text(std::string(40000, 'x'));
    ASSERT_TRUE(writer->Write(piece));
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (!Get(id).turn_running() && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));

    grpc::ClientContext close_context;
    v1::CloseSessionRequest close;
    close.set_session_id(id);
    v1::CloseSessionResponse closed;
    ASSERT_TRUE(stub().CloseSession(&close_context, close, &closed).ok());
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  absl::SleepFor(absl::Milliseconds(100));  // gRPC is done with them
  held.Release();
}

}  // namespace
}  // namespace longstream
