// A signal calls the function of every OnInterrupt. A second signal ends the program.
#include "client/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace longstream::client {
namespace {

bool Readable(int descriptor, int timeout_milliseconds) {
  pollfd polled = {descriptor, POLLIN, 0};
  return poll(&polled, 1, timeout_milliseconds) == 1;
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

TEST(InterruptDeathTest, ASecondSignalEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const InterruptListener listener;
        kill(getpid(), SIGINT);
        Readable(InterruptDescriptor(), -1);
        kill(getpid(), SIGINT);
        pause();
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace longstream::client
