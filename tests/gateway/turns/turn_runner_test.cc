// Which calls a turn makes, with a server that does what the test says.
#include "gateway/turns/turn_runner.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cancellation.h"
#include "tests/gateway/turns/scripted_server.h"

namespace longstream::gateway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TurnRunnerTest : public ScriptedServerTest {
 protected:
  static ConversationTurn TurnOf(const std::vector<std::string>& said, const std::string& owner) {
    ConversationTurn turn;
    turn.model = "m";
    turn.beginning = NextKey({}, {owner});
    for (const std::string& text : said) {
      v1::Message* const message = turn.request.mutable_input()->mutable_messages()->add_messages();
      message->set_role("user");
      message->set_content(text);
    }
    return turn;
  }

  // Sessions for three turns of alice with these messages.
  std::unique_ptr<BegunTurns> Begin(const std::vector<std::string>& said) {
    auto begun = MakeBegun();
    runner_->BeginTogether(Alice(), TurnOf(said, "alice"), begun.get());
    return begun;
  }
  std::unique_ptr<BegunTurns> MakeBegun() { return runner_->MakeBegun(Alice(), 3); }
  std::vector<std::string> RunBegun(const std::vector<std::string>& said, BegunTurns* begun,
                                    size_t answer) {
    return Run(said, nullptr, "alice", {}, {begun, answer});
  }
  // Runs a turn with these messages of a user. Returns its calls; `error`: how it failed.
  std::vector<std::string> Run(const std::vector<std::string>& said, std::string* error = nullptr,
                               const std::string& owner = "alice",
                               const client::Connection::OnMessage& on_message = {},
                               const BegunTurn& begun = {}) {
    ConversationTurn turn = TurnOf(said, owner);
    turn.begun = begun;
    turn.reply = [](const client::Generation& generation) {
      v1::Message reply;
      reply.set_role("user");  // so that tests can repeat it as one of `said`
      reply.set_content(generation.text);
      return reply;
    };
    client::Cancellation cancellation;
    client::Caller caller;
    caller.authorization = owner;
    caller.cancellation = &cancellation;
    return CallsOf([&] { runner_->Run(caller, turn, on_message, &receipt_); }, error);
  }

  const std::unique_ptr<TurnRunner> runner_ = NewRunner(/*sessions=*/3, /*durable=*/false);
};

TEST_F(TurnRunnerTest, ContinuesAndForks) {
  EXPECT_THAT(Run({"1"}), ElementsAre("open a", "generate a"));
  EXPECT_EQ(receipt_.how, Receipt::How::kNew);
  EXPECT_THAT(Run({"1", "ok", "2"}), ElementsAre("generate a"));
  EXPECT_EQ(receipt_.how, Receipt::How::kContinued);
  EXPECT_THAT(Run({"1", "ok", "3"}), ElementsAre("fork a to b", "generate b"));
  EXPECT_EQ(receipt_.how, Receipt::How::kForked);
  EXPECT_THAT(Run({"1", "ok", "2", "ok", "4"}), ElementsAre("generate a"));
  EXPECT_THAT(Run({"1", "ok", "2"}, nullptr, "bob"), ElementsAre("open c", "generate c"))
      << "another owner's conversation";
}

TEST_F(TurnRunnerTest, ANewSessionOfAFailedTurnIsClosed) {
  std::string error;
  script_.turns = {Fails(grpc::StatusCode::INVALID_ARGUMENT)};
  EXPECT_THAT(Run({"1"}, &error), ElementsAre("open a", "generate a", "close a"));
  EXPECT_EQ(error, "INVALID_ARGUMENT");
  EXPECT_EQ(runner_->index().num_sessions(), 0u);
}

TEST_F(TurnRunnerTest, AContinuedSessionOfAFailedTurnStays) {
  std::string error;
  Run({"1"});
  script_.turns = {Fails(grpc::StatusCode::RESOURCE_EXHAUSTED)};
  EXPECT_THAT(Run({"1", "ok", "2"}, &error), ElementsAre("generate a"));
  EXPECT_EQ(error, "RESOURCE_EXHAUSTED");
  EXPECT_THAT(Run({"1", "ok", "2"}), ElementsAre("generate a"));
}

