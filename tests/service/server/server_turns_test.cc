// Turns with ids over gRPC: each token reaches its client once, whatever happens to the connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/client_metric.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

constexpr uint32_t kTurnTokens = 12;

std::string TurnIdOf(int number) {
  const std::string digits = std::to_string(number);
  return std::string(32 - digits.size(), '0') + digits;
}

class ServerTurnsTest : public ServerTest {
 protected:
  explicit ServerTurnsTest(const SessionManager::Options& options = {})
      : ServerTest(R"({"step_delay_us": 3000})", 0, MinimalModel::PluginFile(), "",
                   ModelSource().max_batch_tokens, "", 0, options) {}

  v1::GenerateRequest TurnRequestOf(const std::string& session, int number) const {
    v1::GenerateRequest request = Request(session);
    request.set_max_tokens(kTurnTokens);
    request.set_turn_id(TurnIdOf(number));
    return request;
  }

  // The answer of an undisturbed turn in a session of its own.
  std::vector<int32_t> Undisturbed() {
    v1::GenerateRequest request = Request(Open());
    request.set_max_tokens(kTurnTokens);
    return Generate(request).tokens;
  }

  // Reads the turn until the client has `size` tokens, then cancels the call.
  Generated ReadSome(const v1::GenerateRequest& request, size_t size) {
    size_t read = 0;
    return Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext* call) {
      if (response.has_started() && size == 0) call->TryCancel();
      if (!response.has_delta()) return;
      read += static_cast<size_t>(response.delta().token_ids_size());
      if (read >= size) call->TryCancel();
    });
  }

  static void SetResume(const Generated& got, v1::GenerateRequest* request) {
    request->clear_resume();
    v1::Resume& resume = *request->mutable_resume();
    if (!got.deltas.empty()) resume.set_position(got.deltas.back().position());
    resume.mutable_token_ids()->Add(got.tokens.begin(), got.tokens.end());
  }

  std::vector<v1::Turn> Turns(const std::string& session) {
    std::vector<v1::Turn> turns;
    v1::ListTurnsRequest request;
    request.set_session_id(session);
    request.set_page_size(2);
    do {
      grpc::ClientContext context;
      v1::ListTurnsResponse response;
      const grpc::Status status = stub().ListTurns(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      turns.insert(turns.end(), response.turns().begin(), response.turns().end());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return turns;
  }

  grpc::Status Cancel(const std::string& session, const std::string& turn, v1::Turn* result) {
    grpc::ClientContext context;
    v1::CancelTurnRequest request;
    request.set_session_id(session);
    request.set_turn_id(turn);
    return stub().CancelTurn(&context, request, result);
  }
};

std::vector<int32_t> Joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

TEST_F(ServerTurnsTest, TheServerDrawsAnIdIfTheClientHasNone) {
  const std::string id = Open();
  const Generated turn = Generate(Request(id));
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.started.turn_id().size(), 32u);
  EXPECT_EQ(turn.started.how(), v1::ATTACH_NEW);
  EXPECT_TRUE(Turns(id).empty());
}

TEST_F(ServerTurnsTest, ACommittedTurnIsReplayed) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  request.set_log_probs(true);
  request.set_top_log_probs(2);
  const Generated first = Generate(request);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.started.turn_id(), TurnIdOf(1));
  EXPECT_EQ(first.started.how(), v1::ATTACH_NEW);
  const uint64_t position = Get(id).position();
  const Generated again = Generate(request);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(again.started.seed(), first.started.seed());
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(again.text, first.text);
  ASSERT_EQ(again.deltas.size(), 1u) << "a replay joins the deltas";
  EXPECT_EQ(again.deltas[0].log_probs_size(), static_cast<int>(kTurnTokens));
  EXPECT_EQ(again.deltas[0].log_probs(7).top_size(), 2);
  EXPECT_EQ(again.finish.SerializeAsString(), first.finish.SerializeAsString());
  EXPECT_EQ(Get(id).position(), position) << "the turn ran again";

  // Also after later turns, and from any token on.
  ASSERT_TRUE(Generate(TurnRequestOf(id, 2)).status.ok());
  for (size_t has = 1; has <= first.tokens.size(); ++has) {
    Generated part;
    part.tokens.assign(first.tokens.begin(), first.tokens.begin() + static_cast<long>(has));
    part.deltas.emplace_back().set_position(5 + has);
    SetResume(part, &request);
    const Generated rest = Generate(request);
    ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
    EXPECT_EQ(Joined(part.tokens, rest.tokens), first.tokens);
  }
  const std::vector<v1::Turn> turns = Turns(id);
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[0].turn_id(), TurnIdOf(1));
  EXPECT_EQ(turns[0].state(), v1::TURN_STATE_COMMITTED);
  EXPECT_EQ(turns[0].start_position(), 0u);
  EXPECT_EQ(turns[0].position(), position);
  EXPECT_EQ(turns[0].finish_reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(turns[0].prompt_tokens(), 5u);
  EXPECT_EQ(turns[0].generated_tokens(), kTurnTokens);
  EXPECT_EQ(turns[1].start_position(), position);
}

