// Two steps in flight: when the engine submits a second step, how much time the second step saves,
// and how a turn ends while both steps contain it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

TestModel Asynchronous() { return {LONGSTREAM_TEST_PLUGIN_DIR "/asynchronous_minimal.so", ""}; }

Engine::Options StepsInFlight(size_t most) { return {.max_steps_in_flight = most}; }

// The number of steps that were submitted while another step was in flight (asynchronous.cc).
uint64_t StepsAhead(TestEngine& engine) { return engine->model().backend().memory().workspace; }

// ---------------------------------------------------------------- when the engine looks ahead

// Every token but the first is drawn by a step that was submitted while another one was in flight.
// The exception is a step after a grid line: it must wait for the step before it, because the
// minimal backend keeps a state.
TEST(LookAhead, UpToGridLines) {
  constexpr uint64_t kPrompt = 4;
  constexpr uint64_t kTokens = 40;
  TestEngine engine("{}", 0, StepsInFlight(2), Asynchronous());
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  uint64_t expected = 0;
  for (uint64_t i = 1; i < kTokens; ++i) expected += (kPrompt + i) % grid != 0;
  RunTurn(*engine, MakeTurn(Generate(engine.Open(), "abcd", kTokens)));
  EXPECT_EQ(StepsAhead(engine), expected);
}

// A prompt is read in steps of 64 tokens. Each step but the first is submitted while the previous
// one is in flight.
TEST(LookAhead, PromptsInPieces) {
  Engine::Options options = StepsInFlight(2);
  options.max_batch_tokens = 64;
  options.max_batch_sequences = 8;
  TestEngine engine("{}", 0, options, Asynchronous());
  RunTurn(*engine, MakeTurn(Generate(engine.Open(), std::string(300, 'x'), 1)));
  EXPECT_EQ(StepsAhead(engine), 4u);
}

// A turn that follows tokens reads them, and not what the step before draws.
TEST(LookAhead, ATurnThatFollowsKnownTokens) {
  constexpr uint64_t kPrompt = 4;
  constexpr uint64_t kTokens = 40;
  TestEngine engine("{}", 0, StepsInFlight(2), Asynchronous());
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  SessionTurnRequest request = Generate(engine.Open(), "abcd", kTokens);
  request.log_probs = true;
  const Outcome drawn = RunTurn(*engine, MakeTurn(request));
  const uint64_t ahead_before = StepsAhead(engine);
  const auto followed = std::make_shared<FollowedTokens>([&engine] { engine->Wake(); });
  for (const int32_t token : drawn.tokens) followed->Push(token);
  followed->Close();
  request.session = engine.Open();
  request.sampling.seed = 99;  // it draws other tokens
  request.followed = followed;
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens, drawn.tokens);
  for (size_t i = 0; i < kTokens; ++i) {
    EXPECT_EQ(outcome.log_probs[i].log_prob, drawn.log_probs[i].log_prob) << i;
  }
  uint64_t expected = 0;
  for (uint64_t i = 1; i < kTokens; ++i) expected += (kPrompt + i) % grid != 0;
  EXPECT_EQ(StepsAhead(engine) - ahead_before, expected);
}

TEST(LookAhead, NotWherePenaltiesCountWhatIsDrawn) {
  TestEngine engine("{}", 0, StepsInFlight(2), Asynchronous());
  SessionTurnRequest request = Generate(engine.Open(), "abcd", 40);
  request.sampling.frequency_penalty = 0.5f;
  RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(StepsAhead(engine), 0u);
}

