// The threads that read the store, on a system that gives too few of them.
#include "service/serving/reads/store_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace longstream {
namespace {

// Gives `most` threads, and counts those that have ended.
class FewThreads {
 public:
  explicit FewThreads(int most) : most_(most) {}

  std::thread Make(std::function<void()> run) {
    if (made_ == most_) {
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    ++made_;
    return std::thread([this, run = std::move(run)] {
      run();
      ++ended_;
    });
  }
  int made() const { return made_; }
  int ended() const { return ended_; }

 private:
  const int most_;
  int made_ = 0;
  std::atomic<int> ended_{0};
};

// Without the threads' ends, the destructor of a thread that runs would end this program.
TEST(StoreReadsTest, EndsItsThreadsIfTheSystemGivesFewer) {
  constexpr int kWanted = 5;
  for (int most = 0; most < kWanted; ++most) {
    SCOPED_TRACE(most);
    FewThreads system(most);
    std::string message;
    try {
      const StoreReads reads(
          kWanted, {.most_waiting = 1, .most_running = 1},
          [&](std::function<void()> run) { return system.Make(std::move(run)); });
      ADD_FAILURE() << "has " << most << " of " << kWanted << " threads";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again);
      message = error.what();
    }
    EXPECT_THAT(message, testing::StartsWith("thread " + std::to_string(most + 1) +
                                             " of the 5 that read the store: "));
    EXPECT_EQ(system.made(), most);
    EXPECT_EQ(system.ended(), most);
  }
}

TEST(StoreReadsTest, RunsAllReadsBeforeItsThreadsEnd) {
  FewThreads system(3);
  std::atomic<int> runs{0};
  {
    StoreReads reads(3, {.most_waiting = 100, .most_running = 2},
                     [&](std::function<void()> run) { return system.Make(std::move(run)); });
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(reads.Run({"tenant"}, 1, [&] { ++runs; }).ok());
  }
  EXPECT_EQ(runs, 100);
  EXPECT_EQ(system.ended(), 3);
}

}  // namespace
}  // namespace longstream
