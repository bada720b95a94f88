// Places in the batch: more turns compute than there are places, so turns take turns.
#include <gtest/gtest.h>
#include <prometheus/client_metric.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// With this slice, places change hands after every step.
constexpr absl::Duration kEachStep = absl::Nanoseconds(1);
// With this slice, a turn keeps its place in a test.
constexpr absl::Duration kForEver = absl::Hours(1);

SessionTurnRequest WithPriority(SessionTurnRequest request, Priority priority) {
  request.priority = priority;
  return request;
}

// Reads a turn on the engine's thread, after each step.
class PlaceReader {
 public:
  // `on_token` is called with the number of tokens that the reader has taken so far.
  PlaceReader(std::shared_ptr<SessionTurn> turn, std::function<void(uint64_t)> on_token)
      : turn_(std::move(turn)), on_token_(std::move(on_token)) {
    turn_->stream.SetReader([this] { Read(); });
  }
  PlaceReader(const PlaceReader&) = delete;
  PlaceReader& operator=(const PlaceReader&) = delete;

  Turn& turn() { return *turn_; }
  const std::shared_ptr<SessionTurn>& shared() const { return turn_; }
  uint64_t tokens() const { return tokens_; }
  // Waits for the end of the turn.
  const TurnEnd& End() {
    ended_.WaitForNotification();
    return end_;
  }
  bool ended() const { return ended_.HasBeenNotified(); }

 private:
  void Read() {
    for (TurnStream::Item item = turn_->stream.Next(); item.index() != 0;
         item = turn_->stream.Next()) {
      if (auto* end = std::get_if<TurnEnd>(&item)) {
        end_ = std::move(*end);
        return ended_.Notify();
      }
      const auto* delta = std::get_if<DeltaEvent>(&std::get<TurnEvent>(item));
      if (delta == nullptr) continue;
      turn_->stream.Delivered(delta->position);
      tokens_ += delta->tokens.size();
      if (on_token_) on_token_(tokens_);
    }
  }

  const std::shared_ptr<SessionTurn> turn_;
  const std::function<void(uint64_t)> on_token_;
  uint64_t tokens_ = 0;
  TurnEnd end_;
  absl::Notification ended_;
};

// Long turns that are read on the engine's thread. Outlives the engine.
class LongTurns {
 public:
  // `on_token` is called after each token of each turn.
  void Start(TestEngine& engine, size_t count, Priority priority,
             const std::function<void()>& on_token) {
    for (size_t i = 0; i < count; ++i) {
      auto reader = std::make_unique<PlaceReader>(
          MakeTurn(WithPriority(Generate(engine.Open(), "long", kEndless, readers_.size() + 1),
                                priority)),
          [on_token](uint64_t) { on_token(); });
      const std::shared_ptr<SessionTurn> turn = reader->shared();
      {
        absl::MutexLock lock(&mutex_);
        readers_.push_back(std::move(reader));
      }
      EXPECT_TRUE(engine.Start(turn).ok());
    }
  }
  // Any thread may call it. Turns that are started later are not cancelled.
  void CancelAll() {
    absl::MutexLock lock(&mutex_);
    for (const auto& reader : readers_) reader->turn().Cancel();
  }
  const std::vector<std::unique_ptr<PlaceReader>>& readers() const { return readers_; }

 private:
  absl::Mutex mutex_;  // one thread adds readers while the engine's thread cancels them
  std::vector<std::unique_ptr<PlaceReader>> readers_;
};

struct WaitCase {
  size_t long_turns;
  Priority long_priority;
  Priority short_priority;
  uint64_t most_steps;  // that may pass before the short turn has its only token
};

class ShortTurns : public testing::TestWithParam<WaitCase> {};

