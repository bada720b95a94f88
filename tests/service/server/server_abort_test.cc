// Turns that do not finish, and sessions that another call closes or forks during a turn.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/service/server/server_fixture.h"

namespace longstream {
namespace {

using grpc::StatusCode;

class AbortTest : public ServerTest {
 protected:
  AbortTest() : ServerTest(R"({"step_delay_us": 2000})") {}

  // A request that generates until it is stopped.
  v1::GenerateRequest Endless(const std::string& id) const {
    v1::GenerateRequest request = Request(id);
    request.set_max_tokens(60000);
    return request;
  }

  // Runs the request and calls `once` when its first delta arrives.
  Generated GenerateAnd(const v1::GenerateRequest& request,
                        const std::function<void(grpc::ClientContext*)>& once) {
    bool done = false;
    return Generate(request,
                    [&](const v1::GenerateResponse& response, grpc::ClientContext* context) {
                      if (!response.has_delta() || done) return;
                      done = true;
                      once(context);
                    });
  }

  static void Cancel(grpc::ClientContext* context) { context->TryCancel(); }
};

TEST_F(AbortTest, KeepEndsAtADeliveredToken) {
  const std::string id = Open();
  v1::GenerateRequest request = Endless(id);
  request.set_on_abort(v1::ON_ABORT_KEEP);
  const Generated generated = GenerateAnd(request, Cancel);
  EXPECT_EQ(generated.status.error_code(), StatusCode::CANCELLED);
  WaitUntilIdle(id);
  // The kept position is the position of the last token that was handed to the transport. The
  // client may not have read all tokens up to it.
  const uint64_t position = Get(id).position();
  EXPECT_GE(position, generated.deltas.back().position());

  // The session continues as if the turn had not been cancelled.
  v1::GenerateRequest rest = Request(id);
  rest.clear_input();
  const std::string continued = Generate(rest).text;
  v1::GenerateRequest whole = Request(Open());
  whole.set_max_tokens(static_cast<uint32_t>(position) - 5 + 10);
  const std::string undisturbed = Generate(whole).text;
  EXPECT_EQ(undisturbed.substr(undisturbed.size() - 10), continued);
}

TEST_F(AbortTest, ARunningSessionIsNotForked) {
  const std::string id = Open();
  grpc::Status forked;
  GenerateAnd(Endless(id), [&](grpc::ClientContext* running) {
    grpc::ClientContext context;
    v1::ForkSessionRequest request;
    request.set_session_id(id);
    v1::Session session;
    forked = stub().ForkSession(&context, request, &session);
    running->TryCancel();
  });
  EXPECT_EQ(forked.error_code(), StatusCode::ABORTED) << forked.error_message();
  WaitUntilIdle(id);
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 1u)
      << "the refused fork left a session";
}

TEST_F(AbortTest, ClosingARunningSessionCancelsTheTurn) {
  const std::string id = Open();
  grpc::Status closed;
  const Generated generated = GenerateAnd(Endless(id), [&](grpc::ClientContext*) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    closed = stub().CloseSession(&context, request, &response);
  });
  EXPECT_TRUE(closed.ok()) << closed.error_message();
  EXPECT_EQ(generated.status.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(generated.status.error_message(), "the session was closed");
  EXPECT_EQ(Generate(Request(id)).status.error_code(), StatusCode::NOT_FOUND);
}

TEST_F(AbortTest, CancelledAppendIsRolledBackOrKept) {
  for (const v1::OnAbort on_abort : {v1::ON_ABORT_ROLLBACK, v1::ON_ABORT_KEEP}) {
    const std::string id = Open();
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = stub().Append(&context, &response);
    v1::AppendRequest piece;
    piece.set_session_id(id);
    piece.set_on_abort(on_abort);
    piece.mutable_input()->set_text(std::string(64, 'a'));
    ASSERT_TRUE(writer->Write(piece));
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (Get(id).position() < 64 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(2));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), StatusCode::CANCELLED);
    WaitUntilIdle(id);
    EXPECT_EQ(Get(id).position(), on_abort == v1::ON_ABORT_KEEP ? 64u : 0u);
  }
}