TEST_F(TurnRunnerTest, AForkOfAFailedTurnIsClosed) {
  std::string error;
  Run({"1"});
  Run({"1", "ok", "2"});
  script_.turns = {Fails(grpc::StatusCode::INVALID_ARGUMENT)};
  EXPECT_THAT(Run({"1", "ok", "3"}, &error), ElementsAre("fork a to b", "generate b", "close b"));
  EXPECT_EQ(runner_->index().num_sessions(), 1u);
}

TEST_F(TurnRunnerTest, ASessionThatHasChangedIsReplacedOnce) {
  for (const auto code : {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::FAILED_PRECONDITION,
                          grpc::StatusCode::ABORTED}) {
    SCOPED_TRACE(code);
    std::string error;
    const std::string first = std::to_string(code);  // a conversation of its own
    Run({first});
    script_.turns = {Fails(code)};
    const std::vector<std::string> calls = Run({first, "ok", "2"});
    ASSERT_EQ(calls.size(), 4u);
    EXPECT_EQ(calls[0].substr(0, 8), "generate");
    EXPECT_EQ(calls[1].substr(0, 5), "close");
    EXPECT_EQ(calls[2].substr(0, 4), "open");
    EXPECT_EQ(calls[3].substr(0, 8), "generate");
    // A request that fails in every session ends.
    script_.turns = {Fails(code), Fails(code), Fails(code), Fails(code)};
    Run({first, "ok", "2", "ok", "3"}, &error);
    EXPECT_NE(error, "");
    EXPECT_GE(script_.turns.size(), 2u);
    script_.turns.clear();
  }
}

TEST_F(TurnRunnerTest, ANewSessionThatIsLostIsReplacedOnce) {
  std::string error;
  script_.turns = {Fails(grpc::StatusCode::NOT_FOUND)};
  EXPECT_THAT(Run({"1"}), ElementsAre("open a", "generate a", "close a", "open b", "generate b"));
  script_.turns = {Fails(grpc::StatusCode::NOT_FOUND), Fails(grpc::StatusCode::NOT_FOUND)};
  Run({"x"}, &error);
  EXPECT_EQ(error, "UNAVAILABLE") << "the client knows of no session";
}

TEST_F(TurnRunnerTest, NothingIsTriedAgainAfterTheFirstMessage) {
  std::string error;
  Run({"1"});
  script_.turns = {Fails(grpc::StatusCode::ABORTED, /*starts=*/true)};
  EXPECT_THAT(Run({"1", "ok", "2"}, &error), ElementsAre("generate a", "close a"));
  EXPECT_EQ(error, "ABORTED");
}

TEST_F(TurnRunnerTest, ASessionThatCannotBeForkedIsNotNeeded) {
  Run({"1"});
  Run({"1", "ok", "2"});
  script_.forks = {grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "")};
  EXPECT_THAT(Run({"1", "ok", "3"}), ElementsAre("fork a to b", "open b", "generate b"));
  EXPECT_EQ(receipt_.how, Receipt::How::kNew);
}

TEST_F(TurnRunnerTest, ASessionThatMayHaveBeenOpenedIsClosed) {
  std::string error;
  script_.opens = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "")};
  EXPECT_THAT(Run({"1"}, &error), ElementsAre("open a", "close a"));
  EXPECT_EQ(error, "UNAVAILABLE");
  script_.opens = {grpc::Status(grpc::StatusCode::NOT_FOUND, "no model")};
  EXPECT_THAT(Run({"1"}, &error), ElementsAre("open b"));
  EXPECT_EQ(error, "NOT_FOUND");
}

