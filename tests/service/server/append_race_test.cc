// An Append whose call ends while one of its messages waits for a thread.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "tests/service/server/held_turns.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

constexpr size_t kLongText = 1 << 20;

class AppendRaceTest : public ServerTest {
 protected:
  // Memory that is freed does not keep what was in it: a use of it is seen.
  AppendRaceTest() { mallopt(M_PERTURB, 0x5a); }
  ~AppendRaceTest() override { mallopt(M_PERTURB, 0); }
};

// The end does not wait for the text, and when the text's time has come nothing reads on from a
// call that is gone.
TEST_F(AppendRaceTest, TheCallEndsBeforeItsTextIsRead) {
  HeldTurns held(&sessions(), kLongText, std::numeric_limits<uint64_t>::max());
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
