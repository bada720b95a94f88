// Comparisons that are refused, that lose an arm, or that are cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/errors/retry_after.h"
#include "service/server/compare/compare_plan.h"
#include "tests/service/server/compare/compare_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

// A turn that begins with the object and ends with it. Its client reads the first tokens only, and
// the others are too many for the buffers, so the turn pauses.
class PausedTurn {
 public:
  PausedTurn(v1::Longstream::Stub& stub, const std::string& session_id) {
    v1::GenerateRequest request;
    request.set_session_id(session_id);
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(kEndless);
    request.set_log_probs(true);
    request.set_top_log_probs(20);
    reader_ = stub.Generate(&context_, request);
    v1::GenerateResponse piece;
    while (!piece.has_delta() && reader_->Read(&piece)) {
    }
    EXPECT_TRUE(piece.has_delta());
  }
  ~PausedTurn() {
    End();
    v1::GenerateResponse piece;
    while (reader_->Read(&piece)) {
    }
    EXPECT_EQ(reader_->Finish().error_code(), StatusCode::CANCELLED);
  }

  void End() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

TEST(AboutTest, KeepsWhenToTryAgain) {
  const absl::Status full = WithRetryAfter(absl::ResourceExhaustedError("full"), absl::Seconds(4));
  const absl::Status named = About("arms[1]", full);
  EXPECT_EQ(named.message(), "arms[1]: full");
  EXPECT_EQ(named.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterOf(named), absl::Seconds(4));
}

TEST_F(CompareTest, RefusalsNameTheField) {
  const auto refuse = [this](const v1::CompareRequest& request, const std::string& message,
                             StatusCode code = StatusCode::INVALID_ARGUMENT) {
    ExpectRefused(request, code, message);
  };
  refuse(Request({"a"}), "arms: expected 2 ... 8, found 1");
  refuse(Request(std::vector<std::string>(9, "a")), "arms: expected 2 ... 8, found 9");
  v1::CompareRequest request = Request({"a", "b"});
  request.clear_input();
  refuse(request,
         "input: a comparison needs a text, token ids, messages or a session before the first "
         "token that is compared");
  request = Request({"a", "b"});
  request.mutable_sampling()->set_temperature(-1);
  refuse(request, "arms[0]: sampling.temperature: expected 0 ... 1000, found -1");
  request = Request({"a", "b"});
  request.mutable_arms(1)->mutable_sampling()->set_top_p(2);
  refuse(request, "arms[1]: sampling.top_p: expected a number above 0 and at most 1, found 2");
  request = Request({"a", "b"});
  request.set_top_log_probs(21);
  refuse(request, "arms[0]: top_log_probs: expected 0 ... 20, found 21");
  request.mutable_forced()->set_text("x");
  refuse(request, "arms[0]: top_log_probs: expected 0 ... 20, found 21");
  request = Request({"a", "b"});
  request.mutable_input()->set_text(std::string(65537, 'x'));
  refuse(request,
         "arms[0]: input.text: 65537 bytes exceed the model's context of 65536 tokens, which hold "
         "at most 65536");
  request.mutable_input()->set_text(std::string(65000, 'x'));
  request.mutable_forced()->set_text(std::string(600, 'x'));
  refuse(request,
         "arms[0]: forced: 600 tokens after position 65000 exceed the model's context of 65536");
  EXPECT_TRUE(Compare(Request({"a", "b"})).status.ok());
  ExpectNothingHeld();
}

TEST_F(CompareTest, RefusalsOfForcedTexts) {
  const auto refuse = [this](const v1::CompareRequest& request, const std::string& message,
                             StatusCode code = StatusCode::INVALID_ARGUMENT) {
    ExpectRefused(request, code, message);
  };
  v1::CompareRequest request = Request({"a", "b"});
  request.mutable_forced();
  refuse(request, "forced: expected text, tokens, answer_of or prompt_from");
  request.mutable_forced()->set_text("");
  refuse(request, "forced.text: expected 1 byte or more, found none");
  request.mutable_forced()->mutable_tokens();
  refuse(request, "forced.tokens: expected 1 token or more, found none");
  request.mutable_forced()->mutable_tokens()->add_ids(256);
  refuse(request, "arms[0]: forced.tokens.ids[0]: token id 256 is outside the vocabulary of 256");
  request.mutable_forced()->set_answer_of(2);
  refuse(request, "forced.answer_of: expected 0 ... 1, the arms, found 2");
  request.mutable_forced()->set_prompt_from(5);
  refuse(request,
         "forced.prompt_from: expected less than 5, the tokens of the prompt, and a token before "
         "it; found 5");
  request.mutable_forced()->set_text("x");
  request.mutable_arms(1)->mutable_sampling();
  refuse(request, "arms[1].sampling: the arm generates nothing, because of forced");
  request = Request({"a", "words"});
  request.mutable_forced()->set_answer_of(0);
  refuse(request,
         "arms[1].model: model words has another tokenizer than model a, so both can only read the "
         "same forced.text",
         StatusCode::FAILED_PRECONDITION);
  request = Request({"chat", "talk"});
  v1::Message* const message = request.mutable_input()->mutable_messages()->add_messages();
  message->set_role("user");
  message->set_content("a longer message of some tokens");
  request.mutable_forced()->set_prompt_from(3);
  refuse(request,
         "arms[1].model: model talk makes another prompt of the messages, so forced.prompt_from "
         "has no common tokens",
         StatusCode::FAILED_PRECONDITION);
  ExpectNothingHeld();
}

TEST_F(CompareTest, UnknownModelsAndSessions) {
  const Comparison unknown = Compare(Request({"a", "nothing"}));
  EXPECT_EQ(unknown.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.status.error_message(), HasSubstr("arms[1].model: no model 'nothing'; "));
  v1::CompareRequest request = Request({"a", "b"});
  request.set_session_id("00000000000000010000000000000002");
  EXPECT_EQ(Compare(request).status.error_code(), StatusCode::NOT_FOUND);
  request.set_session_id("x");
  EXPECT_EQ(Compare(request).status.error_code(), StatusCode::INVALID_ARGUMENT);
  request.set_session_id(Open("words"));
  ExpectRefused(request, StatusCode::FAILED_PRECONDITION,
                "arms[0].model: model a has another tokenizer than the session's model words");
  request.mutable_input()->mutable_messages()->add_messages()->set_role("user");
  EXPECT_EQ(Compare(request).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

// Models with one tokenizer may have different numbers of logits.
TEST_F(CompareTest, TokensAreInTheVocabularyOfEachArm) {
  v1::CompareRequest request = Request({"sixteen", "small"});
  request.clear_input();
  request.mutable_input()->mutable_tokens()->add_ids(3);
  request.mutable_forced()->set_answer_of(0);
  const Comparison answer = Compare(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.started.arms(1).comparable());
  EXPECT_EQ(answer.started.arms(1).not_comparable_reason(),
            "model small has logits for 16 tokens, model sixteen for 256");
  const int32_t first = answer.IdsOf(0).at(0);
  EXPECT_EQ(answer.ends.at(0).code(), 0);
  EXPECT_EQ(answer.ends.at(1).code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(answer.ends.at(1).error(), "token id " + std::to_string(first) +
                                           " is outside the vocabulary of 16 of model small");

  request.clear_forced();
  request.set_session_id(Open("sixteen"));
  v1::AppendRequest append;
  append.set_session_id(request.session_id());
  append.mutable_input()->mutable_tokens()->add_ids(200);
  Append(append);
  ExpectRefused(request, StatusCode::FAILED_PRECONDITION,
                "arms[1].model: token id 200 is outside the vocabulary of 16 of model small");
}

// Calls that read the same session do not disturb each other. A turn on it does.
TEST_F(CompareTest, ASessionIsReadByManyCallsButNotBesideATurn) {
  const std::string id = Open("a");
  v1::AppendRequest append;
  append.set_session_id(id);
  append.mutable_input()->set_text(std::string(60000, 'x'));
  Append(append);
  // These calls are refused when they have read the session, so that many read it.
  constexpr char kRefusal[] = "arms[0]: sampling.temperature: expected 0 ... 1000, found -1";
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      v1::CompareRequest request = Request({"a", "b"});
      request.set_session_id(id);
      request.mutable_sampling()->set_temperature(-1);
      for (int i = 0; i < 100; ++i) ExpectRefused(request, StatusCode::INVALID_ARGUMENT, kRefusal);
    });
  }
  for (std::thread& caller : callers) caller.join();

  v1::CompareRequest request = Request({"a", "b"});
  request.set_session_id(Open("a"));
  const PausedTurn turn(stub(), request.session_id());
  ExpectRefused(request, StatusCode::ABORTED,
                "session_id: session " + request.session_id() +
                    " is being opened or forked, or runs a turn; its tokens can be read when this "
                    "has ended");
}

TEST_F(CompareTest, OthersGoOnWithoutAnArmThatFails) {
  v1::CompareRequest request = Request({"a", "fails", "b"});
  request.set_max_tokens(60);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  const v1::CompareArmEnd& lost = comparison.ends.at(1);
  EXPECT_EQ(lost.code(), StatusCode::INTERNAL);
  EXPECT_THAT(lost.error(), HasSubstr("NaN"));
  // The arm has read the tokens before kFailsAt, and has drawn one more.
  EXPECT_EQ(comparison.TokensOf(1).size(), kFailsAt - 5 + 1);
  EXPECT_EQ(comparison.IdsOf(0), Generate("a", request));
  EXPECT_EQ(comparison.IdsOf(2), Generate("b", request));
  EXPECT_EQ(comparison.ends.at(0).code(), 0);
  EXPECT_EQ(comparison.ends.at(2).code(), 0);
  EXPECT_EQ(comparison.finish.pairs_size(), 2);
  ExpectNothingHeld();
}

TEST_F(CompareTest, WithoutTheBaselineTheOthersStillSpeak) {
  v1::CompareRequest request = Request({"fails", "b"});
  request.mutable_forced()->set_text(std::string(50, 'x'));
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_EQ(comparison.ends.at(0).code(), StatusCode::INTERNAL);
  EXPECT_EQ(comparison.ends.at(0).text_bytes(), comparison.TokensOf(0).size())
      << "a lost arm has not read the whole text";
  EXPECT_EQ(comparison.ends.at(1).text_bytes(), 50u);
  EXPECT_EQ(comparison.TokensOf(1).size(), 50u);
  EXPECT_EQ(comparison.PairsOf(1).size(), comparison.TokensOf(0).size());
}

TEST_F(CompareTest, WithoutAnyArmTheCallFails) {
  v1::CompareRequest request = Request({"fails", "fails"});
  request.set_max_tokens(60);
  const Comparison comparison = Compare(request);
  EXPECT_EQ(comparison.status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(comparison.ends.size(), 2u);
  request.mutable_forced()->set_answer_of(0);
  const Comparison answer = Compare(request);
  EXPECT_EQ(answer.status.error_code(), StatusCode::INTERNAL);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("forced.answer_of: "));
  ExpectNothingHeld();
}

TEST_F(CompareTest, ACancelFreesEverything) {
  v1::CompareRequest request = Request({"a", "b", "tight"});
  request.set_max_tokens(kEndless);
  const Comparison comparison =
      Compare(request, [](const v1::CompareResponse& response, grpc::ClientContext* context) {
        if (response.has_rows()) context->TryCancel();
      });
  EXPECT_EQ(comparison.status.error_code(), StatusCode::CANCELLED);
  ExpectNothingHeld();
  request.mutable_forced()->set_answer_of(1);
  grpc::ClientContext context;
  const auto reader = stub().Compare(&context, request);
  context.TryCancel();
  v1::CompareResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  ExpectNothingHeld();
}

// Buffers of a few rows: the arms go on in step, and with the same results.
class SmallBuffersTest : public CompareTest {
 protected:
  explicit SmallBuffersTest(absl::Duration start_limit = CompareLimits{}.start_limit)
      : CompareTest({.buffer_bytes = 4096, .start_limit = start_limit}) {}
};

TEST_F(SmallBuffersTest, ResultsAreTheSame) {
  v1::CompareRequest request = Request({"a", "b", "a", "words"});
  request.set_max_tokens(100);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  EXPECT_EQ(comparison.IdsOf(0), Generate("a", request));
  EXPECT_EQ(comparison.IdsOf(1), Generate("b", request));
  EXPECT_EQ(comparison.IdsOf(2), comparison.IdsOf(0));
  EXPECT_EQ(comparison.TokensOf(3).size(), 100u);
  EXPECT_EQ(comparison.PairsOf(2).size(), 100u);
  request.mutable_forced()->set_text(std::string(700, 'y'));
  EXPECT_EQ(Compare(request).rows.size(), 700u);
  ExpectNothingHeld();
}

class LateArmsTest : public SmallBuffersTest {
 protected:
  LateArmsTest() : SmallBuffersTest(absl::Seconds(2)) {}
};

// Both arms need the memory of the one session that the model has room for. The first one pauses
// and waits for the second, which waits for the memory: the second is lost.
TEST_F(LateArmsTest, ArmsThatWaitForEachOtherEnd) {
  v1::CompareRequest request = Request({"tight", "tight", "b"});
  request.set_max_tokens(50);
  const Comparison comparison = Compare(request);
  ASSERT_TRUE(comparison.status.ok()) << comparison.status.error_message();
  ASSERT_EQ(comparison.ends.size(), 3u);
  // Either may be admitted first.
  const uint32_t lost = comparison.ends.at(0).code() == 0 ? 1 : 0;
  EXPECT_EQ(comparison.ends.at(lost).code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(comparison.ends.at(lost).error(), HasSubstr("waits for memory or a place"));
  EXPECT_EQ(comparison.ends.at(1 - lost).code(), 0);
  EXPECT_EQ(comparison.IdsOf(1 - lost), Generate("a", request));
  EXPECT_EQ(comparison.IdsOf(2), Generate("b", request));
  ExpectNothingHeld();
}

class ImpatientTest : public SmallBuffersTest {
 protected:
  ImpatientTest() : SmallBuffersTest(absl::Milliseconds(50)) {}
};

// An arm may wait for memory as long as no other arm of its call waits for it.
TEST_F(ImpatientTest, AnArmWaitsForAnotherCall) {
  // It has the memory of the one session that `tight` has room for.
  PausedTurn holder(stub(), Open("tight"));

  // The rows of `b` fit into its buffer, so it ends and does not wait for `tight`.
  absl::Notification begun;
  Comparison patient;
  std::thread caller([&] {
    v1::CompareRequest request = Request({"b", "tight"});
    request.set_max_tokens(2);
    patient = Compare(request, [&](const v1::CompareResponse& response, grpc::ClientContext*) {
      if (response.has_started()) begun.Notify();
    });
    if (!begun.HasBeenNotified()) begun.Notify();
  });
  begun.WaitForNotification();
  // In these calls `b` waits. Each ends when the server has looked at its arms twice.
  v1::CompareRequest request = Request({"b", "tight"});
  request.set_max_tokens(50);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Compare(request).ends[1].code(), StatusCode::RESOURCE_EXHAUSTED);
  }
  holder.End();
  caller.join();
  ASSERT_TRUE(patient.status.ok()) << patient.status.error_message();
  EXPECT_EQ(patient.ends.at(1).code(), 0) << patient.ends.at(1).error();
  EXPECT_EQ(patient.TokensOf(1).size(), 2u);
}

