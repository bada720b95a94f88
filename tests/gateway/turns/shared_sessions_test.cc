// Which calls several gateways make that share their sessions by notes.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gateway/turns/turn_runner.h"
#include "tests/gateway/turns/scripted_server.h"

namespace longstream::gateway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class SharedSessionsTest : public ScriptedServerTest {
 protected:
  SharedSessionsTest() {
    for (size_t i = 0; i < 2; ++i) Restart(i);
  }

  void Restart(size_t gateway) { runners_[gateway] = NewRunner(/*sessions=*/2, /*durable=*/true); }

  static ConversationTurn TurnOf(const std::vector<std::string>& said) {
    ConversationTurn turn;
    turn.model = "m";
    turn.beginning = NextKey({}, {"alice"});
    turn.reply = [](const client::Generation& generation) {
      v1::Message reply;
      reply.set_role("assistant");
      reply.set_content(generation.text);
      return reply;
    };
    // A user and the model take turns.
    for (size_t i = 0; i < said.size(); ++i) {
      v1::Message* const message = turn.request.mutable_input()->mutable_messages()->add_messages();
      message->set_role(i % 2 == 0 ? "user" : "assistant");
      message->set_content(said[i]);
    }
    return turn;
  }
  // Runs a turn with these messages. Returns its calls.
  std::vector<std::string> Run(size_t gateway, const std::vector<std::string>& said,
                               std::string* error = nullptr) {
    const auto run = [&] {
      std::vector<v1::Note> notes;
      runners_[gateway]->Run(Alice(), TurnOf(said), {}, &receipt_, &notes);
      EXPECT_EQ(notes.size(), 1u);
      runners_[gateway]->PutNotes(Alice(), receipt_.session_id, notes);
    };
    return CallsOf(run, error);
  }

  std::unique_ptr<TurnRunner> runners_[2];
};

TEST_F(SharedSessionsTest, AreFoundByNotesOnlyIfAnAnswerIsUnknown) {
  EXPECT_THAT(Run(0, {"1"}), ElementsAre("open a", "generate a", "note a"));
  EXPECT_THAT(Run(0, {"1", "ok", "2"}), ElementsAre("generate a at 7", "note a"))
      << "the gateway knows it";
  EXPECT_THAT(Run(1, {"1", "ok", "2", "ok", "3"}),
              ElementsAre("find 2", "generate a at 7", "note a"));
  EXPECT_EQ(receipt_.how, Receipt::How::kContinued);
  EXPECT_THAT(Run(0, {"1", "ok", "2", "ok", "3", "ok", "4"}),
              ElementsAre("find 1", "generate a at 7", "note a"))
      << "it looks only behind what it knows";
  EXPECT_THAT(Run(1, {"other"}), ElementsAre("open b", "generate b", "note b"));
  EXPECT_THAT(Run(1, {"never", "heard", "of"}),
              ElementsAre("find 1", "open c", "generate c", "note c"));
}

TEST_F(SharedSessionsTest, ASessionThatHasGoneOnIsForked) {
  Run(0, {"1"});
  Run(1, {"1", "ok", "2"});
  for (const auto code : {grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::ABORTED}) {
    script_.turns = {Fails(code)};
    const std::vector<std::string> calls = Run(0, {"1", "ok", std::to_string(code)});
    EXPECT_THAT(calls, Not(Contains(StartsWith("close"))));
    EXPECT_EQ(receipt_.how, Receipt::How::kForked);
    Restart(0);
  }
}

TEST_F(SharedSessionsTest, ASessionThatIsGoneIsReplaced) {
  Run(0, {"1"});
  script_.turns = {Fails(grpc::StatusCode::NOT_FOUND)};
  EXPECT_THAT(Run(1, {"1", "ok", "2"}),
              ElementsAre("find 1", "generate a at 7", "open b", "generate b", "note b"));
}

