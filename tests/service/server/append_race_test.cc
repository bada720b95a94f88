// An Append call that ends while one of its messages still waits for a text thread.
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

constexpr size_t kRacingText = 1 << 20;

class AppendRaceTest : public ServerTest {
 protected:
  // malloc overwrites freed memory, so the test notices if freed memory is used.
  AppendRaceTest() { mallopt(M_PERTURB, 0x5a); }
  ~AppendRaceTest() override { mallopt(M_PERTURB, 0); }
};

// The call ends before its text is read. When the text thread reaches the text, the call is gone,
// so the thread must not use it.
TEST_F(AppendRaceTest, TheCallEndsBeforeItsTextIsRead) {
  HeldTurns held(&sessions(), kRacingText, std::numeric_limits<uint64_t>::max());
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

    Close(id);
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  absl::SleepFor(absl::Milliseconds(100));  // by now gRPC has released the calls
  held.Release();
}

}  // namespace
}  // namespace longstream