class FewBytesTest : public CompareTest {
 protected:
  FewBytesTest() : CompareTest({}, /*session_host_bytes=*/64 << 10) {}
};

TEST_F(FewBytesTest, BuffersCountAsMemoryOfSessions) {
  v1::CompareRequest request = Request({"a", "b"});
  request.set_max_tokens(10);
  EXPECT_TRUE(Compare(request).status.ok());
  request.set_max_tokens(1000);
  const Comparison comparison = Compare(request);
  EXPECT_EQ(comparison.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(comparison.status.error_message(), HasSubstr("the logits that are compared: "));
  ExpectNothingHeld();
}

// Otherwise the answer of one arm would be generated for nothing, and the prompts of the others
// would wait for it in memory that nobody counts.
TEST_F(FewBytesTest, BuffersCountBeforeTheAnswerIsGenerated) {
  v1::CompareRequest request = Request({"fails", "b"});
  request.mutable_forced()->set_answer_of(0);
  request.set_max_tokens(1000);
  const Comparison comparison = Compare(request);
  EXPECT_EQ(comparison.status.error_code(), StatusCode::RESOURCE_EXHAUSTED)
      << "the model fails at the token " << kFailsAt << " of the answer";
  EXPECT_THAT(comparison.status.error_message(), HasSubstr("the logits that are compared: "));
  request.set_max_tokens(10);
  EXPECT_TRUE(Compare(request).status.ok());
  ExpectNothingHeld();
}

class SilentClientTest : public CompareTest {
 protected:
  SilentClientTest()
      : CompareTest({.buffer_bytes = 4096}, 0, /*client_timeout=*/absl::Milliseconds(100)) {}
};

// A client that does not read stops its own turns only, and not for ever.
TEST_F(SilentClientTest, TurnsOfAClientThatDoesNotReadEnd) {
  v1::CompareRequest request = Request({"a", "tight"});
  request.set_max_tokens(kEndless);
  request.set_top_log_probs(20);
  grpc::ClientContext context;
  const auto reader = stub().Compare(&context, request);
  v1::CompareResponse response;
  ASSERT_TRUE(reader->Read(&response));
  // The server stops when the buffers of the connection are full. Then the only session of `tight`
  // is free again.
  v1::CompareRequest other = Request({"tight", "b"});
  other.set_max_tokens(3);
  EXPECT_EQ(Compare(other).ends.at(0).code(), 0);
  AwaitNoCaches();
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  ExpectNothingHeld();
}

}  // namespace
}  // namespace longstream
