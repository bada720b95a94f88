// Bad requests and requests at a bad moment. Covers each row of the status table, and checks that
// the server keeps serving.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

constexpr char kUnknownId[] = "ffffffffffffffffffffffffffffffff";

// A request with one fault, and the status that it must get.
struct BadRequest {
  const char* name;
  std::function<void(v1::GenerateRequest*)> spoil;
  StatusCode code;
  const char* message;  // must be part of the status message
};

std::vector<BadRequest> BadRequests() {
  constexpr StatusCode kInvalid = StatusCode::INVALID_ARGUMENT;
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto sampling = [](auto set) {
    return [set](v1::GenerateRequest* request) { set(request->mutable_sampling()); };
  };
  const auto stop = [](auto set) {
    return [set](v1::GenerateRequest* request) { set(request->mutable_stop()); };
  };
  return {
      {"id of another form", [](auto* r) { r->set_session_id("abc"); }, kInvalid,
       "session_id: expected 32 hexadecimal digits"},
      {"unknown session", [](auto* r) { r->set_session_id(kUnknownId); }, StatusCode::NOT_FOUND,
       kUnknownId},
      {"empty session, no input", [](auto* r) { r->clear_input(); }, kInvalid,
       "input: the session is empty"},
      {"token id too large", [](auto* r) { r->mutable_input()->mutable_tokens()->add_ids(256); },
       kInvalid, "input.tokens.ids[0]: token id 256 is outside the vocabulary of 256"},
      {"token id negative", [](auto* r) { r->mutable_input()->mutable_tokens()->add_ids(-1); },
       kInvalid, "token id -1"},
      {"prompt over the context",
       [](auto* r) { r->mutable_input()->set_text(std::string(70000, 'x')); }, kInvalid,
       "exceed the model's context of 65536"},
      {"wrong expected position", [](auto* r) { r->set_expected_position(3); },
       StatusCode::FAILED_PRECONDITION, "is at position 0, the request expects 3"},
      {"NaN temperature", sampling([nan](auto* s) { s->set_temperature(nan); }), kInvalid,
       "sampling.temperature: expected 0 ... 1000, found nan"},
      {"negative temperature", sampling([](auto* s) { s->set_temperature(-1); }), kInvalid,
       "sampling.temperature"},
      {"top_k", sampling([](auto* s) { s->set_top_k(-1); }), kInvalid, "sampling.top_k"},
      {"top_p zero", sampling([](auto* s) { s->set_top_p(0); }), kInvalid, "sampling.top_p"},
      {"min_p", sampling([](auto* s) { s->set_min_p(1.5f); }), kInvalid, "sampling.min_p"},
      {"repetition_penalty", sampling([](auto* s) { s->set_repetition_penalty(0); }), kInvalid,
       "sampling.repetition_penalty: expected a finite number above 0, found 0"},
      {"presence_penalty", sampling([](auto* s) { s->set_presence_penalty(3); }), kInvalid,
       "sampling.presence_penalty"},
      {"frequency_penalty", sampling([nan](auto* s) { s->set_frequency_penalty(nan); }), kInvalid,
       "sampling.frequency_penalty"},
      {"logit_bias id", sampling([](auto* s) { (*s->mutable_logit_bias())[999] = 1; }), kInvalid,
       "sampling.logit_bias: token id 999"},
      {"logit_bias value", sampling([](auto* s) { (*s->mutable_logit_bias())[9] = 101; }), kInvalid,
       "sampling.logit_bias"},
      {"every token banned", sampling([](auto* s) {
         for (int32_t id = 0; id < 256; ++id) (*s->mutable_logit_bias())[id] = -100;
       }),
       kInvalid, "sampling.logit_bias: every one of the 256 tokens is banned"},
      {"every token banned until min_tokens",
       [](auto* r) {
         for (int32_t id = 1; id < 256; ++id) {
           (*r->mutable_sampling()->mutable_logit_bias())[id] = -100;
         }
         r->mutable_stop()->add_token_ids(0);
         r->mutable_stop()->set_min_tokens(1);
       },
       kInvalid, "is banned, the stop ids until stop.min_tokens"},
      {"empty stop string", stop([](auto* s) { s->add_strings(""); }), kInvalid, "stop.strings"},
      {"stop string of invalid UTF-8", stop([](auto* s) { s->add_strings("\xff\xfe"); }), kInvalid,
       "stop.strings"},
      {"too many stop strings", stop([](auto* s) {
         for (int i = 0; i < 17; ++i) s->add_strings("a");
       }),
       kInvalid, "stop.strings: at most 16, found 17"},
      {"stop id", stop([](auto* s) { s->add_token_ids(256); }), kInvalid, "stop.token_ids[0]"},
      {"min over max", stop([](auto* s) { s->set_min_tokens(11); }), kInvalid,
       "stop.min_tokens: 11 is more than max_tokens, 10"},
      {"top_log_probs", [](auto* r) { r->set_top_log_probs(21); }, kInvalid,
       "top_log_probs: expected 0 ... 20, found 21"},
      {"top_log_probs alone", [](auto* r) { r->set_top_log_probs(5); }, kInvalid,
       "top_log_probs: expected 0 without log_probs, found 5"},
  };
}