// Counts the steps that pass before a turn of one token ends, by the tokens of the long turns: each
// step draws one token for each of 64 turns.
TEST_P(ShortTurns, AreServedBesideLongOnes) {
  constexpr uint64_t kPlaces = 64;
  const WaitCase& param = GetParam();
  LongTurns turns;
  std::unique_ptr<PlaceReader> reader;
  uint64_t drawn = 0, drawn_at_start = 0, drawn_at_end = 0;
  absl::Notification done;
  TestEngine engine(
      "{}", 0,
      {.max_batch_sequences = kPlaces, .time_slice = kEachStep, .stream_buffer_bytes = 64 << 20});
  const auto session = engine.Open();
  reader = std::make_unique<PlaceReader>(
      MakeTurn(WithPriority(Generate(session, "short", 1), param.short_priority)), [&](uint64_t) {
        drawn_at_end = drawn;
        turns.CancelAll();
        done.Notify();
      });
  turns.Start(engine, param.long_turns, param.long_priority, [&] {
    if (++drawn != 40 * kPlaces) return;
    drawn_at_start = drawn;
    EXPECT_TRUE(engine.Start(reader->shared()).ok());
  });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60))) << "the short turn starves";
  turns.CancelAll();
  engine->Wake();
  for (const auto& long_turn : turns.readers()) {
    EXPECT_EQ(long_turn->End().status.code(), absl::StatusCode::kCancelled);
  }
  EXPECT_TRUE(reader->End().status.ok()) << reader->End().status;
  EXPECT_LE(drawn_at_end - drawn_at_start, param.most_steps * kPlaces);
}

INSTANTIATE_TEST_SUITE_P(AmongLongOnes, ShortTurns,
                         testing::Values(WaitCase{64, Priority::kNormal, Priority::kNormal, 4},
                                         WaitCase{256, Priority::kNormal, Priority::kNormal, 4},
                                         WaitCase{256, Priority::kNormal, Priority::kHigh, 4},
                                         WaitCase{64, Priority::kHigh, Priority::kLow, 24},
                                         WaitCase{256, Priority::kHigh, Priority::kLow, 24},
                                         WaitCase{256, Priority::kHigh, Priority::kNormal, 24}));

// A high priority gets more steps than a normal one, and that more than a low one.
TEST(EnginePlaces, PrioritiesShareTheSteps) {
  constexpr uint64_t kSteps = 2000;
  LongTurns turns;
  uint64_t drawn = 0;
  uint64_t tokens[3] = {};
  std::atomic<bool> all_started = false;
  absl::Notification done;
  TestEngine engine("{}", 0, {.max_batch_sequences = 2, .time_slice = kEachStep});
  for (const Priority priority : {Priority::kLow, Priority::kNormal, Priority::kHigh}) {
    turns.Start(engine, 4, priority, [&, priority] {
      if (!all_started || drawn == kSteps) return;
      ++tokens[static_cast<size_t>(priority)];
      if (++drawn == kSteps) done.Notify();
    });
  }
  all_started = true;
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(60)));
  turns.CancelAll();
  engine->Wake();
  for (const auto& turn : turns.readers()) turn->End();
  EXPECT_GT(tokens[0], kSteps / 100);
  EXPECT_GT(tokens[1], 2 * tokens[0]);
  EXPECT_GT(tokens[2], 2 * tokens[1]);
}

// Turns of all kinds share two places and give the results that they give alone.
TEST(EnginePlaces, NoTokenIsLostOrRepeated) {
  const auto request_of = [](TestEngine& engine, uint64_t i) {
    SessionTurnRequest request =
        Generate(engine.Open(), std::string(1 + i * 37, static_cast<char>('a' + i)), 30 + i, i);
    request.priority = static_cast<Priority>(i % 3);
    if (i % 4 == 1) request.sampling.frequency_penalty = 0.5f;
    if (i % 4 == 2) request.log_probs = true;
    if (i % 5 == 4) {
      request.kind = TurnKind::kScore;
      request.session = nullptr;
    }
    return request;
  };
  constexpr uint64_t kTurns = 14;
  std::vector<Outcome> expected;
  TestEngine alone("{}", 0, {.max_steps_in_flight = 1});
  for (uint64_t i = 0; i < kTurns; ++i) {
    expected.push_back(RunTurn(*alone, MakeTurn(request_of(alone, i))));
  }
  TestEngine engine("{}", 0,
                    {.max_batch_tokens = 128, .max_batch_sequences = 2, .time_slice = kEachStep});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (uint64_t i = 0; i < kTurns; ++i) {
    turns.push_back(MakeTurn(request_of(engine, i)));
    ASSERT_TRUE(engine.Start(turns.back()).ok());
  }
  for (uint64_t i = 0; i < kTurns; ++i) {
    SCOPED_TRACE(i);
    const Outcome outcome = ReadToEnd(*turns[i]);
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.text, expected[i].text);
    EXPECT_EQ(outcome.tokens, expected[i].tokens);
    EXPECT_EQ(outcome.end.position, expected[i].end.position);
    ASSERT_EQ(outcome.log_probs.size(), expected[i].log_probs.size());
    for (size_t k = 0; k < outcome.log_probs.size(); ++k) {
      EXPECT_EQ(outcome.log_probs[k].log_prob, expected[i].log_probs[k].log_prob) << k;
    }
    ASSERT_EQ(outcome.scores.size(), expected[i].scores.size());
    for (size_t k = 1; k < outcome.scores.size(); ++k) {
      EXPECT_EQ(outcome.scores[k].log_prob, expected[i].scores[k].log_prob) << k;
    }
  }
}

