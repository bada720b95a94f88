// Decides how many trials a fuzz test makes, and counts them, so that a trial can be found again by
// its number. A test draws all its inputs from one generator with a fixed seed, so trial n is the
// same in every run.
//
//   std::mt19937 random(11);
//   FuzzTrials trials(300);
//   while (trials.Next()) {
//     SCOPED_TRACE(trials.name());
//     ... draw an input from `random`, try it ...
//   }
//
// This test makes at least 300 trials. If the environment variable LONGSTREAM_FUZZ_SECONDS is set
// (`make fuzz SECONDS=60`), it goes on until this time has passed. The tests of one test suite (the
// cases of a parameterised test) share the time. A test ends at its first trial that fails.
#ifndef LONGSTREAM_TESTS_FUZZ_TRIALS_H_
#define LONGSTREAM_TESTS_FUZZ_TRIALS_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace longstream {

class FuzzTrials {
 public:
  explicit FuzzTrials(int least) : least_(least), end_(Clock::now() + Time()) {}

  FuzzTrials(const FuzzTrials&) = delete;
  FuzzTrials& operator=(const FuzzTrials&) = delete;

  ~FuzzTrials() { std::printf("%d trials\n", count_); }

  // Whether to make another trial.
  bool Next() {
    if (testing::Test::HasFailure()) return false;
    if (count_ >= least_ && Clock::now() >= end_) return false;
    ++count_;
    return true;
  }

  // The number of trials so far, including the current one.
  int count() const { return count_; }
  std::string name() const { return "trial " + std::to_string(count_); }

 private:
  using Clock = std::chrono::steady_clock;

  static Clock::duration Time() {
    const char* const seconds = std::getenv("LONGSTREAM_FUZZ_SECONDS");
    if (seconds == nullptr) return {};
    const int tests = testing::UnitTest::GetInstance()->current_test_suite()->test_to_run_count();
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::strtod(seconds, nullptr) / tests));
  }

  const int least_;
  const Clock::time_point end_;
  int count_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_FUZZ_TRIALS_H_