std::vector<BadRequest> BadEnumValues() {
  constexpr StatusCode kInvalid = StatusCode::INVALID_ARGUMENT;
  return {
      {"on_abort", [](auto* r) { r->set_on_abort(static_cast<v1::OnAbort>(9)); }, kInvalid,
       "on_abort: unknown value 9"},
      {"priority", [](auto* r) { r->set_priority(static_cast<v1::Priority>(9)); }, kInvalid,
       "priority: unknown value 9"},
      {"penalty_scope",
       [](auto* r) { r->mutable_sampling()->set_penalty_scope(static_cast<v1::PenaltyScope>(9)); },
       kInvalid, "sampling.penalty_scope: unknown value 9"},
      {"stop_text", [](auto* r) { r->mutable_stop()->set_stop_text(static_cast<v1::StopText>(9)); },
       kInvalid, "stop.stop_text: unknown value 9"},
  };
}

TEST_F(ServerTest, BadRequestsAreNamedAndChangeNothing) {
  const std::string id = Open();
  std::vector<BadRequest> requests = BadRequests();
  for (BadRequest& bad : BadEnumValues()) requests.push_back(std::move(bad));
  for (const BadRequest& bad : requests) {
    v1::GenerateRequest request = Request(id);
    bad.spoil(&request);
    const Generated generated = Generate(request);
    EXPECT_EQ(generated.status.error_code(), bad.code) << bad.name;
    EXPECT_NE(generated.status.error_message().find(bad.message), std::string::npos)
        << bad.name << ": " << generated.status.error_message();
    EXPECT_EQ(Get(id).position(), 0u) << bad.name;
    EXPECT_FALSE(Get(id).turn_running()) << bad.name;
  }
  ExpectAlive();
}

TEST_F(ServerTest, OneTokenLeftIsEnough) {
  v1::GenerateRequest request = Request(Open());
  for (int32_t id = 1; id < 256; ++id) {
    (*request.mutable_sampling()->mutable_logit_bias())[id] = -100;
  }
  const Generated generated = Generate(request);
  EXPECT_TRUE(generated.status.ok()) << generated.status.error_message();
  EXPECT_EQ(generated.tokens, std::vector<int32_t>(10, 0));
}

TEST_F(ServerTest, RefusedTurnsAreCounted) {
  v1::GenerateRequest request = Request(Open());
  request.set_top_log_probs(21);
  Generate(request);
  EXPECT_EQ(model().RequestsCounted("INVALID_ARGUMENT"), 1.0);
}

TEST_F(ServerTest, UnknownModelAndIdInUse) {
  v1::OpenSessionRequest request;
  v1::Session session;
  for (const std::string& name : {std::string("nobody"), std::string(100000, 'x')}) {
    request.set_model(name);
    grpc::ClientContext context;
    const grpc::Status status = stub().OpenSession(&context, request, &session);
    EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
    EXPECT_NE(status.error_message().find("available: m"), std::string::npos);
    EXPECT_LT(status.error_message().size(), 200u);
  }
  request.set_model("m");
  request.set_session_id(Open());
  grpc::ClientContext context;
  EXPECT_EQ(stub().OpenSession(&context, request, &session).error_code(),
            StatusCode::ALREADY_EXISTS);
  v1::ForkSessionRequest fork;
  fork.set_session_id(request.session_id());
  fork.set_new_session_id(request.session_id());
  grpc::ClientContext fork_context;
  const grpc::Status forked = stub().ForkSession(&fork_context, fork, &session);
  EXPECT_EQ(forked.error_code(), StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(forked.error_message(), "new_session_id: " + request.session_id() + " is in use");
  ExpectAlive();
}

TEST_F(ServerTest, AppendRefusals) {
  const std::string id = Open();
  const auto append = [&](const std::vector<v1::AppendRequest>& messages) {
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = stub().Append(&context, &response);
    for (const v1::AppendRequest& message : messages) writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  };
  EXPECT_EQ(append({}).error_code(), StatusCode::INVALID_ARGUMENT);
  v1::AppendRequest good;
  good.set_session_id(id);
  good.mutable_input()->set_text("fine");
  v1::AppendRequest bad;
  bad.mutable_input()->mutable_tokens()->add_ids(300);
  const grpc::Status status = append({good, bad});
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("token id 300"), std::string::npos);
  EXPECT_EQ(Get(id).position(), 0u) << "the whole turn should be rolled back";
  // Fields that belong to the first message must not change in later ones.
  const auto expect_refused = [&](const char* field, const v1::AppendRequest& second) {
    const grpc::Status refused = append({good, second});
    EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT) << field;
    EXPECT_EQ(
        refused.error_message(),
        std::string(field) + ": differs from the first message; only the first message may set it");
    EXPECT_EQ(Get(id).position(), 0u) << field;
  };
  v1::AppendRequest second;
  second.set_session_id(kUnknownId);
  expect_refused("session_id", second);
  second.Clear();
  second.set_expected_position(0);
  expect_refused("expected_position", second);
  second.Clear();
  second.set_on_abort(v1::ON_ABORT_KEEP);
  expect_refused("on_abort", second);
  second.Clear();
  second.set_parse_special(true);
  expect_refused("parse_special", second);

  v1::AppendRequest unknown = good;
  unknown.set_session_id(kUnknownId);
  EXPECT_EQ(append({unknown}).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(append({good}).ok());
  EXPECT_EQ(Get(id).position(), 4u);
}