TEST_F(ServerTurnsTest, AnotherRequestWithTheSameIdIsRefused) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  ASSERT_TRUE(Generate(request).status.ok());
  request.set_priority(v1::PRIORITY_HIGH);
  EXPECT_TRUE(Generate(request).status.ok()) << "the priority may differ";
  request.mutable_input()->set_text("hallo");
  const grpc::Status status = Generate(request).status;
  EXPECT_EQ(status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr(TurnIdOf(1)));
  request = TurnRequestOf(Open(), 1);
  EXPECT_TRUE(Generate(request).status.ok()) << "an id is that of one session only";
}

TEST_F(ServerTurnsTest, AClientThatLostItsConnectionGetsEveryTokenOnce) {
  const std::vector<int32_t> expected = Undisturbed();
  for (size_t has = 0; has < kTurnTokens; ++has) {
    const std::string id = Open();
    v1::GenerateRequest request = TurnRequestOf(id, 1);
    const Generated part = ReadSome(request, has);
    EXPECT_EQ(part.status.error_code(), StatusCode::CANCELLED);
    SetResume(part, &request);
    const Generated rest = Generate(request);
    ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
    EXPECT_THAT(rest.started.how(), testing::AnyOf(v1::ATTACH_ATTACHED, v1::ATTACH_REPLAYED));
    EXPECT_EQ(Joined(part.tokens, rest.tokens), expected) << "after " << has << " tokens";
    EXPECT_EQ(Get(id).position(), 5 + kTurnTokens);
  }
}

TEST_F(ServerTurnsTest, ATurnWithoutAReaderRunsToItsEnd) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  request.set_max_tokens(200);
  ReadSome(request, 1);
  WaitUntilIdle(id);
  EXPECT_EQ(Get(id).position(), 205u);
  EXPECT_EQ(Turns(id)[0].state(), v1::TURN_STATE_COMMITTED);
}

TEST_F(ServerTurnsTest, TheLatestCallReadsTheTurn) {
  const std::vector<int32_t> expected = Undisturbed();
  const std::string id = Open();
  const v1::GenerateRequest request = TurnRequestOf(id, 1);
  Generated second;
  std::thread other;
  const Generated first =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (response.has_started()) other = std::thread([&] { second = Generate(request); });
        if (response.has_delta()) absl::SleepFor(absl::Milliseconds(1));
      });
  other.join();
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.tokens, expected);
  // The first call may have been at its end already.
  if (second.started.how() == v1::ATTACH_ATTACHED && !first.status.ok()) {
    EXPECT_EQ(first.status.error_code(), StatusCode::ABORTED) << first.status.error_message();
  }
  EXPECT_EQ(Get(id).position(), 5 + kTurnTokens);
}

TEST_F(ServerTurnsTest, WrongTokensAreRefusedByTheirIndex) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  request.mutable_stop()->add_token_ids(255);
  const Generated turn = Generate(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  const auto expect = [&](const std::vector<int32_t>& ids, uint64_t position,
                          const std::string& sentence) {
    request.mutable_resume()->Clear();
    request.mutable_resume()->mutable_token_ids()->Add(ids.begin(), ids.end());
    request.mutable_resume()->set_position(position);
    const grpc::Status status = Generate(request).status;
    EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION) << sentence;
    EXPECT_THAT(status.error_message(), HasSubstr(sentence));
  };
  std::vector<int32_t> wrong(turn.tokens.begin(), turn.tokens.begin() + 3);
  wrong[2] = (wrong[2] + 1) % 255;
  expect(wrong, 8, "resume.token_ids[2]: ");
  expect({turn.tokens[0], 100000}, 7, "resume.token_ids[1]: token id 100000 is outside");
  expect({turn.tokens[0], -1}, 7, "resume.token_ids[1]: token id -1 is outside");
  expect(std::vector<int32_t>(kTurnTokens + 1, turn.tokens[0]), 0, "resume.token_ids[12]: ");
  expect({255, 1}, 7, "resume.token_ids[1]: the stop id 255 before it");
  expect({turn.tokens[0]}, 7, "resume.position: expected 6 after 1 token ids, found 7");
  expect({}, 3, "resume.position: expected 0 after 0 token ids, found 3");
  request.clear_turn_id();
  EXPECT_EQ(Generate(request).status.error_code(), StatusCode::INVALID_ARGUMENT);
  request.set_turn_id("12");
  EXPECT_EQ(Generate(request).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTurnsTest, CancelTurnAbandonsTheTurn) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  request.set_max_tokens(100000);
  v1::Turn cancelled;
  bool done = false;
  const Generated turn =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (!response.has_delta() || done) return;
        done = true;
        EXPECT_TRUE(Turns(id)[0].running());
        const grpc::Status status = Cancel(id, TurnIdOf(1), &cancelled);
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
  EXPECT_EQ(turn.status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::TURN_STATE_ABANDONED);
  EXPECT_FALSE(cancelled.running());
  EXPECT_EQ(Get(id).position(), 0u);
  const grpc::Status again = Generate(request).status;
  EXPECT_EQ(again.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(again.error_message(), HasSubstr("was abandoned: it was cancelled"));
  EXPECT_TRUE(Cancel(id, TurnIdOf(1), &cancelled).ok()) << "a second cancel changes nothing";
  EXPECT_EQ(Cancel(id, TurnIdOf(2), &cancelled).error_code(), StatusCode::NOT_FOUND);
  ASSERT_TRUE(Generate(TurnRequestOf(id, 3)).status.ok());
  ASSERT_TRUE(Cancel(id, TurnIdOf(3), &cancelled).ok());
  EXPECT_EQ(cancelled.state(), v1::TURN_STATE_COMMITTED) << "the turn had ended before";
}

