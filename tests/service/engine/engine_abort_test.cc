// A turn that is cancelled or fails leaves its session at a committed state.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/errors/retry_after.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

constexpr char kStepsOf2Ms[] = R"({"step_delay_us": 2000})";

// Reads until `tokens` tokens have been delivered.
std::string ReadSome(Turn& turn, size_t tokens) {
  std::string text;
  size_t seen = 0;
  while (seen < tokens) {
    const TurnStream::Item item = turn.stream.Next();
    if (std::holds_alternative<TurnEnd>(item)) break;
    const auto* event = std::get_if<TurnEvent>(&item);
    const auto* delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta == nullptr) continue;
    text += delta->text;
    seen += delta->tokens.size();
    turn.stream.Delivered(delta->position);
  }
  return text;
}

TEST(EngineAbort, CancelRollsBack) {
  TestEngine engine(kStepsOf2Ms);
  const auto session = engine.Open();
  const std::string before = RunTurn(*engine, MakeTurn(Generate(session, "start", 10))).text;
  const auto turn = MakeTurn(Generate(session, "more", 100000));
  ASSERT_TRUE(engine.Start(turn).ok());
  ReadSome(*turn, 5);
  turn->Cancel();
  engine->Wake();
  const Outcome outcome = ReadToEnd(*turn);
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(session->View().position, 15u);
  EXPECT_FALSE(session->View().turn_running);

  // The session continues as if the cancelled turn had never run.
  const auto twin = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(twin, "start", 10)));
  EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "x", 20))).text,
            RunTurn(*engine, MakeTurn(Generate(twin, "x", 20))).text);
}

TEST(EngineAbort, KeepStopsAtTheLastDeliveredToken) {
  TestEngine engine(kStepsOf2Ms);
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, "start", 100000);
  request.on_abort = OnAbort::kKeep;
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  ReadSome(*turn, 7);
  const uint64_t delivered = turn->stream.delivered_position();
  turn->Cancel();
  engine->Wake();
  // The session must not keep the tokens that this loop reads, because they were not delivered
  // before the cancel.
  while (!std::holds_alternative<TurnEnd>(turn->stream.Next())) {
  }
  EXPECT_EQ(session->View().position, delivered);
  EXPECT_GE(delivered, 12u);

  const auto twin = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(twin, "start", delivered - 5)));
  EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "", 20))).text,
            RunTurn(*engine, MakeTurn(Generate(twin, "", 20))).text);
}

// After a rollback some tokens must be computed again. The turn that computes them reports them,
// even if another turn was begun and cancelled after the rollback.
TEST(EngineAbort, LostTokensAreReportedAfterAnotherAbort) {
  TestEngine engine(R"({"step_delay_us": 20000})");
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, std::string(2000, 'a'), 100000);
  request.on_abort = OnAbort::kKeep;
  const auto kept = MakeTurn(request);
  ASSERT_TRUE(engine.Start(kept).ok());
  ReadSome(*kept, 3);
  const uint64_t delivered = kept->stream.delivered_position();
  absl::SleepFor(absl::Milliseconds(100));  // the engine runs ahead of the reader
  kept->Cancel();
  engine->Wake();
  while (!std::holds_alternative<TurnEnd>(kept->stream.Next())) {
  }
  ASSERT_EQ(session->View().position, delivered);

  const auto cancelled = MakeTurn(Generate(session, "", 100000));
  ASSERT_TRUE(engine.Start(cancelled).ok());
  const auto reads = [](const TurnStream::Item& item) {
    const auto* event = std::get_if<TurnEvent>(&item);
    return event != nullptr && std::holds_alternative<PrefillEvent>(*event);
  };
  while (!reads(cancelled->stream.Next())) absl::SleepFor(absl::Microseconds(100));
  cancelled->Cancel();
  engine->Wake();
  ASSERT_EQ(ReadToEnd(*cancelled).end.status.code(), absl::StatusCode::kCancelled);

  const TurnUsage usage = RunTurn(*engine, MakeTurn(Generate(session, "", 1))).end.usage;
  EXPECT_GT(usage.reused_tokens, 0u);
  EXPECT_GT(usage.recomputed_tokens, 0u);
  EXPECT_EQ(usage.reused_tokens + usage.recomputed_tokens, delivered - 1);
  EXPECT_NE(usage.recompute_reason, "");
}