TEST_F(TurnRunnerTest, WithoutRoomTheSameOwnerGivesUpASession) {
  std::string error;
  Run({"1"});
  Run({"2"}, nullptr, "bob");
  const grpc::Status full(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  script_.opens = {full};
  EXPECT_THAT(Run({"3"}), ElementsAre("open c", "close a", "open c", "generate c"));
  script_.opens = {full, full, full};
  EXPECT_THAT(Run({"4"}, &error), ElementsAre("open d", "close c", "open d"));
  EXPECT_EQ(error, "RESOURCE_EXHAUSTED");
  script_.opens.clear();
  EXPECT_THAT(Run({"2", "ok", "x"}, nullptr, "bob"), ElementsAre("generate b"));
}

TEST_F(TurnRunnerTest, BeyondTheLimitTheOldestSessionIsClosed) {
  for (const char* const text : {"1", "2", "3"}) Run({text});
  EXPECT_THAT(Run({"4"}), ElementsAre("open d", "generate d", "close a"));
  EXPECT_EQ(runner_->index().num_sessions(), 3u);
}

TEST_F(TurnRunnerTest, AClientThatHasEnoughEndsTheTurn) {
  std::string error;
  const auto calls = Run({"1"}, &error, "alice", [](const v1::GenerateResponse&) { return false; });
  EXPECT_EQ(calls.front(), "open a");
  EXPECT_EQ(calls.back(), "close a");
  EXPECT_EQ(runner_->index().num_sessions(), 0u);
}

TEST_F(TurnRunnerTest, TurnsThatBeginTogetherShareTheirPrompt) {
  const auto begun = Begin({"1"});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open a", "append a", "fork a to b", "fork a to c"));
  EXPECT_EQ(begun->cached_tokens, 5u);
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 1), ElementsAre("generate b"));
  EXPECT_EQ(receipt_.how, Receipt::How::kForked);
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 0), ElementsAre("generate a"));
  EXPECT_EQ(receipt_.how, Receipt::How::kNew);
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 2), ElementsAre("generate c"));
  EXPECT_THAT(Run({"1", "ok", "2"}), ElementsAre("generate c")) << "the last one answers";
  EXPECT_EQ(runner_->index().num_sessions(), 3u);
}

TEST_F(TurnRunnerTest, TurnsThatBeginTogetherGoOnWithASession) {
  Run({"1"});
  const auto begun = Begin({"1", "ok", "2"});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("append a", "fork a to b", "fork a to c"));
  EXPECT_THAT(RunBegun({"1", "ok", "2"}, begun.get(), 0), ElementsAre("generate a"));
  EXPECT_EQ(receipt_.how, Receipt::How::kContinued);
}

TEST_F(TurnRunnerTest, SessionsThatNobodyTakesAreClosed) {
  Begin({"1"});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open a", "append a", "fork a to b", "fork a to c",
                                               "close a", "close b", "close c"));
  EXPECT_EQ(runner_->index().num_sessions(), 0u);
}

TEST_F(TurnRunnerTest, TurnsWithoutAForkReadThePromptThemselves) {
  script_.forks = {grpc::Status::OK, Fails(grpc::StatusCode::RESOURCE_EXHAUSTED).status};
  const auto begun = Begin({"1"});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open a", "append a", "fork a to b", "fork a to c"));
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 0), ElementsAre("generate a"));
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 1), ElementsAre("generate b"));
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 2), ElementsAre("fork a to d", "generate d"));
}

TEST_F(TurnRunnerTest, APromptThatCannotBeReadFailsTheTurns) {
  script_.appends = {Fails(grpc::StatusCode::INVALID_ARGUMENT).status};
  const auto begun = Begin({"1"});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open a", "append a"));
  EXPECT_FALSE(begun->cached_tokens.has_value());
  std::string error;
  script_.turns = {Fails(grpc::StatusCode::INVALID_ARGUMENT)};
  EXPECT_THAT(Run({"1"}, &error, "alice", {}, {begun.get(), 0}),
              ElementsAre("generate a", "close a"));
  EXPECT_EQ(error, "INVALID_ARGUMENT");
}

TEST_F(TurnRunnerTest, ABegunSessionThatIsLostIsReplaced) {
  const auto begun = Begin({"1"});
  script_.TakeCalls();
  script_.turns = {Fails(grpc::StatusCode::NOT_FOUND)};
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 1),
              ElementsAre("generate b", "close b", "open d", "generate d"));
}

