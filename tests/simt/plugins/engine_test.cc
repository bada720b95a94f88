// The engine with CUDA plugins whose kernels the harness executes: sessions, steps in flight,
// graphs, rollback and budgets. Sessions that run together give, to the last bit, the same results
// as each alone with one step at a time. Greedy tokens are those of the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/backends/checkpoint/wide_vocabulary.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/engine/session_scripts.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 256;         // the tokens of a model without a tokenizer
constexpr uint64_t kMemory = 64 << 20;  // memory of a device
constexpr uint64_t kBudget = 2 << 20;
constexpr char kF32[] = R"({"weights": "f32", "cache": "f32"})";

void SetMemory(uint64_t bytes) {
  setenv("LONGSTREAM_SIMT_MACHINE", ("memory=" + std::to_string(bytes)).c_str(), 1);
}

struct Case {
  std::string backend;
  std::string golden;
};

class PluginEngineTest : public testing::TestWithParam<Case> {
 protected:
  PluginEngineTest() {
    SetMemory(kMemory);
    WriteWithVocabulary(LONGSTREAM_SOURCE_DIR "/tests/golden/" + GetParam().golden, kBytes,
                        directory_.path());
  }
  ~PluginEngineTest() override { unsetenv("LONGSTREAM_SIMT_MACHINE"); }

  TestModel OnSimt() const {
    return {LONGSTREAM_TEST_PLUGIN_DIR "/simt_" + GetParam().backend + ".so", directory_.string()};
  }
  TestModel OnCpu() const {
    return {LONGSTREAM_PLUGIN_DIR "/" + GetParam().backend + ".cpu.so", directory_.string()};
  }

 private:
  const TemporaryDirectory directory_;
};

// Reads until there is a token. From then on two steps are in flight.
void AwaitToken(Turn& turn) {
  while (true) {
    const TurnStream::Item item = turn.stream.Next();
    const auto* event = std::get_if<TurnEvent>(&item);
    if (event != nullptr && std::holds_alternative<DeltaEvent>(*event)) return;
    absl::SleepFor(absl::Microseconds(200));
  }
}

// Sessions with turns that generate and append, forks, cancellations, stop rules and penalties.
TEST_P(PluginEngineTest, SessionsAtOnceGiveWhatEachGivesAlone) {
  ExpectSameWithTwoInFlight(
      OnSimt(), {.num_scripts = 14, .longest_prompt = 100, .max_tokens = 16, .num_stops = 20});
}

TEST_P(PluginEngineTest, GreedyTokensAreTheCpus) {
  const std::vector<std::string> prompts = {"The old bridge over the river", "was"};
  std::vector<std::vector<Outcome>> outcomes;
  for (const TestModel& model : {OnCpu(), OnSimt()}) {
    TestEngine engine(kF32, kBudget, {}, model);
    std::vector<std::shared_ptr<SessionTurn>> turns;
    for (const std::string& prompt : prompts) {
      SessionTurnRequest request = Generate(engine.Open(), prompt, 12);
      request.sampling.temperature = 0;
      request.log_probs = true;
      turns.push_back(MakeTurn(request));
      ASSERT_TRUE(engine.Start(turns.back()).ok());
    }
    outcomes.emplace_back();
    for (const auto& turn : turns) outcomes.back().push_back(ReadToEnd(*turn));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Outcome& expected = outcomes[0][i];
    const Outcome& found = outcomes[1][i];
    EXPECT_EQ(found.tokens.size(), 12u);
    EXPECT_EQ(found.tokens, expected.tokens);
    for (size_t k = 0; k < found.log_probs.size(); ++k) {
      EXPECT_NEAR(found.log_probs[k].log_prob, expected.log_probs.at(k).log_prob, 1e-4);
    }
  }
}

