// The metrics of an engine's turns in Prometheus.
#include <gtest/gtest.h>
#include <prometheus/client_metric.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// Returns the only sample of the metric longstream_`name` whose label has this value.
prometheus::ClientMetric Sample(const TestEngine& engine, const std::string& name,
                                const std::string& label = "model",
                                const std::string& value = "m") {
  const auto samples = engine.model().Samples("longstream_" + name, label, value);
  EXPECT_EQ(samples.size(), 1u) << name;
  return samples.empty() ? prometheus::ClientMetric{} : samples.front();
}

// Three turns of one session, and one turn that is refused. The third turn replaces the text that
// the second turn added, so some tokens must be computed again.
class EngineMetrics : public testing::Test {
 protected:
  static constexpr uint64_t kTokens = 20;

  EngineMetrics() {
    const auto session = engine_.Open();
    Run(Generate(session, "hello", kTokens));
    Run(Generate(session, "again", kTokens));
    SessionTurnRequest replaces = Generate(session, "other", kTokens);
    replaces.kept_tokens = 25;
    Run(replaces);
    engine_->CountRefusal(absl::FailedPreconditionError("refused before it came to the engine"));
  }

  void Run(const SessionTurnRequest& request) {
    const Outcome outcome = RunTurn(*engine_, MakeTurn(request));
    EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    usages_.push_back(outcome.end.usage);
  }

  double Counter(const std::string& name) { return Sample(engine_, name).counter.value; }

  // Checks that the histogram has one value per turn, and that the sum of these values equals the
  // sum of `of(usage)` over the turns.
  void ExpectOfEachTurn(const std::string& name, double (*of)(const TurnUsage& usage)) {
    const prometheus::ClientMetric::Histogram histogram = Sample(engine_, name).histogram;
    double sum = 0;
    for (const TurnUsage& usage : usages_) sum += of(usage);
    EXPECT_EQ(histogram.sample_count, usages_.size()) << name;
    EXPECT_NEAR(histogram.sample_sum, sum, 1e-9) << name;
    EXPECT_GT(sum, 0) << name;
  }

  TestEngine engine_;
  std::vector<TurnUsage> usages_;
};

TEST_F(EngineMetrics, TimesAreThoseOfTheTurns) {
  using absl::ToDoubleSeconds;
  ExpectOfEachTurn("request_queue_seconds",
                   [](const TurnUsage& usage) { return ToDoubleSeconds(usage.queue_time); });
  ExpectOfEachTurn("request_prefill_seconds",
                   [](const TurnUsage& usage) { return ToDoubleSeconds(usage.prefill_time); });
  ExpectOfEachTurn("request_decode_seconds",
                   [](const TurnUsage& usage) { return ToDoubleSeconds(usage.decode_time); });
  ExpectOfEachTurn("time_to_first_token_seconds", [](const TurnUsage& usage) {
    return ToDoubleSeconds(usage.time_to_first_token);
  });
  ExpectOfEachTurn("session_bytes", [](const TurnUsage& usage) {
    return static_cast<double>(usage.bytes.kv + usage.bytes.window + usage.bytes.state);
  });
  const auto gaps = Sample(engine_, "inter_token_latency_seconds").histogram;
  EXPECT_EQ(gaps.sample_count, 3 * (kTokens - 1));
  const auto whole = Sample(engine_, "request_e2e_seconds").histogram;
  EXPECT_EQ(whole.sample_count, 3u);
  EXPECT_GE(whole.sample_sum, gaps.sample_sum);
}

TEST_F(EngineMetrics, TokensAndEndsAreCounted) {
  EXPECT_EQ(Counter("prompt_tokens_total"), 15);
  EXPECT_EQ(Counter("generated_tokens_total"), 3 * kTokens);
  uint64_t reused = 0;
  uint64_t recomputed = 0;
  for (const TurnUsage& usage : usages_) {
    reused += usage.reused_tokens;
    recomputed += usage.recomputed_tokens;
  }
  EXPECT_GT(reused, 0u);
  EXPECT_GT(recomputed, 0u);
  EXPECT_EQ(Counter("reused_tokens_total"), reused);
  EXPECT_EQ(Counter("recomputed_tokens_total"), recomputed);
  EXPECT_EQ(Sample(engine_, "requests_total", "finish_reason", "max_tokens").counter.value, 3);
  EXPECT_EQ(engine_.model().RequestsCounted("FAILED_PRECONDITION"), 1);
}