TEST_F(ServerTurnsTest, ASessionIsFreeWhenACancelIsAnswered) {
  const std::string id = Open();
  for (int i = 1; i <= 50; ++i) {
    v1::GenerateRequest request = TurnRequestOf(id, i);
    request.set_max_tokens(100000);
    bool done = false;
    Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
      if (!response.has_delta() || done) return;
      done = true;
      v1::Turn cancelled;
      EXPECT_TRUE(Cancel(id, TurnIdOf(i), &cancelled).ok());
      EXPECT_FALSE(Get(id).turn_running()) << "turn " << i;
    });
  }
}

TEST_F(ServerTurnsTest, ATurnThatTheServerNamedCanBeCancelled) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(100000);
  v1::Turn cancelled;
  const Generated turn =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext*) {
        if (!response.has_started()) return;
        EXPECT_TRUE(Cancel(id, response.started().turn_id(), &cancelled).ok());
      });
  EXPECT_EQ(turn.status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::TURN_STATE_ABANDONED);
}

TEST_F(ServerTurnsTest, ATurnThatContinuesNeedsAnId) {
  v1::GenerateRequest request = Request(Open());
  request.set_on_abort(v1::ON_ABORT_CONTINUE);
  EXPECT_EQ(Generate(request).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTurnsTest, ARefusedTurnLeavesItsIdFree) {
  const std::string id = Open();
  v1::GenerateRequest request = TurnRequestOf(id, 1);
  request.set_expected_position(7);
  EXPECT_EQ(Generate(request).status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Turns(id).empty());
  request.clear_expected_position();
  EXPECT_TRUE(Generate(request).status.ok());
}

// An Append with a turn id.
class ServerAppendTurnTest : public ServerTurnsTest {
 protected:
  grpc::Status Append(const std::string& id, int number, const std::vector<std::string>& texts,
                      v1::AppendResponse* response) {
    grpc::ClientContext context;
    const auto writer = stub().Append(&context, response);
    for (size_t i = 0; i < texts.size(); ++i) {
      v1::AppendRequest message;
      if (i == 0) message.set_session_id(id);
      if (i == 0) message.set_turn_id(TurnIdOf(number));
      message.mutable_input()->set_text(texts[i]);
      writer->Write(message);
    }
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(ServerAppendTurnTest, IsTakenInOnce) {
  const std::string id = Open();
  v1::AppendResponse first;
  const grpc::Status status = Append(id, 1, {"abc", "def"}, &first);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(first.turn_id(), TurnIdOf(1));
  v1::AppendResponse again;
  ASSERT_TRUE(Append(id, 1, {"abc", "def"}, &again).ok());
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_EQ(Get(id).position(), 6u);
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"abc", "dex"}, {"abc"}, {"abc", "def", "g"}, {"abcd", "ef"}}) {
    EXPECT_EQ(Append(id, 1, texts, &again).error_code(), StatusCode::ALREADY_EXISTS);
  }
  EXPECT_EQ(Generate(TurnRequestOf(id, 1)).status.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Get(id).position(), 6u);
  const std::vector<v1::Turn> turns = Turns(id);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].state(), v1::TURN_STATE_COMMITTED);
  EXPECT_EQ(turns[0].position(), 6u);
}

// No reader comes back in time.
class ForsakenTurnTest : public ServerTurnsTest {
 protected:
  ForsakenTurnTest() : ServerTurnsTest({.resume_window = absl::ZeroDuration()}) {}

