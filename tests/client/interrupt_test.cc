// A signal calls the function of every OnInterrupt. A second Ctrl-C ends the program.
#include "client/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <future>

namespace longstream::client {
namespace {

bool Readable(int descriptor, int timeout_milliseconds) {
  pollfd polled = {descriptor, POLLIN, 0};
  return poll(&polled, 1, timeout_milliseconds) == 1;
}

// Whether the listener has not taken the signal yet.
bool IsPending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal) == 1;
}

TEST(InterruptTest, CancelsWhatRunsAndWhatBeginsUntilItIsCleared) {
  const InterruptListener listener;
  EXPECT_FALSE(Interrupted());
  EXPECT_FALSE(Readable(InterruptDescriptor(), 0));

  std::promise<void> cancelled;
  const OnInterrupt running([&] { cancelled.set_value(); });
  bool ended_called = false;
  {
    const OnInterrupt ended([&] { ended_called = true; });
  }
  kill(getpid(), SIGTERM);
  cancelled.get_future().wait();
  EXPECT_EQ(InterruptSignal(), SIGTERM);
  EXPECT_FALSE(ended_called);
  EXPECT_TRUE(Readable(InterruptDescriptor(), 1000));

  bool begun_called = false;
  {
    const OnInterrupt begun([&] { begun_called = true; });
  }
  EXPECT_TRUE(begun_called);

  ClearInterrupt();
  EXPECT_FALSE(Interrupted());
  EXPECT_FALSE(Readable(InterruptDescriptor(), 0));
  bool later_called = false;
  {
    const OnInterrupt later([&] { later_called = true; });
  }
  EXPECT_FALSE(later_called);
}

TEST(InterruptDeathTest, ALaterCtrlCEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const InterruptListener listener;
        while (true) {
          kill(getpid(), SIGINT);
          poll(nullptr, 0, /*timeout=*/50);
        }
      },
      testing::ExitedWithCode(130), "");
}

// `timeout` sends its signal twice: the program must still cancel its calls.
TEST(InterruptTest, ARepeatedSignalIsTheSameInterrupt) {
  using std::chrono::milliseconds;
  EXPECT_FALSE(EndsAtOnce(SIGTERM, milliseconds(0)));
  EXPECT_FALSE(EndsAtOnce(SIGTERM, milliseconds(100'000)));
  EXPECT_FALSE(EndsAtOnce(SIGINT, milliseconds(10)));
  EXPECT_TRUE(EndsAtOnce(SIGINT, milliseconds(1000)));

  {
    const InterruptListener listener;
    kill(getpid(), SIGTERM);
    Readable(InterruptDescriptor(), -1);
    for (const int signal : {SIGTERM, SIGHUP}) {
      kill(getpid(), signal);
      while (IsPending(signal)) poll(nullptr, 0, /*timeout=*/1);
    }
  }
  EXPECT_EQ(InterruptSignal(), SIGTERM);
  ClearInterrupt();
}

}  // namespace
}  // namespace longstream::client