// The engine may read all but the last token of an Append before the caller closes the input. In
// that case the prefill time ends with the last piece, not when the caller closes the input.
TEST(EngineAppendMetrics, ThePrefillEndsWithItsLastPiece) {
  constexpr absl::Duration kSilence = absl::Milliseconds(500);
  TestEngine engine(R"({"step_delay_us": 5000})");
  const uint32_t grid = engine->model().backend().info().prefill_grid;
  std::vector<TurnUsage> usages;
  for (const uint32_t tokens : {2 * grid + 1, 2 * grid + 2, 0u}) {
    SessionTurnRequest request;
    request.kind = TurnKind::kAppend;
    request.session = engine.Open();
    const auto turn = MakeTurn(request);
    ASSERT_TRUE(engine.Start(turn).ok());
    turn->AddInput(Bytes(std::string(tokens, 'a')));
    engine->Wake();
    absl::SleepFor(kSilence);
    turn->CloseInput();
    engine->Wake();
    const Outcome outcome = ReadToEnd(*turn);
    ASSERT_TRUE(outcome.end.status.ok()) << outcome.end.status;
    usages.push_back(outcome.end.usage);
  }
  EXPECT_GE(usages[0].prefill_time, absl::Milliseconds(5));
  EXPECT_LT(usages[0].prefill_time, kSilence) << "the engine reads nothing after the silence";
  EXPECT_GE(usages[1].prefill_time, kSilence) << "the engine reads one token after the silence";
  EXPECT_EQ(usages[2].prefill_time, absl::ZeroDuration()) << "the engine reads no token";
  const auto histogram = Sample(engine, "request_prefill_seconds").histogram;
  EXPECT_EQ(histogram.sample_count, 3u);
  EXPECT_NEAR(histogram.sample_sum,
              absl::ToDoubleSeconds(usages[0].prefill_time + usages[1].prefill_time), 1e-9);
}

// One turn is stalled, one holds the only place, one waits for the place, and one waits to be
// admitted.
TEST(EngineGauges, WhoRunsAndWhoWaits) {
  // Declared before the engine, because a wake of the engine may read a turn that has ended.
  std::vector<std::shared_ptr<SessionTurn>> turns;
  TestEngine engine(R"({"step_delay_us": 1000})", 0,
                    {.max_batch_sequences = 1, .max_open_turns = 2, .stream_buffer_bytes = 512});
  const auto idle = engine.Open();
  const auto stalled = MakeTurn(Generate(engine.Open(), "s", 50000));
  ASSERT_TRUE(engine.Start(stalled).ok());
  while (!stalled->stream.Full()) absl::SleepFor(absl::Milliseconds(1));
  for (int i = 0; i < 3; ++i) {
    turns.push_back(MakeTurn(Generate(engine.Open(), "w", 50000)));
    turns.back()->stream.SetReader([turn = turns.back().get()] {
      while (turn->stream.Next().index() == 1) continue;  // up to the last event, without the end
    });
    ASSERT_TRUE(engine.Start(turns.back()).ok());
  }
  const absl::Time give_up = absl::Now() + absl::Seconds(10);
  while (Sample(engine, "requests_parked").gauge.value != 1 && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(Sample(engine, "requests_parked").gauge.value, 1);
  EXPECT_EQ(Sample(engine, "requests_waiting").gauge.value, 1);
  EXPECT_EQ(Sample(engine, "requests_running").gauge.value, 3);
  engine->Flush();  // the engine sets the other gauges later in the same round
  EXPECT_EQ(Sample(engine, "sessions", "state", "active").gauge.value, 3);
  EXPECT_EQ(Sample(engine, "sessions", "state", "idle").gauge.value, 2);
  EXPECT_EQ(Sample(engine, "stream_queued_bytes").gauge.value,
            static_cast<double>(stalled->stream.queued_bytes()));
  EXPECT_GT(stalled->stream.queued_bytes(), 512u);
  turns.push_back(stalled);
  for (const auto& turn : turns) turn->Cancel();
  engine->Wake();
  for (const auto& turn : turns) ReadToEnd(*turn);
}

}  // namespace
}  // namespace longstream