// While pieces of an Append are in flight, its caller sends more text. The engine reads that text
// after the pieces. Another turn keeps the engine running.
TEST(LookAhead, InputThatArrivesInFlight) {
  TestEngine engine(R"({"step_delay_us": 10000})", 0, StepsInFlight(2), Asynchronous());
  const auto other = MakeTurn(Generate(engine.Open(), "abcd", 20000));
  ASSERT_TRUE(engine.Start(other).ok());
  const std::string prompt(320, 'p');
  const std::string expected = RunTurn(*engine, MakeTurn(Generate(engine.Open(), prompt, 10))).text;
  SessionTurnRequest request;
  request.kind = TurnKind::kAppend;
  request.session = engine.Open();
  const auto turn = MakeTurn(request);
  ASSERT_TRUE(engine.Start(turn).ok());
  for (size_t begin = 0; begin < prompt.size(); begin += 40) {
    turn->AddInput(Bytes(prompt.substr(begin, 40)));
    engine->Wake();
    absl::SleepFor(absl::Milliseconds(4));
  }
  turn->CloseInput();
  engine->Wake();
  EXPECT_EQ(ReadToEnd(*turn).end.position, prompt.size());
  EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(request.session, "", 10))).text, expected);
  other->Cancel();
  engine->Wake();
  ReadToEnd(*other);
}

// The engine cannot look ahead for the penalised turn, but it can for the other one. Both must draw
// equally many tokens in the same time.
TEST(LookAhead, NobodyIsLeftBehind) {
  TestEngine engine(R"({"step_delay_us": 2000})", 0, StepsInFlight(2), Asynchronous());
  const auto free = MakeTurn(Generate(engine.Open(), "abcd", 20000));
  SessionTurnRequest request = Generate(engine.Open(), "abcd", 60);
  request.sampling.presence_penalty = 0.5f;
  const auto penalised = MakeTurn(request);
  absl::Notification ended;
  // The reader runs on the engine's thread, so `free` takes no further step before it is cancelled.
  penalised->stream.SetReader([&] {
    for (TurnStream::Item item = penalised->stream.Next(); item.index() != 0;
         item = penalised->stream.Next()) {
      const auto* end = std::get_if<TurnEnd>(&item);
      if (end == nullptr) continue;
      EXPECT_TRUE(end->status.ok()) << end->status;
      free->Cancel();
      return ended.Notify();
    }
  });
  ASSERT_TRUE(engine.Start(penalised).ok());
  ASSERT_TRUE(engine.Start(free).ok());
  ended.WaitForNotification();
  const Outcome outcome = ReadToEnd(*free);
  EXPECT_LT(outcome.end.usage.generated_tokens, 100u)
      << "the free turn took two steps for each step of the other";
}

// When the host receives a token, the step that reads it is already on the device. So the host's
// work on a token costs the device no time.
TEST(LookAhead, TheHostWorksBesideTheDevice) {
  constexpr uint64_t kPrompt = 4;
  constexpr uint64_t kTokens = 40;
  TestEngine engine("{}", 0, StepsInFlight(2), Asynchronous());
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  const auto turn = MakeTurn(Generate(engine.Open(), "abcd", kTokens));
  uint64_t heard = 0, read_ahead = 0, late = 0;
  absl::Notification ended;
  turn->stream.SetReader([&] {  // runs on the engine's thread
    for (TurnStream::Item item = turn->stream.Next(); item.index() != 0;
         item = turn->stream.Next()) {
      if (std::holds_alternative<TurnEnd>(item)) return ended.Notify();
      const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
      if (delta == nullptr) continue;
      for (size_t i = 0; i < delta->tokens.size() && ++heard < kTokens; ++i) {
        read_ahead += (kPrompt + heard) % grid != 0;
      }
      if (StepsAhead(engine) < read_ahead) ++late;
    }
  });
  EXPECT_TRUE(engine.Start(turn).ok());
  ended.WaitForNotification();
  EXPECT_EQ(heard, kTokens);
  EXPECT_EQ(late, 0u);
  EXPECT_EQ(StepsAhead(engine), read_ahead);
}

