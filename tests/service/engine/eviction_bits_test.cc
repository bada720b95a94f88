// Random sessions on an engine whose budget is so small that most turns evict other sessions. Every
// answer must equal, to the bit, the answer of an engine with enough memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

constexpr uint64_t kMostTokens = 400;  // of a session
constexpr int kActs = 40;              // of a script
constexpr size_t kScripts = 4;         // run at the same time
constexpr size_t kMostSessions = 5;    // of a script

std::string Describe(const Outcome& outcome) {
  std::string text =
      absl::StrCat(outcome.end.status.ToString(), ", position ", outcome.end.position, ", tokens ",
                   absl::StrJoin(outcome.tokens, " "), ", log-probabilities");
  for (const TokenLogProb& row : outcome.log_probs) {
    absl::StrAppend(&text, " ", std::bit_cast<uint32_t>(row.log_prob));
  }
  return text;
}

// Runs one script: turns, forks, rewinds and cancels on a few sessions, drawn by `seed`. The draws
// do not depend on the engine, but the moments of the cancels do.
class Player {
 public:
  Player(TestEngine& engine, uint64_t seed) : engine_(engine), random_(seed), seed_(seed) {}

  std::vector<std::string> Play() {
    for (int act = 0; act < kActs; ++act) {
      if (sessions_.empty() || (sessions_.size() < kMostSessions && Below(5) == 0)) {
        sessions_.push_back(Make());
      }
      PlayAct(sessions_[Below(sessions_.size())]);
    }
    return results_;
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  // Opens a session, or forks one. While running turns hold all memory, tries again.
  std::shared_ptr<Session> Make() {
    const bool forks = !sessions_.empty() && Below(2) == 0;
    const std::shared_ptr<Session> source = forks ? sessions_[Below(sessions_.size())] : nullptr;
    while (true) {
      TurnLease lease = engine_.NewSession(SessionId{seed_ + 100, ++made_});
      std::shared_ptr<Session> session = lease.session();
      absl::Status status;
      if (forks) {
        status = Fork(*engine_, source, std::move(lease));
      } else {
        absl::StatusOr<std::shared_ptr<Session>> opened = engine_.TryOpen();
        status = opened.status();
        if (opened.ok()) session = *opened;
      }
      if (status.ok()) return session;
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      if (!absl::IsResourceExhausted(status)) return session;
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  void PlayAct(const std::shared_ptr<Session>& session) {
    const uint64_t position = session->View().position;
    SessionTurnRequest request =
        Generate(session, std::string(1 + Below(Below(3) == 0 ? 150 : 10), 'a' + Below(26)),
                 1 + Below(40), random_());
    request.log_probs = true;
    uint64_t start = position;
    if (position + request.prompt.size() + request.max_tokens > kMostTokens || Below(4) == 0) {
      // A short rewind may need no computation; a long one does.
      start = Below(2) == 0 ? Below(position + 1) : position - std::min(position, Below(20));
      start = std::min(start, kMostTokens - request.prompt.size() - request.max_tokens);
      request.kept_tokens = start;
    } else if (position > 0 && Below(6) == 0) {
      request.prompt.clear();
    }
    const uint64_t kind = Below(8);
    const absl::Duration delay = absl::Microseconds(Below(6000));
    if (kind == 0 && !request.prompt.empty()) {
      request.kind = TurnKind::kAppend;
      const std::vector<int32_t> prompt = std::exchange(request.prompt, {});
      Outcome outcome;
      // If running turns hold all memory when the input arrives, the turn is rolled back.
      do {
        const auto turn = std::make_shared<SessionTurn>(request);
        turn->AddInput(prompt);
        turn->CloseInput();
        outcome = RunTurn(*engine_, turn);
      } while (absl::IsResourceExhausted(outcome.end.status));
      results_.push_back(Describe(outcome));
    } else if (kind <= 2) {
      // The stream has room for few tokens, so the turn cannot end before it is cancelled.
      request.max_tokens = kMostTokens - start - request.prompt.size();
      const auto turn = std::make_shared<SessionTurn>(request);
      ASSERT_TRUE(engine_.Start(turn).ok());
      absl::SleepFor(delay);
      turn->Cancel();
      engine_->Wake();
      const Outcome outcome = ReadToEnd(*turn);
      results_.push_back(
          absl::StrCat(outcome.end.status.ToString(), ", position ", outcome.end.position));
    } else {
      results_.push_back(Describe(RunTurn(*engine_, std::make_shared<SessionTurn>(request))));
    }
  }

  TestEngine& engine_;
  std::mt19937_64 random_;
  const uint64_t seed_;
  uint64_t made_ = 0;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<std::string> results_;
};

void ExpectSameBits(const TestModel& model) {
  std::vector<std::vector<std::string>> expected;
  uint64_t of_one_session = 0;
  {
    TestEngine engine("{}", 0, {.stream_buffer_bytes = 1024}, model);
    of_one_session = TurnDemand::Held(engine->model().backend().info(), kMostTokens);
    for (size_t i = 0; i < kScripts; ++i) expected.push_back(Player(engine, i + 1).Play());
  }
  std::vector<std::vector<std::string>> found(kScripts);
  TestEngine engine("{}", of_one_session * 3 / 2,
                    {.stream_buffer_bytes = 1024, .restored_safe = absl::Milliseconds(2)}, model);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kScripts; ++i) {
    clients.emplace_back([&, i] { found[i] = Player(engine, i + 1).Play(); });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < kScripts; ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (size_t act = 0; act < found[i].size(); ++act) {
      ASSERT_EQ(found[i][act], expected[i][act]) << "script " << i << ", act " << act;
    }
  }
  EXPECT_GT(engine.model().EvictionsCounted("turn"), 20)
      << "too few evictions: the test is incomplete";
}

TEST(EvictionBits, OfTheMinimalModel) { ExpectSameBits({}); }

class EvictionBits : public testing::TestWithParam<std::string> {};

TEST_P(EvictionBits, OfADemoModel) {
  ExpectSameBits({LONGSTREAM_BINARY_DIR "/plugins/" + GetParam() + ".cpu.so",
                  LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam()});
}

TEST_P(EvictionBits, WithTwoStepsInFlight) {
  ExpectSameBits({LONGSTREAM_BINARY_DIR "/test_plugins/asynchronous_" + GetParam() + ".so",
                  LONGSTREAM_SOURCE_DIR "/models/demo/" + GetParam()});
}

INSTANTIATE_TEST_SUITE_P(Backends, EvictionBits, testing::Values("dense", "hwfa2", "hypenet"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace longstream