// ---------------------------------------------------------------- the end of a turn without a
// place

// Two turns share one place. When `first` has just drawn a token, `second` has drawn `kTokens`
// tokens and waits for its place.
class ParkedTurn : public testing::Test {
 protected:
  static constexpr uint64_t kTokens = 7;

  // Runs both turns, and calls `act` on the engine's thread while `second` waits. Returns the end
  // of `second`, which `act` must bring about.
  TurnEnd Run(SessionTurnRequest second_request, const std::function<void(SessionTurn&)>& act) {
    second_ = std::make_unique<PlaceReader>(MakeTurn(std::move(second_request)), nullptr);
    first_ = std::make_unique<PlaceReader>(
        MakeTurn(Generate(engine_.Open(), "first", kEndless)), [this, act](uint64_t) {
          if (second_->tokens() >= kTokens && !std::exchange(acted_, true)) act(*second_->shared());
        });
    EXPECT_TRUE(engine_.Start(first_->shared()).ok());
    EXPECT_TRUE(engine_.Start(second_->shared()).ok());
    TurnEnd end = second_->End();
    EXPECT_LE(second_->tokens(), kTokens + 1);  // one more if a step was in flight
    EXPECT_FALSE(first_->ended());
    first_->turn().Cancel();
    engine_->Wake();
    first_->End();
    return end;
  }
  SessionTurnRequest Second(OnAbort on_abort = OnAbort::kRollback) {
    SessionTurnRequest request = Generate(session_, "second", kEndless);
    request.on_abort = on_abort;
    return request;
  }

  std::unique_ptr<PlaceReader> first_, second_;
  bool acted_ = false;
  TestEngine engine_{"{}", 0, {.max_batch_sequences = 1, .time_slice = kEachStep}};
  const std::shared_ptr<Session> session_ = engine_.Open();
};

TEST_F(ParkedTurn, IsRolledBackIfItIsCancelled) {
  const TurnEnd end = Run(Second(), [](SessionTurn& turn) { turn.Cancel(); });
  EXPECT_EQ(end.status.code(), absl::StatusCode::kCancelled) << end.status;
  EXPECT_EQ(session_->View().position, 0u);
  EXPECT_FALSE(session_->View().turn_running);
  // The session continues as if the turn had never run.
  EXPECT_EQ(RunTurn(*engine_, MakeTurn(Generate(session_, "x", 20))).text,
            RunTurn(*engine_, MakeTurn(Generate(engine_.Open(), "x", 20))).text);
}

TEST_F(ParkedTurn, KeepsWhatWasDelivered) {
  const TurnEnd end = Run(Second(OnAbort::kKeep), [](SessionTurn& turn) { turn.Cancel(); });
  EXPECT_EQ(end.status.code(), absl::StatusCode::kCancelled) << end.status;
  const uint64_t position = session_->View().position;
  EXPECT_EQ(position, 6 + second_->tokens());
  // The session continues like one whose turn ended there.
  const auto twin = engine_.Open();
  RunTurn(*engine_, MakeTurn(Generate(twin, "second", position - 6)));
  EXPECT_EQ(RunTurn(*engine_, MakeTurn(Generate(session_, "x", 20))).text,
            RunTurn(*engine_, MakeTurn(Generate(twin, "x", 20))).text);
}

TEST_F(ParkedTurn, EndsIfItsSessionIsClosed) {
  const TurnEnd end = Run(Second(), [this](SessionTurn& turn) {
    EXPECT_TRUE(turn.session->Close());
    engine_->Close(turn.session, [](uint64_t) {});
  });
  EXPECT_EQ(end.status.code(), absl::StatusCode::kCancelled) << end.status;
}