  // Starts the turn of the request, reads `size` tokens and lets it be rolled back.
  Generated Lose(const v1::GenerateRequest& request, size_t size) {
    Generated part = ReadSome(request, size);
    WaitUntilIdle(request.session_id());
    EXPECT_EQ(Turns(request.session_id()).back().state(), v1::TURN_STATE_STARTED);
    EXPECT_EQ(Get(request.session_id()).position(), 0u);
    return part;
  }

  v1::GenerateRequest Forsakable(const std::string& id, int number) const {
    v1::GenerateRequest request = TurnRequestOf(id, number);
    request.set_on_abort(v1::ON_ABORT_ROLLBACK);
    request.set_max_tokens(60);
    request.mutable_sampling()->clear_seed();
    return request;
  }
};

TEST_F(ForsakenTurnTest, GoesOnBehindTheTokensThatTheClientHas) {
  v1::GenerateRequest request = Forsakable(Open(), 1);
  request.mutable_sampling()->set_presence_penalty(0.5f);
  const Generated part = Lose(request, 3);
  SetResume(part, &request);
  const Generated rest = Generate(request);
  ASSERT_TRUE(rest.status.ok()) << rest.status.error_message();
  EXPECT_EQ(rest.started.how(), v1::ATTACH_FORCED);
  EXPECT_EQ(rest.started.seed(), part.started.seed());
  EXPECT_EQ(rest.finish.usage().forced_tokens(), part.tokens.size());
  EXPECT_EQ(rest.finish.usage().generated_tokens(), 60u);
  // The same seed draws the same tokens in another session.
  v1::GenerateRequest other = request;
  other.clear_resume();
  other.set_session_id(Open());
  other.mutable_sampling()->set_seed(part.started.seed());
  EXPECT_EQ(Joined(part.tokens, rest.tokens), Generate(other).tokens);
  EXPECT_EQ(model().Samples("longstream_turns_resumed_total", "how", "forced").size(), 1u);
}

TEST_F(ForsakenTurnTest, StartsOverWithoutThem) {
  v1::GenerateRequest request = Forsakable(Open(), 1);
  const Generated part = Lose(request, 3);
  const Generated whole = Generate(request);
  ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
  EXPECT_EQ(whole.started.how(), v1::ATTACH_RESTARTED);
  EXPECT_EQ(whole.started.seed(), part.started.seed());
  ASSERT_EQ(whole.tokens.size(), 60u);
  EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(), whole.tokens.begin()));
}

// Tokens that the model would not draw stand, as those of a server with other kernels do.
TEST_F(ForsakenTurnTest, ForcedTokensStandWhateverIsDrawn) {
  v1::GenerateRequest request = Forsakable(Open(), 1);
  request.set_turn_id(TurnIdOf(5));
  v1::Resume& resume = *request.mutable_resume();
  for (const char c : std::string("qqqq")) resume.add_token_ids(c);
  resume.set_position(5 + 4);
  const Generated turn = Generate(request);
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_EQ(turn.started.how(), v1::ATTACH_FORCED);
  EXPECT_EQ(turn.tokens.size(), 56u);
  request.clear_resume();
  const Generated replay = Generate(request);
  ASSERT_EQ(replay.tokens.size(), 60u);
  EXPECT_EQ(replay.text.substr(0, 4), "qqqq");
  EXPECT_EQ(replay.text.substr(4), turn.text);
}

TEST_F(ForsakenTurnTest, ALostTurnIsAbandonedWhenAnotherOneIsCommitted) {
  const std::string id = Open();
  const v1::GenerateRequest request = Forsakable(id, 1);
  Lose(request, 1);
  ASSERT_TRUE(Generate(TurnRequestOf(id, 2)).status.ok());
  EXPECT_EQ(Turns(id)[0].state(), v1::TURN_STATE_ABANDONED);
  const grpc::Status status = Generate(request).status;
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("another turn was committed in its place"));
}

TEST_F(ForsakenTurnTest, AKeptTurnIsCommitted) {
  const std::string id = Open();
  v1::GenerateRequest request = Forsakable(id, 1);
  request.set_on_abort(v1::ON_ABORT_KEEP);
  const Generated part = ReadSome(request, 3);
  WaitUntilIdle(id);
  const uint64_t position = Get(id).position();
  EXPECT_GE(position, 5 + part.tokens.size());
  const Generated replay = Generate(request);
  ASSERT_TRUE(replay.status.ok()) << replay.status.error_message();
  EXPECT_EQ(replay.started.how(), v1::ATTACH_REPLAYED);
  EXPECT_EQ(replay.finish.reason(), v1::FINISH_REASON_ABORTED);
  EXPECT_EQ(replay.finish.position(), position);
  EXPECT_EQ(replay.tokens.size(), position - 5) << "the replay has the tokens that were kept";
  EXPECT_EQ(replay.deltas.back().position(), position);
}

}  // namespace
}  // namespace longstream