TEST(EngineAbort, DeadlineDuringTheTurn) {
  TestEngine engine(kStepsOf2Ms);
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, "start", 100000);
  request.deadline = MonotonicTime::Now() + absl::Milliseconds(100);
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(session->View().position, 0u);
}

// gRPC cancels a call whose deadline has passed, so the engine may learn of both at once. Then the
// turn's status must be DEADLINE_EXCEEDED.
TEST(EngineAbort, DeadlineIsTheReasonWhereBothAreTrue) {
  TestEngine engine(R"({"step_delay_us": 100000})");
  SessionTurnRequest request = Generate(engine.Open(), "start", 100000);
  request.deadline = MonotonicTime::Now() + absl::Milliseconds(20);
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  absl::SleepFor(absl::Milliseconds(30));  // within the first step
  turn->Cancel();
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(EngineAbort, DeadlineThatCannotBeMetIsRefused) {
  TestEngine engine(R"({"step_delay_us": 50000})");
  const auto session = engine.Open();
  for (int i = 0; i <= PrefillSpeed::kWarmUpSamples; ++i) {
    ASSERT_TRUE(
        RunTurn(*engine, MakeTurn(Generate(session, std::string(512, 'a'), 1))).end.status.ok());
  }
  SessionTurnRequest request = Generate(session, std::string(20000, 'a'), 1);
  request.deadline = MonotonicTime::Now() + absl::Milliseconds(200);
  const auto turn = MakeTurn(request);
  const absl::Status status = engine.Start(turn);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_FALSE(session->View().turn_running);
}

// A client that stops reading or writing does not hold its memory for ever.
TEST(EngineAbort, ReaderWhoNeverReads) {
  TestEngine engine("{}", 0,
                    {.stream_buffer_bytes = 64, .client_timeout = absl::Milliseconds(200)});
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 100000));
  ASSERT_TRUE(engine.Start(turn).ok());
  while (session->View().turn_running) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(session->View().position, 0u);
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "start", 5))).end.status.ok());
  const TurnEnd end = ReadToEnd(*turn).end;
  EXPECT_EQ(end.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(end.status.message(),
            "the client has neither read nor sent anything for 200ms, scheduler.client_timeout");
}

TEST(EngineAbort, WriterWhoStopsWriting) {
  TestEngine engine("{}", 0, {.client_timeout = absl::Milliseconds(200)});
  SessionTurnRequest request;
  request.kind = TurnKind::kAppend;
  request.session = engine.Open();
  request.on_abort = OnAbort::kKeep;
  const auto turn = MakeTurn(request);
  turn->AddInput(Bytes(std::string(70, 'a')));
  ASSERT_TRUE(engine.Start(turn).ok());
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(request.session->View().position, 70u)
      << "the request asked to keep the text that had arrived";
}

// A client that is slow is not cut off. Its turn goes on as long as the client reads or writes
// within each timeout.
TEST(EngineAbort, SlowClientsAreServed) {
  TestEngine engine("{}", 0, {.stream_buffer_bytes = 64, .client_timeout = absl::Seconds(2)});
  SessionTurnRequest append;
  append.kind = TurnKind::kAppend;
  append.session = engine.Open();
  const auto writer = MakeTurn(append);
  const auto reader = MakeTurn(Generate(engine.Open(), "start", 50));
  ASSERT_TRUE(engine.Start(writer).ok());
  ASSERT_TRUE(engine.Start(reader).ok());
  for (int i = 0; i < 12; ++i) {
    absl::SleepFor(absl::Milliseconds(250));
    writer->AddInput(Bytes("a"));
    engine->Wake();
    reader->stream.Next();
  }
  writer->CloseInput();
  engine->Wake();
  EXPECT_TRUE(ReadToEnd(*writer).end.status.ok());
  EXPECT_TRUE(ReadToEnd(*reader).end.status.ok());
}

TEST(EngineAbort, BackendFailureRollsBackAndTheSessionLives) {
  std::vector<std::string> failures;
  TestEngine engine(
      R"({"fail_at_position": 30})", 0,
      {.on_failure = [&](std::string_view model, std::string_view request_id,
                         const absl::Status& status) {
        failures.push_back(absl::StrCat(std::string(model), ", ", std::string(request_id), ": ",
                                        status.message()));
      }});
  const auto session = engine.Open();
  ASSERT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "start", 10))).end.status.ok());
  SessionTurnRequest request = Generate(session, "", 1000);
  // Applies when the caller aborts, not when the backend fails.
  request.on_abort = OnAbort::kKeep;
  request.request_id = "my-id";
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(session->View().position, 15u);
  ASSERT_EQ(failures.size(), 1u) << "the operator should be told once";
  EXPECT_NE(failures[0].find("m, my-id: the backend failed the turn: NaN logits"),
            std::string::npos)
      << failures[0];
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "", 5))).end.status.ok());
}

