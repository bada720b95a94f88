// Makes the requests, and checks the order of the messages.
#include "tests/service/server/compare/twin_fixture.h"

#include <chrono>

namespace longstream {

v1::GenerateRequest TwinTest::TurnOf(const std::string& model, const std::string& twin) {
  v1::GenerateRequest request;
  sessions_.push_back(Open(model));
  request.set_session_id(sessions_.back());
  request.mutable_input()->set_text("hello");
  request.set_max_tokens(60);
  request.mutable_sampling()->set_temperature(1.0f);
  request.mutable_sampling()->set_seed(1);
  request.set_twin_model(twin);
  return request;
}

TwinnedTurn TwinTest::Run(const v1::GenerateRequest& request, const OnMessage& on_message) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  const auto reader = stub().Generate(&context, request);
  TwinnedTurn turn;
  const size_t known_tokens = static_cast<size_t>(request.resume().token_ids_size());
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_started()) turn.started = response.started();
    if (response.has_finish()) turn.finish = response.finish();
    const v1::Delta& delta = response.delta();
    turn.text += delta.text();
    turn.tokens.insert(turn.tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
    turn.log_probs.insert(turn.log_probs.end(), delta.log_probs().begin(), delta.log_probs().end());
    if (response.has_twin()) {
      EXPECT_FALSE(turn.started.turn_id().empty()) << "rows before the start";
      EXPECT_EQ(response.twin().first_index(), turn.rows.size());
      EXPECT_GT(response.twin().rows_size(), 0);
      for (const v1::TwinRow& row : response.twin().rows()) turn.rows.push_back(row);
      EXPECT_LE(turn.rows.size(), known_tokens + turn.tokens.size()) << "a row before its token";
    }
    if (on_message) on_message(response, &context);
  }
  turn.status = reader->Finish();
  return turn;
}

TwinnedTurn TwinTest::RunAlone(const std::string& model, v1::GenerateRequest request) {
  request.set_session_id(TurnOf(model, "").session_id());
  request.clear_twin_model();
  request.clear_turn_id();
  request.clear_resume();
  TwinnedTurn turn = Run(request);
  EXPECT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_TRUE(turn.rows.empty());
  EXPECT_FALSE(turn.finish.has_twin());
  return turn;
}

void TwinTest::CloseAll() {
  for (const std::string& id : sessions_) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    v1::CloseSessionResponse response;
    request.set_session_id(id);
    const grpc::Status status = stub().CloseSession(&context, request, &response);
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND);
  }
  sessions_.clear();
}

void TwinTest::ExpectNothingIsLeft() {
  CloseAll();
  ExpectNothingHeld();
}

void ExpectWhole(const TwinnedTurn& turn, size_t tokens) {
  ASSERT_TRUE(turn.status.ok()) << turn.status.error_message();
  EXPECT_TRUE(turn.started.twin().comparable());
  ASSERT_EQ(turn.rows.size(), tokens);
  double sum_kl = 0;
  double sum_log_prob = 0;
  double sum_twin_log_prob = 0;
  uint64_t same_best = 0;
  for (const v1::TwinRow& row : turn.rows) {
    EXPECT_TRUE(row.has_kl());
    EXPECT_EQ(row.same_best(), row.best_token() == row.twin_best_token());
    sum_kl += row.kl();
    sum_log_prob += row.log_prob();
    sum_twin_log_prob += row.twin_log_prob();
    same_best += row.same_best() ? 1 : 0;
  }
  const v1::TwinSummary& summary = turn.summary();
  EXPECT_EQ(summary.code(), 0) << summary.error();
  EXPECT_EQ(summary.rows(), tokens);
  EXPECT_EQ(summary.kl_rows(), tokens);
  EXPECT_EQ(summary.sum_kl(), sum_kl);
  EXPECT_EQ(summary.same_best(), same_best);
  EXPECT_EQ(summary.sum_log_prob(), sum_log_prob);
  EXPECT_EQ(summary.sum_twin_log_prob(), sum_twin_log_prob);
  EXPECT_EQ(summary.usage().generated_tokens(), tokens);
}

}  // namespace longstream