// If a caller goes away before it learns the id that the server drew, it could never close the
// session. So the server closes the session.
TEST_F(ServerTest, SessionsThatNobodyLearnsOfAreClosed) {
  const std::string source = Open();
  const auto engine = models().Find("m");
  ASSERT_TRUE(engine.ok());
  absl::Notification release;
  TurnLease held = TurnLease::OfNewSession(SessionId::Random(), "m", 100, absl::Hours(1));
  const std::shared_ptr<Session> session = held.session();
  (*engine)->Open(std::move(held), [&](const absl::Status&) { release.WaitForNotification(); });

  const std::string chosen(32, 'a');
  size_t expected = 1;
  // Makes a call and cancels it as soon as the server has made the call's session.
  const auto give_up = [&](const std::function<grpc::Status(grpc::ClientContext*)>& call) {
    grpc::ClientContext context;
    grpc::Status status;
    std::thread caller([&] { status = call(&context); });
    ++expected;
    const absl::Time too_late = absl::Now() + absl::Seconds(20);
    while (sessions().List("", std::nullopt, 10).sessions.size() < expected &&
           absl::Now() < too_late) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    context.TryCancel();
    caller.join();
    EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  };
  v1::Session opened;
  for (const std::string& id : {std::string(), chosen}) {
    v1::OpenSessionRequest request;
    request.set_session_id(id);
    give_up([&](auto* context) { return stub().OpenSession(context, request, &opened); });
  }
  v1::ForkSessionRequest request;
  request.set_session_id(source);
  give_up([&](auto* context) { return stub().ForkSession(context, request, &opened); });
  EXPECT_EQ(sessions().List("", std::nullopt, 10).sessions.size(), 4u);
  // The server learns of the cancels a little later than the client, but before the engine goes on.
  Get(source);
  absl::SleepFor(absl::Milliseconds(200));
  release.Notify();
  (*engine)->Flush();
  std::set<std::string> left;
  for (const SessionView& view : sessions().List("", std::nullopt, 10).sessions) {
    left.insert(view.id.ToString());
  }
  EXPECT_EQ(left, (std::set<std::string>{source, chosen}));

  ASSERT_TRUE(session->Close());
  (*engine)->Close(session, [](uint64_t) {});
}

// The client's connection is closed during an Append.
TEST_F(AbortTest, DisconnectedAppendFreesTheSession) {
  const std::string id = Open();
  {
    grpc::ChannelArguments own_connection;
    own_connection.SetInt("unique", 1);
    const auto channel =
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server().port()),
                                  grpc::InsecureChannelCredentials(), own_connection);
    const auto other = v1::Longstream::NewStub(channel);
    grpc::ClientContext context;
    v1::AppendResponse response;
    const auto writer = other->Append(&context, &response);
    v1::AppendRequest piece;
    piece.set_session_id(id);
    piece.mutable_input()->set_text("some text");
    ASSERT_TRUE(writer->Write(piece));
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (!Get(id).turn_running() && absl::Now() < give_up) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    EXPECT_TRUE(Get(id).turn_running());
  }
  WaitUntilIdle(id);
  EXPECT_EQ(Get(id).position(), 0u);
  EXPECT_TRUE(Generate(Request(id)).status.ok());
}

// The model has memory for two sessions and one rollback copy, so a second turn must wait.
class CrowdedTest : public ServerTest {
 protected:
  CrowdedTest() : ServerTest("{}", 3 * StateBytes()) {}

  static uint64_t StateBytes() {
    TestEngine engine;
    return engine->model().backend().info().state_bytes_per_sequence;
  }
};

// The engine has not admitted the Append, so the server counts its text as it arrives.
TEST_F(CrowdedTest, WhatAnAppendSendsWhileItWaitsIsBounded) {
  const std::string running = Open();
  const std::string waiting = Open();
  grpc::ClientContext running_context;
  v1::AppendResponse response;
  const auto holder = stub().Append(&running_context, &response);
  v1::AppendRequest piece;
  piece.set_session_id(running);
  piece.mutable_input()->set_text(std::string(64, 'a'));
  ASSERT_TRUE(holder->Write(piece));
  const absl::Time give_up = absl::Now() + absl::Seconds(10);
  while (Get(running).position() < 64 && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(2));
  }

  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  const auto writer = stub().Append(&context, &response);
  piece.set_session_id(waiting);
  piece.mutable_input()->set_text(std::string(16000, 'b'));
  for (int i = 0; i < 5; ++i) writer->Write(piece);
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "input: 16000 tokens after position 64000 exceed the model's context of 65536");
  EXPECT_FALSE(Get(waiting).turn_running());

  holder->WritesDone();
  EXPECT_TRUE(holder->Finish().ok());
}

// A malformed message refuses the whole turn and rolls it back, even with ON_ABORT_KEEP.
TEST_F(AbortTest, RefusedAppendIsRolledBackAndCounted) {
  const std::string id = Open();
  grpc::ClientContext context;
  v1::AppendResponse response;
  const auto writer = stub().Append(&context, &response);
  v1::AppendRequest piece;
  piece.set_session_id(id);
  piece.set_on_abort(v1::ON_ABORT_KEEP);
  piece.mutable_input()->set_text("fine");
  ASSERT_TRUE(writer->Write(piece));
  piece.mutable_input()->mutable_tokens()->add_ids(300);
  writer->Write(piece);
  EXPECT_EQ(writer->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Get(id).position(), 0u);
  EXPECT_FALSE(Get(id).turn_running());
  EXPECT_EQ(model().RequestsCounted("INVALID_ARGUMENT"), 1.0);
}

}  // namespace
}  // namespace longstream