// Another replica has it, and does not give it away in time.
TEST_F(SharedSessionsTest, ASessionThatDoesNotComeIsForkedOrReplaced) {
  Run(0, {"1"});
  script_.turns = {Fails(grpc::StatusCode::UNAVAILABLE)};
  EXPECT_THAT(Run(1, {"1", "ok", "2"}),
              ElementsAre("find 1", "generate a at 7", "generate a at 7", "note a"))
      << "it comes";
  Run(0, {"3"});
  script_.turns.assign(60, Fails(grpc::StatusCode::UNAVAILABLE));
  std::string error;
  const std::vector<std::string> calls = Run(1, {"3", "ok", "4"}, &error);
  EXPECT_THAT(calls, Contains(StartsWith("fork b")));
  EXPECT_THAT(calls, Not(Contains("close b"))) << "others may use it";
  EXPECT_EQ(error, "UNAVAILABLE") << "the fork was not there either";

  script_.turns.clear();
  Run(0, {"5"});
  script_.turns.assign(60, Fails(grpc::StatusCode::ABORTED));
  Run(1, {"5", "ok", "6"}, &error);
  EXPECT_EQ(error, "ABORTED");
}

TEST_F(SharedSessionsTest, ASearchThatFailsCostsOnlyTime) {
  Run(0, {"1"});
  script_.finds = {grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "an earlier version")};
  EXPECT_THAT(Run(1, {"1", "ok", "2"}), ElementsAre("find 1", "open b", "generate b", "note b"));
  script_.finds = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "scripted")};
  Restart(1);
  EXPECT_THAT(Run(1, {"1", "ok", "2"}),
              ElementsAre("find 1", "find 1", "generate a at 7", "note a"))
      << "it is made again";
}

TEST_F(SharedSessionsTest, NotesThatCannotBeWrittenCostOnlyTime) {
  script_.puts = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "scripted")};
  EXPECT_THAT(Run(0, {"0"}), ElementsAre("open a", "generate a", "note a", "note a"))
      << "they are written again";
  script_.puts = {grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "scripted")};
  EXPECT_THAT(Run(0, {"1"}), ElementsAre("open b", "generate b", "note b"));
  EXPECT_THAT(Run(1, {"1", "ok", "2"}), ElementsAre("find 1", "open c", "generate c", "note c"));
}

TEST_F(SharedSessionsTest, NotesThatAreNoneOfAGatewayAreIgnored) {
  Run(0, {"1"});
  for (auto& [key, note] : script_.notes) note.set_value("\xff\xff");
  EXPECT_THAT(Run(1, {"1", "ok", "2"}), ElementsAre("find 1", "open b", "generate b", "note b"));
}

TEST_F(SharedSessionsTest, StayInTheStore) {
  for (const char* const said : {"1", "2", "3", "4", "5"}) {
    EXPECT_THAT(Run(0, {said}), Not(Contains(StartsWith("close"))));
  }
  EXPECT_EQ(runners_[0]->index().num_sessions(), 2u) << "the gateway forgets the others";
  runners_[0]->CloseSessions(std::chrono::milliseconds(100));
  EXPECT_THAT(script_.TakeCalls(), IsEmpty());
  EXPECT_THAT(Run(0, {"1", "ok", "6"}), ElementsAre("find 1", "generate a at 7", "note a"));
}

TEST_F(SharedSessionsTest, TurnsThatBeginTogetherExpectThePosition) {
  Run(0, {"1"});
  const auto begun = runners_[1]->MakeBegun(Alice(), 2);
  runners_[1]->BeginTogether(Alice(), TurnOf({"1", "ok", "2"}), begun.get());
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("find 1", "append a at 7", "fork a to b"));
  EXPECT_FALSE(begun->session(0).expected_position.has_value()) << "it has read the prompt";
}

TEST_F(SharedSessionsTest, TurnsThatBeginTogetherForkASessionThatHasGoneOn) {
  Run(0, {"1"});
  script_.appends = {grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "scripted")};
  const auto begun = runners_[1]->MakeBegun(Alice(), 2);
  runners_[1]->BeginTogether(Alice(), TurnOf({"1", "ok", "2"}), begun.get());
  EXPECT_THAT(script_.TakeCalls(),
              ElementsAre("find 1", "append a at 7", "fork a to b", "append b", "fork b to c"));
  EXPECT_EQ(begun->session(0).how, Receipt::How::kForked);
}

}  // namespace
}  // namespace longstream::gateway