TEST(LookAhead, TimesAreTheDevices) {
  constexpr uint64_t kTokens = 20;
  TestEngine engine(R"({"step_delay_us": 5000})", 0, StepsInFlight(2), Asynchronous());
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(engine.Open(), "abcd", kTokens)));
  const TurnUsage& usage = outcome.end.usage;
  EXPECT_GE(usage.time_to_first_token, absl::Milliseconds(5));
  // The test checks the sum of both times. If a busy host learns of the first token late and of the
  // last token in time, decode_time alone is too short.
  EXPECT_GE(usage.time_to_first_token + usage.decode_time, kTokens * absl::Milliseconds(5) * 0.98);
}

// ---------------------------------------------------------------- how turns end

// The token that ends the turn is fed in a step that fails. The failure must not matter, because
// the turn needs no result of that step.
TEST(LookAheadEnd, AFailureBehindTheEndIsNone) {
  std::vector<std::string> texts;
  for (const size_t most : {1, 2}) {
    TestEngine free("{}", 0, StepsInFlight(most), Asynchronous());
    const Outcome whole = RunTurn(*free, MakeTurn(Generate(free.Open(), "q", 60)));
    // The stop token must not occur earlier in the text, so that it ends the turn here.
    size_t index = 20;
    const auto is_new = [&](size_t i) {
      const auto begin = whole.tokens.begin();
      const auto end = begin + static_cast<std::ptrdiff_t>(i);
      return std::find(begin, end, whole.tokens[i]) == end;
    };
    while (index > 0 && (!is_new(index) || (index + 2) % 16 == 0)) --index;
    ASSERT_GT(index, 2u);
    // `position` is the stop token's position. The backend fails the step that feeds a token there.
    const uint64_t position = 1 + index;
    TestEngine engine(absl::StrCat(R"({"fail_at_position": )", position, "}"), 0,
                      StepsInFlight(most), Asynchronous());
    const auto session = engine.Open();
    SessionTurnRequest request = Generate(session, "q", 60);
    request.stop.token_ids = {whole.tokens[index]};
    const Outcome outcome = RunTurn(*engine, MakeTurn(request));
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.end.reason, FinishReason::kStopToken);
    EXPECT_EQ(outcome.end.position, position + 1);
    EXPECT_EQ(StepsAhead(engine) > 0, most == 2);
    // The next turn needs the stop token to be read, so it fails.
    EXPECT_EQ(RunTurn(*engine, MakeTurn(Generate(session, "", 5))).end.status.code(),
              absl::StatusCode::kInternal);
    EXPECT_EQ(session->View().position, position + 1);
    texts.push_back(outcome.text);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// If a step fails, the turn ends after the tokens that were drawn before the failed step, and the
// client receives those tokens.
TEST(LookAheadEnd, AFailureInFlightIsTheTurns) {
  TestEngine engine(R"({"fail_at_position": 30})", 0, StepsInFlight(2), Asynchronous());
  const auto session = engine.Open();
  const Outcome outcome = RunTurn(*engine, MakeTurn(Generate(session, "start", 1000)));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(outcome.tokens.size(), 26u)
      << "the tokens at 5 ... 30; the step that reads the last one fails";
  EXPECT_EQ(session->View().position, 0u);
  EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(session, "start", 5))).end.status.ok());
}

// The engine knows where the context ends and submits no step beyond it.
TEST(LookAheadEnd, AtTheContext) {
  TestEngine engine(R"({"context_limit": 40})", 0, StepsInFlight(2), Asynchronous());
  const Outcome outcome =
      RunTurn(*engine, MakeTurn(Generate(engine.Open(), std::string(30, 'a'), 0)));
  EXPECT_EQ(outcome.end.reason, FinishReason::kContext);
  EXPECT_EQ(outcome.end.position, 40u);
  EXPECT_GT(StepsAhead(engine), 0u);
}

// Reads until the first token arrives. From then on two steps are in flight.
void AwaitToken(Turn& turn) {
  while (true) {
    const TurnStream::Item item = turn.stream.Next();
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event != nullptr && std::holds_alternative<DeltaEvent>(*event)) return;
    absl::SleepFor(absl::Microseconds(200));
  }
}

