// Tenants share an engine: one floods it, and the turns of the other go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/security/tenants/tenants.h"
#include "tests/service/engine/engine_fixture.h"

namespace longstream {
namespace {

// Counts the tokens of a turn on the engine's thread, after each step.
class CountingReader {
 public:
  // `others`: a count of other turns. The reader notes by how much it grows between two of its own
  // tokens.
  CountingReader(std::shared_ptr<SessionTurn> turn, std::atomic<uint64_t>* all,
                 const std::atomic<uint64_t>* others = nullptr)
      : turn_(std::move(turn)), all_(all), others_(others) {
    turn_->stream.SetReader([this] { Read(); });
  }
  CountingReader(const CountingReader&) = delete;
  CountingReader& operator=(const CountingReader&) = delete;

  SessionTurn& turn() { return *turn_; }
  const std::shared_ptr<SessionTurn>& shared() const { return turn_; }
  const TurnEnd& End() {
    ended_.WaitForNotification();
    return end_;
  }
  // The most tokens of other turns between two tokens. Call it after End.
  uint64_t longest_gap() const { return longest_gap_; }

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
      *all_ += delta->tokens.size();
      if (others_ == nullptr) continue;
      const uint64_t now = *others_;
      if (has_token_) longest_gap_ = std::max(longest_gap_, now - others_before_);
      others_before_ = now;
      has_token_ = true;
    }
  }

  const std::shared_ptr<SessionTurn> turn_;
  std::atomic<uint64_t>* const all_;
  const std::atomic<uint64_t>* const others_;
  bool has_token_ = false;
  uint64_t others_before_ = 0;
  uint64_t longest_gap_ = 0;
  TurnEnd end_;
  absl::Notification ended_;
};

class EngineTenantsTest : public testing::Test {
 protected:
  static constexpr uint32_t kPlaces = 4;
  static constexpr size_t kMostWaiting = 16;

  explicit EngineTenantsTest(uint32_t other_weight = 1)
      : tenants_({{.name = "flood", .quotas = {}},
                  {.name = "other", .weight = other_weight, .quotas = {}}},
                 std::make_shared<HostMemory>(0)) {}

  Engine::Options Options() const {
    Engine::Options options;
    options.max_batch_sequences = kPlaces;
    options.max_batch_tokens = 80;
    options.max_open_turns = 24;
    options.max_waiting_turns = kMostWaiting;
    options.time_slice = absl::Nanoseconds(1);  // places change hands after every step
    options.tenants = tenants_.all();
    return options;
  }
  std::shared_ptr<Tenant> tenant(const char* name) { return *tenants_.Find(name); }

  // Starts endless turns with long prompts until the engine refuses one.
  void Flood() {
    absl::Status status;
    while (status.ok() && flood_.size() < 1000) {
      auto turn = std::make_shared<SessionTurn>(
          Generate(engine_.Open(tenant("flood")), std::string(400, 'x'), kEndless));
      flood_.push_back(std::make_unique<CountingReader>(turn, &flood_tokens_));
      status = engine_.Start(turn);
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    flood_.pop_back();
    EXPECT_GT(flood_.size(), kMostWaiting);
  }
  void EndFlood() {
    for (const auto& reader : flood_) reader->turn().Cancel();
    engine_->Wake();
    for (const auto& reader : flood_) reader->End();
  }

  // Waits until the other tenant has so many tokens.
  void WaitForOtherTokens(uint64_t tokens) const {
    const absl::Time until = absl::Now() + absl::Minutes(2);
    while (other_tokens_ < tokens && absl::Now() < until) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_GE(other_tokens_, tokens);
  }

  const Tenants tenants_;
  std::atomic<uint64_t> flood_tokens_{0}, other_tokens_{0};
  std::vector<std::unique_ptr<CountingReader>> flood_;
  TestEngine engine_{"{}", 0, Options()};
};

TEST_F(EngineTenantsTest, TheTurnsOfTheOtherTenantGoOnDuringAFlood) {
  Flood();
  for (int i = 0; i < 5; ++i) {
    CountingReader reader(std::make_shared<SessionTurn>(
                              Generate(engine_.Open(tenant("other")), std::string(100, 'y'), 200)),
                          &other_tokens_, &flood_tokens_);
    const absl::Status started = engine_.Start(reader.shared());
    ASSERT_TRUE(started.ok()) << "the flood has not taken its part of the queue: " << started;
    EXPECT_TRUE(reader.End().status.ok()) << reader.End().status;
    EXPECT_EQ(reader.End().usage.generated_tokens, 200u);
    // It keeps its place, so the flood's other places have two tokens each in the meantime, one in
    // each step in flight.
    EXPECT_LE(reader.longest_gap(), 2u * kPlaces) << i;
  }
  EndFlood();
}

class WeightedTenantsTest : public EngineTenantsTest {
 protected:
  WeightedTenantsTest() : EngineTenantsTest(/*other_weight=*/3) {}
};

// As many turns as fit, of both tenants, for a while: the other tenant has about three quarters.
TEST_F(WeightedTenantsTest, TokensAreSharedByWeight) {
  Flood();
  std::vector<std::unique_ptr<CountingReader>> others;
  for (int i = 0; i < 6; ++i) {
    auto turn = std::make_shared<SessionTurn>(
        Generate(engine_.Open(tenant("other")), std::string(100, 'y'), kEndless));
    others.push_back(std::make_unique<CountingReader>(turn, &other_tokens_));
    ASSERT_TRUE(engine_.Start(turn).ok()) << i;
  }
  WaitForOtherTokens(500);
  const uint64_t flood_before = flood_tokens_, other_before = other_tokens_;
  WaitForOtherTokens(other_before + 2000);
  const auto flood = static_cast<double>(flood_tokens_ - flood_before);
  const auto other = static_cast<double>(other_tokens_ - other_before);
  EXPECT_NEAR(other / (flood + other), 0.75, 0.1);
  for (const auto& reader : others) reader->turn().Cancel();
  EndFlood();
  for (const auto& reader : others) reader->End();
}

// The scheduler changes when tokens are computed, never which.
TEST_F(EngineTenantsTest, TheTokensAreThoseOfATurnAlone) {
  TestEngine alone;
  const auto request = [](std::shared_ptr<Session> session) {
    return Generate(std::move(session), std::string(100, 'y'), 50, /*seed=*/7);
  };
  const Outcome expected = RunTurn(*alone, std::make_shared<SessionTurn>(request(alone.Open())));
  Flood();
  const Outcome outcome =
      RunTurn(*engine_, std::make_shared<SessionTurn>(request(engine_.Open(tenant("other")))));
  EXPECT_EQ(outcome.tokens, expected.tokens);
  EndFlood();
}

}  // namespace
}  // namespace longstream