// The first turn holds the only place. The second turn never gets it.
TEST(EnginePlaces, ADeadlinePassesWhileATurnWaitsForAPlace) {
  TestEngine engine(R"({"step_delay_us": 1000})", 0,
                    {.max_batch_sequences = 1, .time_slice = kForEver});
  const auto first = MakeTurn(Generate(engine.Open(), "first", kEndless));
  ASSERT_TRUE(engine.Start(first).ok());
  constexpr absl::Duration kTime = absl::Milliseconds(60);
  const auto session = engine.Open();
  SessionTurnRequest request = Generate(session, "second", 5);
  request.deadline = MonotonicTime::Now() + kTime;
  const Outcome outcome = RunTurn(*engine, MakeTurn(request));
  EXPECT_EQ(outcome.end.status.code(), absl::StatusCode::kDeadlineExceeded) << outcome.end.status;
  EXPECT_TRUE(outcome.tokens.empty());
  EXPECT_GE(outcome.end.usage.queue_time, kTime * 0.9) << "it has waited all the time";
  EXPECT_EQ(session->View().position, 0u);
  EXPECT_TRUE(first->session->View().turn_running);
  first->Cancel();
  engine->Wake();
  ReadToEnd(*first);
}

TEST(EnginePlaces, AbortAllEndsTurnsThatWaitForAPlace) {
  TestEngine engine(R"({"step_delay_us": 1000})", 0,
                    {.max_batch_sequences = 1, .time_slice = kEachStep});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 5; ++i) {
    turns.push_back(MakeTurn(Generate(engine.Open(), "t", kEndless)));
    ASSERT_TRUE(engine.Start(turns.back()).ok());
  }
  absl::SleepFor(absl::Milliseconds(30));
  engine->AbortAll(absl::UnavailableError("over"));
  for (const auto& turn : turns) {
    EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(turn->session->View().position, 0u);
  }
}

// ---------------------------------------------------------------- times

// A turn's time in the queue includes the wait for its first place, and its prefill time does not.
TEST(EnginePlaces, TheQueueEndsWithTheFirstPlace) {
  constexpr absl::Duration kStep = absl::Milliseconds(2);
  TestEngine engine(R"({"step_delay_us": 2000})", 0,
                    {.max_batch_sequences = 1, .time_slice = kForEver});
  const auto first = MakeTurn(Generate(engine.Open(), "first", 50));
  const auto second = MakeTurn(Generate(engine.Open(), "second", 5));
  ASSERT_TRUE(engine.Start(first).ok());
  ASSERT_TRUE(engine.Start(second).ok());
  const TurnUsage usage = ReadToEnd(*second).end.usage;
  EXPECT_GE(usage.queue_time, 49 * kStep);
  EXPECT_LT(usage.prefill_time, usage.queue_time) << "the wait for a place is not prefill";
  EXPECT_GE(usage.time_to_first_token, usage.queue_time + usage.prefill_time);
  ReadToEnd(*first);
  const auto samples = engine.model().Samples("longstream_request_queue_seconds", "model", "m");
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].histogram.sample_count, 2u);
  EXPECT_GE(samples[0].histogram.sample_sum, absl::ToDoubleSeconds(usage.queue_time));
}

// The memory of a parked turn stays with it. A turn that needs the memory waits until one ends.
TEST(EnginePlaces, ATurnThatWaitsForMemoryIsAdmittedLater) {
  const uint64_t state = [] {
    TestEngine engine;
    return engine->model().backend().info().state_bytes_per_sequence;
  }();
  // Room for three sessions and two rollback copies. A score needs two parts of it.
  TestEngine engine("{}", 5 * state, {.max_batch_sequences = 1, .time_slice = kEachStep});
  std::vector<std::shared_ptr<SessionTurn>> turns;
  for (int i = 0; i < 3; ++i) turns.push_back(MakeTurn(Generate(engine.Open(), "t", 40)));
  for (const auto& turn : turns) ASSERT_TRUE(engine.Start(turn).ok());
  for (const auto& turn : turns) {
    const Outcome outcome = ReadToEnd(*turn);
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    EXPECT_EQ(outcome.tokens.size(), 40u);
  }
}

}  // namespace
}  // namespace longstream