// Closes one of two sessions whose turns are in flight. The other one goes on undisturbed, and the
// memory becomes free again.
TEST_P(PluginEngineTest, CloseWhileItGenerates) {
  TestEngine engine("{}", kBudget, {}, OnSimt());
  const std::string expected =
      RunTurn(*engine, MakeTurn(Generate(engine.Open(), "other", 10))).text;
  const uint64_t before = engine->model().backend().memory().reserved;
  const auto session = engine.Open();
  const auto turn = MakeTurn(Generate(session, "start", 900));
  const auto other = MakeTurn(Generate(engine.Open(), "other", 10));
  ASSERT_TRUE(engine.Start(turn).ok());
  ASSERT_TRUE(engine.Start(other).ok());
  AwaitToken(*turn);
  ASSERT_TRUE(session->Close());
  engine->Close(session, [](uint64_t) {});
  EXPECT_EQ(ReadToEnd(*turn).end.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReadToEnd(*other).text, expected);
  const auto last = other->session;
  ASSERT_TRUE(last->Close());
  engine->Close(last, [](uint64_t) {});
  engine->Flush();
  EXPECT_EQ(engine->model().backend().memory().reserved, before);
}

// Opens sessions with equal turns, so that the least recently used are evicted, until one session
// has lost its caches. Its next turn computes them again, and gives the text of a session that was
// not evicted.
TEST_P(PluginEngineTest, BudgetIsFull) {
  TestEngine engine("{}", kBudget, {}, OnSimt());
  const auto kept = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(kept, "a", 3)));
  const std::string expected = RunTurn(*engine, MakeTurn(Generate(kept, "b", 3))).text;

  const auto evicted = engine.Open();
  RunTurn(*engine, MakeTurn(Generate(evicted, "a", 3)));
  const auto has_caches = [&evicted] {
    const SessionBytes bytes = evicted->View().bytes;
    return bytes.kv + bytes.window + bytes.state > 0;
  };
  size_t opened = 0;
  for (; has_caches() && opened < 10000; ++opened) {
    ASSERT_TRUE(RunTurn(*engine, MakeTurn(Generate(engine.Open(), "a", 3))).end.status.ok());
  }
  EXPECT_GT(opened, 1u);
  ASSERT_FALSE(has_caches());
  const auto turn = RunTurn(*engine, MakeTurn(Generate(evicted, "b", 3)));
  EXPECT_EQ(turn.text, expected);
  EXPECT_GT(turn.end.usage.recomputed_tokens, 0u);
}

// Another process takes the rest of the device. Turns that need more memory for the arguments of
// their steps are refused. Their sessions stay as they were, and go on when there is memory again.
TEST_P(PluginEngineTest, MemoryIsTakenMeanwhile) {
  TestEngine engine(R"({"context_limit": 8192})", kBudget, {}, OnSimt());
  const auto session = engine.Open();
  const auto control = engine.Open();
  for (const auto& one : {session, control}) {
    EXPECT_TRUE(RunTurn(*engine, MakeTurn(Generate(one, "start", 2))).end.status.ok());
  }
  engine->Flush();
  SetMemory(0);
  EXPECT_THROW(TestEngine("{}", kBudget, {}, OnSimt()), std::runtime_error);
  const Outcome refused = RunTurn(*engine, MakeTurn(Generate(session, "x", 6000)));
  EXPECT_EQ(refused.end.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.end.status.message()), HasSubstr("the device has no "));
  const uint64_t position = control->View().position;
  EXPECT_EQ(session->View().position, position);

  engine->Flush();
  SetMemory(kMemory);
  EXPECT_NO_THROW(TestEngine("{}", kBudget, {}, OnSimt()));
  const Outcome expected = RunTurn(*engine, MakeTurn(Generate(control, std::string(80, 'x'), 3)));
  const Outcome found = RunTurn(*engine, MakeTurn(Generate(session, std::string(80, 'x'), 3)));
  EXPECT_EQ(found.end.status, absl::OkStatus());
  EXPECT_EQ(found.text, expected.text);
}

INSTANTIATE_TEST_SUITE_P(Backends, PluginEngineTest,
                         testing::Values(Case{"dense", "llama_linear"},
                                         Case{"hwfa2", "hwfa2_rerope"},
                                         Case{"hypenet", "hypenet_published_bare"}),
                         [](const auto& instance) { return instance.param.backend; });

}  // namespace
}  // namespace longstream
