// Whether caches are read from the store or computed again, and how the speed is learned.
#include "service/engine/policy/restore_choice.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace longstream {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr ReadingTimes kTimes = {.prefill_token = 0.001, .decode_step = 0.01};

RestoreOption At(uint64_t bytes, uint64_t prefill_left, uint64_t decode_left) {
  return {bytes, {prefill_left, decode_left}};
}

TEST(ChooseRestore, TakesTheLeastTime) {
  struct Case {
    std::string name;
    std::vector<RestoreOption> options;
    Replay whole;
    std::optional<size_t> chosen;
    ReadingTimes times = kTimes;
  };
  const Case cases[] = {
      {"no snapshot", {}, {1000, 0}, std::nullopt},
      {"nothing to compute", {At(kMiB, 0, 0)}, {0, 0}, std::nullopt},
      {"a snapshot of everything", {At(kMiB, 0, 0)}, {1000, 0}, 0},
      {"a token costs less than opening a file", {At(0, 0, 0)}, {1, 0}, 0},
      {"a cheap token does not", {At(0, 0, 0)}, {1, 0}, std::nullopt, {1e-5, 1e-4}},
      {"a large snapshot of few tokens", {At(100 * kMiB, 0, 0)}, {100, 0}, std::nullopt},
      {"decode entries cost more than a prompt", {At(100 * kMiB, 0, 0)}, {0, 100}, 0},
      {"the later one of two", {At(kMiB, 500, 0), At(2 * kMiB, 0, 0)}, {1000, 0}, 1},
      {"the earlier one, if little lies between them",
       {At(kMiB, 2, 0), At(200 * kMiB, 0, 0)},
       {1000, 0},
       0},
      {"equal times: the first", {At(kMiB, 0, 0), At(kMiB, 0, 0)}, {1000, 0}, 0},
      {"guessed times", {At(kMiB, 0, 0)}, {1000, 0}, 0, {}},
      {"guessed times of few tokens", {At(100 * kMiB, 0, 0)}, {10, 0}, std::nullopt, {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(ChooseRestore(c.options, c.whole, {c.times, {}}), c.chosen);
  }
}

TEST(RestoreLimit, IsTheTimeThatComputingTakes) {
  EXPECT_EQ(RestoreLimit({1000, 100}, kTimes, absl::Milliseconds(10)), absl::Seconds(2));
  EXPECT_EQ(RestoreLimit({1, 0}, kTimes, absl::Milliseconds(10)), absl::Milliseconds(10));
}

TEST(RestoreSpeed, IsThatOfTheLastSnapshots) {
  RestoreSpeed speed;
  const double guessed = speed.SecondsFor(100 * kMiB);
  for (int i = 0; i < 40; ++i) speed.Learn(100 * kMiB, absl::Seconds(2));
  EXPECT_NEAR(speed.SecondsFor(100 * kMiB), 2.0, 0.02);
  EXPECT_GT(speed.SecondsFor(100 * kMiB), guessed);
  for (int i = 0; i < 40; ++i) speed.Learn(100 * kMiB, absl::Milliseconds(50));
  EXPECT_NEAR(speed.SecondsFor(100 * kMiB), 0.05, 0.001);
}

TEST(RestoreSpeed, SmallSnapshotsAndNoTimeTellNothing) {
  RestoreSpeed speed;
  const double guessed = speed.SecondsFor(kMiB);
  speed.Learn(100, absl::Seconds(10));
  speed.Learn(kMiB, absl::ZeroDuration());
  EXPECT_EQ(speed.SecondsFor(kMiB), guessed);
  EXPECT_GT(speed.SecondsFor(0), 0.0);
}

}  // namespace
}  // namespace longstream
