// Calls that succeed, as a client sees them.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

TEST_F(ServerTest, GenerateStreamsAndFinishes) {
  const std::string id = Open();
  const Generated generated = Generate(Request(id));
  ASSERT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.tokens.size(), 10u);
  EXPECT_EQ(generated.text.size(), 10u);
  EXPECT_EQ(generated.started.prompt_tokens(), 5u);
  EXPECT_EQ(generated.started.seed(), 1u);
  EXPECT_EQ(generated.finish.reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(generated.finish.position(), 15u);
  uint64_t position = 5;
  for (const v1::Delta& delta : generated.deltas) {
    position += static_cast<uint64_t>(delta.token_ids_size());
    EXPECT_EQ(delta.position(), position);
  }
}

// The finish message and GetSession must report the same bytes.
TEST_F(ServerTest, BytesAreTheSameEverywhere) {
  const std::string id = Open();
  const v1::SessionBytes finish = Generate(Request(id)).finish.usage().bytes();
  const v1::SessionBytes session = Get(id).bytes();
  EXPECT_EQ(finish.SerializeAsString(), session.SerializeAsString());
  EXPECT_GT(session.kv() + session.window() + session.state(), 0u);
}

TEST_F(ServerTest, SeedIsDrawnAndReportedAndReproduces) {
  v1::GenerateRequest request = Request(Open());
  request.mutable_sampling()->clear_seed();
  const Generated first = Generate(request);
  EXPECT_LT(first.started.seed(), uint64_t{1} << 53) << "a double keeps all its bits";
  request = Request(Open());
  request.mutable_sampling()->set_seed(first.started.seed());
  EXPECT_EQ(Generate(request).text, first.text);
}

TEST_F(ServerTest, AppendInPiecesThenGenerate) {
  const std::string whole(1000, 'w');
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->set_text(whole);
  const std::string expected = Generate(request).text;

  const std::string id = Open();
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub().Append(&context, &response);
  for (size_t begin = 0; begin < whole.size(); begin += 130) {
    v1::AppendRequest piece;
    if (begin == 0) piece.set_session_id(id);
    piece.mutable_input()->set_text(whole.substr(begin, 130));
    ASSERT_TRUE(writer->Write(piece));
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.position(), 1000u);
  EXPECT_EQ(response.usage().prompt_tokens(), 1000u);
  request.set_session_id(id);
  request.clear_input();
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.text, expected);
  EXPECT_EQ(generated.finish.usage().reused_tokens(), 999u);
}

// The server reads long texts on other threads than short ones (TextThreads).
TEST_F(ServerTest, LongTextsOfEveryCall) {
  const std::string text(40000, 'x');
  v1::GenerateRequest request = Request(Open());
  request.mutable_input()->set_text(text);
  const Generated whole = Generate(request);
  ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
  EXPECT_EQ(whole.finish.position(), 40010u);

  const std::string id = Open();
  grpc::ClientContext append_context;
  v1::AppendResponse appended;
  const auto writer = stub().Append(&append_context, &appended);
  v1::AppendRequest piece;
  piece.set_session_id(id);
  for (const size_t size : {20000, 10, 19990}) {
    piece.mutable_input()->set_text(text.substr(0, size));
    ASSERT_TRUE(writer->Write(piece));
  }
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(appended.position(), 40000u);
  request.set_session_id(id);
  request.clear_input();
  EXPECT_EQ(Generate(request).text, whole.text);

  grpc::ClientContext score_context;
  v1::ScoreRequest score;
  score.set_model("m");
  score.mutable_input()->set_text(text);
  const auto reader = stub().Score(&score_context, score);
  v1::ScoreResponse response;
  uint64_t tokens = 0;
  while (reader->Read(&response)) tokens += static_cast<uint64_t>(response.tokens_size());
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 40000u);
}

TEST_F(ServerTest, LongTextsThatAreRefusedOrCancelled) {
  v1::GenerateRequest request = Request(std::string(32, '0'));
  request.mutable_input()->set_text(std::string(40000, 'x'));
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string id = Open();
  request.set_session_id(id);
  request.set_max_tokens(20000);
  // The deadline passes before, during or after the start of the turn.
  for (int i = 0; i < 20; ++i) {
    const Generated late = Generate(request, {}, std::chrono::milliseconds(1 + i));
    // The server may learn that the previous call has ended only after this call arrives.
    EXPECT_TRUE(late.status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                late.status.error_code() == grpc::StatusCode::ABORTED)
        << late.status.error_message();
    WaitUntilIdle(id);
  }
  EXPECT_EQ(Get(id).position(), 0u);
}

