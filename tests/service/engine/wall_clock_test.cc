// The machine's clock is set while a model is served. Measured times and timeouts must not change.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "service/serving/session_manager.h"
#include "tests/service/engine/engine_fixture.h"

namespace {

int64_t wall_clock_offset = 0;  // in seconds

}  // namespace

// Replaces libc's function with a wall clock that a test can set.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_REALTIME)
    time->tv_sec += __atomic_load_n(&wall_clock_offset, __ATOMIC_RELAXED);
  return static_cast<int>(result);
}

namespace longstream {
namespace {

class WallClock : public testing::Test {
 protected:
  ~WallClock() override { Set(absl::ZeroDuration()); }

  // Sets the wall clock to the machine's own time plus `offset`.
  static void Set(absl::Duration offset) {
    __atomic_store_n(&wall_clock_offset, absl::ToInt64Seconds(offset), __ATOMIC_RELAXED);
  }

  // Runs a turn of 100 tokens, which takes some hundred milliseconds, and sets the clock in the
  // middle of it.
  static Outcome RunTurnAcross(absl::Duration offset, absl::Duration deadline) {
    absl::Notification first_token;  // outlives the engine, because the turn's reader uses it
    TestEngine engine(R"({"step_delay_us": 2000})");
    SessionTurnRequest request = Generate(engine.Open(), "abc", 100);
    request.deadline = MonotonicTime::Now() + deadline;
    const auto turn = std::make_shared<SessionTurn>(request);
    turn->stream.SetReader([&] {
      if (!first_token.HasBeenNotified()) first_token.Notify();
    });
    EXPECT_TRUE(engine.Start(turn).ok());
    first_token.WaitForNotification();
    Set(offset);
    return ReadToEnd(*turn);
  }
};

TEST_F(WallClock, TheTestCanSetIt) {
  const absl::Time before = absl::Now();
  Set(absl::Hours(2));
  EXPECT_GT(absl::Now() - before, absl::Hours(1));
}

TEST_F(WallClock, SetAheadEndsNoIdleSession) {
  MinimalModel model;
  ModelRegistry models({model.plugins(), model.host(), model.registry(), {}}, {model.Source()},
                       nullptr);
  ASSERT_TRUE(models.WaitUntilLoaded().ok());
  SessionManager sessions(&models, {});
  const SessionId id{1, 2};
  absl::Notification opened;
  sessions.OpenSession("", "m", id, absl::Hours(1),
                       [&](const absl::StatusOr<SessionView>&) { opened.Notify(); });
  opened.WaitForNotification();
  Set(absl::Hours(2));
  absl::SleepFor(absl::Milliseconds(1300));  // the manager checks idle sessions once a second
  EXPECT_TRUE(sessions.View({"", id}).ok()) << sessions.View({"", id}).status();
}

TEST_F(WallClock, SetAheadLetsNoDeadlinePass) {
  const Outcome outcome = RunTurnAcross(absl::Hours(2), absl::Hours(1));
  EXPECT_TRUE(outcome.end.status.ok()) << outcome.end.status;
  EXPECT_EQ(outcome.tokens.size(), 100u);
}

TEST_F(WallClock, SetInEitherDirectionChangesNoLatency) {
  for (const absl::Duration offset : {absl::Hours(2), -absl::Hours(2)}) {
    const TurnUsage usage = RunTurnAcross(offset, absl::InfiniteDuration()).end.usage;
    for (const absl::Duration time :
         {usage.queue_time, usage.prefill_time, usage.decode_time, usage.time_to_first_token}) {
      EXPECT_GE(time, absl::ZeroDuration()) << offset;
      EXPECT_LT(time, absl::Hours(1)) << offset;
    }
    EXPECT_GT(usage.decode_time, absl::Milliseconds(100)) << "99 steps of 2 ms";
    Set(absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace longstream