// When the host receives a token, two steps are in flight. After a cancel no other step may follow
// them.
TEST(LookAheadEnd, ACancellationTakesTwoStepsAtMost) {
  TestEngine engine("{}", 0, StepsInFlight(2), Asynchronous());
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 1000));
  uint64_t ahead = 0;
  TurnEnd end;
  absl::Notification ended;
  turn->stream.SetReader([&] {  // runs on the engine's thread
    for (TurnStream::Item item = turn->stream.Next(); item.index() != 0;
         item = turn->stream.Next()) {
      if (auto* last = std::get_if<TurnEnd>(&item)) {
        end = std::move(*last);
        return ended.Notify();
      }
      if (ahead > 0 || !std::holds_alternative<DeltaEvent>(std::get<TurnEvent>(item))) continue;
      ahead = StepsAhead(engine);
      turn->Cancel();
    }
  });
  ASSERT_TRUE(engine.Start(turn).ok());
  ended.WaitForNotification();
  EXPECT_EQ(end.status.code(), absl::StatusCode::kCancelled);
  EXPECT_GT(ahead, 0u);
  EXPECT_EQ(StepsAhead(engine), ahead);
  EXPECT_EQ(session->View().position, 0u);
}

TEST(LookAheadEnd, ADeadlineTakesTwoStepsAtMost) {
  constexpr absl::Duration kStep = absl::Milliseconds(100);
  TestEngine engine(R"({"step_delay_us": 100000})", 0, StepsInFlight(2), Asynchronous());
  SessionTurnRequest request = Generate(engine.Open(), "start", 1000);
  request.deadline = MonotonicTime::Now() + 3.5 * kStep;
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kDeadlineExceeded);
  // At the deadline at most three steps have ended and two are in flight. Of these five steps, all
  // but the first were submitted while another step was in flight.
  EXPECT_LE(StepsAhead(engine), 4u);
}

// Close waits for the session's steps in flight. When Close calls back, the session's caches are
// gone, and the other turn has not changed.
TEST(LookAheadEnd, CloseWaitsAndTheOthersGoOn) {
  const std::string slow = R"({"step_delay_us": 3000})";
  TestEngine alone("{}", 0, StepsInFlight(2), Asynchronous());
  const std::string expected = RunTurn(*alone, MakeTurn(Generate(alone.Open(), "other", 60))).text;
  TestEngine engine(slow, 0, StepsInFlight(2), Asynchronous());
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 1000));
  const auto other = MakeTurn(Generate(engine.Open(), "other", 60));
  ASSERT_TRUE(engine.Start(turn).ok());
  ASSERT_TRUE(engine.Start(other).ok());
  AwaitToken(*turn);
  ASSERT_TRUE(session->Close());
  uint64_t states = 0;
  const uint64_t state = engine->model().backend().info().state_bytes_per_sequence;
  engine->Close(session, [&](uint64_t) { states = engine->model().backend().memory().states; });
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
  engine->Flush();
  EXPECT_EQ(states, state) << "only the other session should have a state";
  EXPECT_EQ(ReadToEnd(*other).text, expected);
}

TEST(LookAheadEnd, AbortAllEndsWhatIsInFlight) {
  TestEngine engine(R"({"step_delay_us": 3000})", 0, StepsInFlight(2), Asynchronous());
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 4; ++i) {
    turns.push_back(MakeTurn(Generate(engine.Open(), "start", 1000, 1 + i)));
    ASSERT_TRUE(engine.Start(turns.back()).ok());
  }
  AwaitToken(*turns[0]);
  engine->AbortAll(absl::UnavailableError("over"));
  for (const auto& turn : turns) {
    EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(turn->session->View().turn_running);
  }
}

}  // namespace
}  // namespace longstream