class SlowServerTest : public ServerTest {
 protected:
  SlowServerTest() : ServerTest(R"({"step_delay_us": 2000})") {}
};

TEST_F(SlowServerTest, SecondWriterIsAborted) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(100000);
  StatusCode second = StatusCode::OK;
  const Generated first =
      Generate(request, [&](const v1::GenerateResponse& response, grpc::ClientContext* context) {
        if (!response.has_delta() || second != StatusCode::OK) return;
        second = Generate(Request(id)).status.error_code();
        context->TryCancel();
      });
  EXPECT_EQ(second, StatusCode::ABORTED);
  EXPECT_EQ(first.status.error_code(), StatusCode::CANCELLED);
}

TEST_F(SlowServerTest, CancelAndDeadlineFreeTheSession) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(100000);
  Generate(request, [](const v1::GenerateResponse& response, grpc::ClientContext* context) {
    if (response.has_delta()) context->TryCancel();
  });
  WaitUntilIdle(id);
  const Generated late = Generate(request, {}, std::chrono::milliseconds(100));
  EXPECT_EQ(late.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  WaitUntilIdle(id);
  EXPECT_EQ(Get(id).position(), 0u);
  EXPECT_TRUE(Generate(Request(id)).status.ok());
}

// A step takes 20 ms and reads at most 512 tokens.
class SlowPrefillTest : public ServerTest {
 protected:
  SlowPrefillTest() : ServerTest(R"({"step_delay_us": 20000})") {}
};

TEST_F(SlowPrefillTest, ADeadlineThatCannotBeMetIsToldAtOnce) {
  v1::GenerateRequest request = Request(Open());
  request.set_max_tokens(1);
  request.mutable_input()->set_text(std::string(512, 'a'));
  for (int i = 0; i <= PrefillSpeed::kWarmUpSamples; ++i) {
    ASSERT_TRUE(Generate(request).status.ok());
  }
  request.mutable_input()->set_text(std::string(60000, 'a'));
  const Generated late = Generate(request, {}, std::chrono::seconds(1));
  EXPECT_EQ(late.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_NE(late.status.error_message().find("reading the prompt of 60000 tokens alone takes"),
            std::string::npos)
      << late.status.error_message();
}

class FailingServerTest : public ServerTest {
 protected:
  FailingServerTest() : ServerTest(R"({"fail_at_position": 100})") {}
};

TEST_F(FailingServerTest, BackendFailureIsInternalAndRolledBack) {
  const std::string id = Open();
  v1::GenerateRequest request = Request(id);
  request.set_max_tokens(1000);
  const Generated generated = Generate(request);
  EXPECT_EQ(generated.status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(Get(id).position(), 0u);
  ExpectAlive();
}

TEST_F(ServerTest, RecomputeMustBeAKnownValue) {
  for (const int value : {0, 1, 2, 3, -1}) {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_recompute(static_cast<v1::Recompute>(value));
    v1::Session session;
    const grpc::Status status = stub().OpenSession(&context, request, &session);
    const bool is_known = value >= 0 && value <= 2;
    EXPECT_EQ(status.error_code(), is_known ? StatusCode::OK : StatusCode::INVALID_ARGUMENT);
    if (!is_known) {
      EXPECT_EQ(status.error_message(), "recompute: unknown value " + std::to_string(value));
    }
  }
}

uint64_t StateBytes() {
  TestEngine engine;
  return engine->model().backend().info().state_bytes_per_sequence;
}

// The model has memory for a session with a running turn and for an idle session.
class SmallServerTest : public ServerTest {
 protected:
  SmallServerTest() : ServerTest("{}", /*cache_bytes=*/3 * StateBytes()) {}
};

TEST_F(SmallServerTest, NoMemoryIsResourceExhaustedWithRetryInfo) {
  grpc::ClientContext running_context;
  v1::GenerateRequest endless = Request(Open());
  endless.set_max_tokens(60000);
  const auto running = stub().Generate(&running_context, endless);
  v1::GenerateResponse started;
  ASSERT_TRUE(running->Read(&started));
  v1::ForkSessionRequest fork;
  fork.set_session_id(Open());
  v1::Session session;
  grpc::ClientContext fork_context;
  const grpc::Status status = stub().ForkSession(&fork_context, fork, &session);
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 2u)
      << "a refused session is left";
  EXPECT_FALSE(Get(fork.session_id()).turn_running());
  running_context.TryCancel();
  ASSERT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::RetryInfo retry;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&retry));
  EXPECT_GT(retry.retry_delay().seconds(), 0);
}

}  // namespace
}  // namespace longstream