// Three turns run. `request` and `other` share the step that loses the device; `unread` waits for
// its reader.
TEST(EngineAbort, ALostDeviceEndsEveryTurnAndIsToldOnce) {
  std::vector<absl::Status> told;
  TestEngine engine(R"({"lose_device_at_position": 30})", 0,
                    {.stream_buffer_bytes = 200,
                     .on_lost = [&](const absl::Status& lost) { told.push_back(lost); }});
  const auto session = engine.Open();
  ASSERT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "start", 10))).end.status.ok());
  const auto unread = MakeTurn(Generate(engine.Open(), "unread", 20));
  ASSERT_TRUE(engine.Start(unread).ok());
  const auto other = MakeTurn(Generate(engine.Open(), "other", 1000));
  ASSERT_TRUE(engine.Start(other).ok());

  SessionTurnRequest request = Generate(session, "", 1000);
  request.on_abort = OnAbort::kKeep;
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.status,
            UntilMended(absl::UnavailableError("the device is lost: the device answers no more")));
  EXPECT_EQ(ReadToEnd(*other).end.status.code(), absl::StatusCode::kUnavailable);
  const absl::Status of_unread = ReadToEnd(*unread).end.status;
  EXPECT_TRUE(of_unread.ok() || absl::IsUnavailable(of_unread)) << of_unread;
  EXPECT_GE(session->View().position, 15u) << "the session keeps its history";

  EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "", 5))).end.status.code(),
            absl::StatusCode::kUnavailable);
  engine->Flush();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], outcome.end.status);
}

TEST(EngineAbort, SecondWriterIsAborted) {
  TestEngine engine(kStepsOf2Ms);
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 100000));
  ASSERT_TRUE(engine.Start(turn).ok());
  EXPECT_EQ(engine.Start(MakeTurn(Generate(session, "x", 1))).code(), absl::StatusCode::kAborted);
  turn->Cancel();
  engine->Wake();
  ReadToEnd(*turn);
}

TEST(EngineAbort, CloseCancelsTheTurn) {
  TestEngine engine(kStepsOf2Ms);
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 100000));
  ASSERT_TRUE(engine.Start(turn).ok());
  ReadSome(*turn, 3);
  ASSERT_TRUE(session->Close());
  engine->Close(session, [](uint64_t) {});
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine.Start(MakeTurn(Generate(session, "x", 1))).code(), absl::StatusCode::kNotFound);
}

TEST(EngineAbort, DrainRefusesAndAbortAllEnds) {
  TestEngine engine(kStepsOf2Ms);
  const auto turn = MakeTurn(Generate(engine.Open(), "start", 100000));
  const auto other = engine.Open();
  ASSERT_TRUE(engine.Start(turn).ok());
  engine->BeginDrain();
  EXPECT_EQ(engine.Start(MakeTurn(Generate(other, "x", 1))).code(), absl::StatusCode::kUnavailable);
  engine->AbortAll(absl::UnavailableError("over"));
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kUnavailable);
}

// AbortAll is not a failure of the backend, so a turn that asks for kKeep keeps its tokens.
TEST(EngineAbort, AbortAllKeepsWhatWasToBeKept) {
  TestEngine engine(kStepsOf2Ms);
  SessionTurnRequest request = Generate(engine.Open(), "start", 100000);
  request.on_abort = OnAbort::kKeep;
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  ReadSome(*turn, 3);
  const uint64_t delivered = turn->stream.delivered_position();
  engine->AbortAll(absl::UnavailableError("over"));
  while (!std::holds_alternative<TurnEnd>(turn->stream.Next())) {
  }
  EXPECT_GE(delivered, 8u);
  EXPECT_EQ(request.session->View().position, delivered);
}

TEST(EngineAbort, EngineThatGoesEndsItsTurns) {
  std::shared_ptr<SessionTurn> turn;
  {
    TestEngine engine(kStepsOf2Ms);
    turn = MakeTurn(Generate(engine.Open(), "start", 100000));
    ASSERT_TRUE(engine.Start(turn).ok());
  }
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace longstream