TEST_F(ServerTest, ScoreSumsUp) {
  grpc::ClientContext context;
  v1::ScoreRequest request;
  request.set_model("m");
  request.mutable_input()->set_text(std::string(700, 's'));
  request.set_top_log_probs(2);
  const auto reader = stub().Score(&context, request);
  v1::ScoreResponse response;
  v1::ScoreSummary summary;
  uint64_t next = 0;
  double sum = 0;
  while (reader->Read(&response)) {
    if (response.has_summary()) {
      summary = response.summary();
      continue;
    }
    EXPECT_EQ(response.first_index(), next);
    for (const v1::TokenScore& token : response.tokens()) {
      EXPECT_EQ(token.token_id(), 's');
      EXPECT_EQ(token.has_log_prob(), next > 0);
      EXPECT_EQ(token.top_size(), next > 0 ? 2 : 0);
      sum += token.log_prob();
      ++next;
    }
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(next, 700u);
  EXPECT_EQ(summary.tokens(), 699u);
  EXPECT_NEAR(summary.sum_log_prob(), sum, 1e-3 * std::abs(sum));
}

TEST_F(ServerTest, ListsSessionsInPages) {
  std::set<std::string> opened;
  for (int i = 0; i < 7; ++i) opened.insert(Open());
  std::set<std::string> listed;
  v1::ListSessionsRequest request;
  request.set_page_size(3);
  int pages = 0;
  do {
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    ASSERT_TRUE(stub().ListSessions(&context, request, &response).ok());
    for (const v1::Session& session : response.sessions()) listed.insert(session.session_id());
    request.set_page_token(response.next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(listed, opened);
  EXPECT_EQ(pages, 3);
  for (const int size : {-1, 0, 1001}) {
    request.set_page_size(size);
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    const grpc::Status status = stub().ListSessions(&context, request, &response);
    EXPECT_EQ(status.error_code(),
              size == 0 ? grpc::StatusCode::OK : grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(response.sessions_size(), size == 0 ? 7 : 0) << "a page has 100 sessions by default";
  }
}

TEST_F(ServerTest, ForkGetAndClose) {
  const std::string id = Open();
  Generate(Request(id));
  v1::Session fork;
  {
    grpc::ClientContext context;
    v1::ForkSessionRequest request;
    request.set_session_id(id);
    request.set_new_session_id("0123456789abcdef0123456789abcdef");
    ASSERT_TRUE(stub().ForkSession(&context, request, &fork).ok());
  }
  EXPECT_EQ(fork.session_id(), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(fork.forked_from(), id);
  EXPECT_EQ(fork.position(), 15u);
  grpc::ClientContext context;
  v1::CloseSessionRequest request;
  v1::CloseSessionResponse response;
  request.set_session_id(id);
  ASSERT_TRUE(stub().CloseSession(&context, request, &response).ok());
  EXPECT_EQ(response.position(), 15u);
  EXPECT_EQ(Get(fork.session_id()).position(), 15u);
}

TEST_F(ServerTest, ModelIsDescribed) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  v1::Model model;
  request.set_name("m");
  ASSERT_TRUE(stub().GetModel(&context, request, &model).ok());
  EXPECT_EQ(model.state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(model.backend(), "minimal");
  EXPECT_FALSE(model.kernels().empty());
  EXPECT_EQ(model.vocabulary_size(), 256u);
  EXPECT_EQ(model.tokenizer(), "byte");
  EXPECT_EQ(model.fingerprint().size(), 16u);
}

TEST_F(ServerTest, HealthPerModel) {
  const auto health = grpc::health::v1::Health::NewStub(channel());
  for (const std::string& name : {std::string(), std::string("m")}) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    grpc::health::v1::HealthCheckResponse response;
    request.set_service(name);
    ASSERT_TRUE(health->Check(&context, request, &response).ok()) << name;
    EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING) << name;
  }
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service("nobody");
  EXPECT_EQ(health->Check(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace longstream
