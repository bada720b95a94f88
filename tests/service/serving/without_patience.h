// Calls that wait for a store which hangs, without the wait for a timeout.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVING_WITHOUT_PATIENCE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVING_WITHOUT_PATIENCE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"

namespace longstream {

// Makes the call. Whenever `hangs` says that the store holds somebody up, the calls that wait get
// their answer at once (Timers::CallBy), as if store.commit_timeout had passed. So a test can give
// the store a timeout that no slow machine reaches. `timers`: of the session manager.
template <typename Call>
auto WithoutPatience(Timers* timers, const std::function<bool()>& hangs, const Call& call) {
  std::atomic<bool> done{false};
  std::thread impatience([&] {
    while (!done.load()) {
      if (hangs()) timers->CallBy(MonotonicTime::Now());
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  auto result = call();
  done.store(true);
  impatience.join();
  return result;
}

// The answer of a call that has waited too long for the store. An Append for whose message the
// server still waited when WithoutPatience lost its patience has the second message.
inline void ExpectLateAnswer(absl::StatusCode code, const std::string& message) {
  EXPECT_EQ(code, absl::StatusCode::kUnavailable) << message;
  EXPECT_THAT(message, testing::AnyOf(testing::HasSubstr("the store has not answered"),
                                      testing::Eq("the server is shutting down")));
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVING_WITHOUT_PATIENCE_H_