// The turn is made again later, in the same session.
TEST_F(TurnRunnerTest, ABegunSessionStaysUntilThereIsRoom) {
  const auto begun = Begin({"1"});
  script_.TakeCalls();
  std::string error;
  script_.turns = {Fails(grpc::StatusCode::RESOURCE_EXHAUSTED)};
  EXPECT_THAT(Run({"1"}, &error, "alice", {}, {begun.get(), 1}), ElementsAre("generate b"));
  EXPECT_EQ(error, "RESOURCE_EXHAUSTED");
  EXPECT_THAT(RunBegun({"1"}, begun.get(), 1), ElementsAre("generate b"));
  // In the middle of a turn it is the turn's own end.
  script_.turns = {Fails(grpc::StatusCode::RESOURCE_EXHAUSTED, /*starts=*/true)};
  EXPECT_THAT(Run({"1"}, &error, "alice", {}, {begun.get(), 2}),
              ElementsAre("generate c", "close c"));
}

TEST_F(TurnRunnerTest, AContinuedSessionThatNoTurnTakesStays) {
  Run({"1"});
  Begin({"1", "ok", "2"});
  EXPECT_THAT(script_.TakeCalls(),
              ElementsAre("append a", "fork a to b", "fork a to c", "close b", "close c"));
  EXPECT_THAT(Run({"1", "ok", "3"}), ElementsAre("generate a"));
}

TEST_F(TurnRunnerTest, NoForksForAClientThatHasLeft) {
  client::Cancellation left;
  left.Cancel();
  client::Caller caller = Alice();
  caller.cancellation = &left;
  const auto begun = runner_->MakeBegun(caller, 3);
  runner_->BeginTogether(caller, TurnOf({"1"}, "alice"), begun.get());
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open a", "cancel a"));
}

TEST_F(TurnRunnerTest, ABegunSessionOfATurnAloneIsReplacedIfItIsLost) {
  v1::GenerateRequest request;
  request.mutable_input()->set_text("1");
  const auto begun = MakeBegun();
  runner_->BeginAloneTogether(Alice(), "m", request, begun.get());
  script_.TakeCalls();
  script_.turns = {Fails(grpc::StatusCode::NOT_FOUND)};
  runner_->RunAlone(Alice(), "m", request, {}, {begun.get(), 1});
  EXPECT_THAT(script_.TakeCalls(),
              ElementsAre("go on b", "close b", "open d", "generate d", "close d"));
}

TEST_F(TurnRunnerTest, TurnsThatRunAloneShareTheirPrompt) {
  v1::GenerateRequest request;
  request.mutable_input()->set_text("1");
  {
    const auto begun = MakeBegun();
    runner_->BeginAloneTogether(Alice(), "m", request, begun.get());
    EXPECT_THAT(script_.TakeCalls(),
                ElementsAre("open a", "append a", "fork a to b", "fork a to c"));
    runner_->RunAlone(Alice(), "m", request, {}, {begun.get(), 0});
    EXPECT_THAT(script_.TakeCalls(), ElementsAre("go on a", "close a"));
  }
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("close b", "close c"));
  EXPECT_EQ(runner_->index().num_sessions(), 0u);
  // A session that has not read the prompt is of no use.
  script_.appends = {Fails(grpc::StatusCode::UNAVAILABLE).status};
  const auto begun = MakeBegun();
  runner_->BeginAloneTogether(Alice(), "m", request, begun.get());
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open d", "append d", "cancel d", "close d"));
  runner_->RunAlone(Alice(), "m", request, {}, {begun.get(), 0});
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("open e", "generate e", "close e"));
}

TEST_F(TurnRunnerTest, SessionsAreClosedAtTheEnd) {
  Run({"1"});
  Run({"2"}, nullptr, "bob");
  runner_->CloseSessions(std::chrono::seconds(10));
  EXPECT_THAT(script_.TakeCalls(), ElementsAre("close a", "close b"));
  runner_->CloseSessions(std::chrono::seconds(10));
  EXPECT_THAT(script_.TakeCalls(), IsEmpty());
}

}  // namespace
}  // namespace longstream::gateway
