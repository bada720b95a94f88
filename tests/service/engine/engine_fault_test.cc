// Steps that fail: which turns end, and with which status.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

class EngineFault : public testing::Test {
 protected:
  EngineFault()
      : engine_("{}", 0, {}, {LONGSTREAM_BINARY_DIR "/test_plugins/faulty_steps.so", ""}) {}

  std::shared_ptr<SessionTurn> NewTurn(std::string_view prompt, uint64_t max_tokens = 20) {
    return std::make_shared<SessionTurn>(Generate(engine_.Open(), prompt, max_tokens));
  }

  // Starts turns while the engine's thread is blocked, so that they are in the first step together.
  void StartTogether(const std::vector<std::shared_ptr<SessionTurn>>& turns) {
    absl::Notification go_on;
    engine_->Close(engine_.Open(), [&go_on](uint64_t) { go_on.WaitForNotification(); });
    for (const auto& turn : turns) EXPECT_TRUE(engine_.Start(turn).ok());
    go_on.Notify();
  }

  TestEngine engine_;
};

// If a step is refused as a whole, the engine tries its turns one by one. Only the turns that are
// refused again end.
TEST_F(EngineFault, ARefusedStepEndsTheTurnsItIsRefusedFor) {
  const std::string first = RunTurn(*engine_, NewTurn("first")).text;
  const std::string second = RunTurn(*engine_, NewTurn("second")).text;
  const std::vector<std::shared_ptr<SessionTurn>> turns = {NewTurn("first"), NewTurn("with an X"),
                                                           NewTurn("second"), NewTurn("X again")};
  StartTogether(turns);
  std::vector<Outcome> outcomes;
  for (const auto& turn : turns) outcomes.push_back(ReadToEnd(*turn));
  for (const size_t refused : {1, 3}) {
    const absl::Status& status = outcomes[refused].end.status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_NE(status.message().find("there is an X"), std::string::npos) << status;
    EXPECT_EQ(turns[refused]->session->View().position, 0u)
        << "the refused turn was not rolled back";
  }
  EXPECT_TRUE(outcomes[0].end.status.ok()) << outcomes[0].end.status;
  EXPECT_EQ(outcomes[0].text, first);
  EXPECT_TRUE(outcomes[2].end.status.ok()) << outcomes[2].end.status;
  EXPECT_EQ(outcomes[2].text, second);
}

// A running stream loses nothing when a turn joins its step and is refused.
TEST_F(EngineFault, ARefusedStepEndsNoStream) {
  const std::string expected = RunTurn(*engine_, NewTurn("stream", 3000)).text;
  const auto stream = NewTurn("stream", 3000);
  ASSERT_TRUE(engine_.Start(stream).ok());
  while (stream->stream.queued_bytes() == 0) {
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(RunTurn(*engine_, NewTurn("X")).end.status.code(), absl::StatusCode::kInternal);
  }
  const Outcome outcome = ReadToEnd(*stream);
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.text, expected);
}

// RESOURCE_EXHAUSTED tells a client that it may try again.
TEST_F(EngineFault, NoMemoryForAStepIsResourceExhausted) {
  const auto session = engine_.Open();
  const auto turn = [&](std::string_view prompt) {
    return std::make_shared<SessionTurn>(Generate(session, prompt, 5));
  };
  ASSERT_TRUE(RunTurn(*engine_, turn("good")).end.status.ok());
  const absl::Status status = RunTurn(*engine_, turn("M")).end.status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(status.message(), "the backend has no memory: lists of penalties");
  EXPECT_EQ(session->View().position, 9u) << "the failed turn was not rolled back";
  EXPECT_TRUE(RunTurn(*engine_, turn("good")).end.status.ok())
      << "the session can be used after the failure";
}

}  // namespace
}  // namespace longstream
