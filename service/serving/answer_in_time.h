// Answers of calls that wait for the store, but not for ever.
#ifndef LONGSTREAM_SERVICE_SERVING_ANSWER_IN_TIME_H_
#define LONGSTREAM_SERVICE_SERVING_ANSWER_IN_TIME_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "service/clock/monotonic_time.h"
#include "service/clock/timers.h"

namespace longstream {

// Returns a function to be called once, on any thread. It passes its result on to `answer`, unless
// `timeout` has passed (or Timers::CallBy has shortened it): then `answer` has got UNAVAILABLE on
// the thread of `timers` and was destroyed, and the result goes to `late`. Until then `timers` must
// exist. `what_now`: the end of the error's message.
//
// Answer is a std::function of an absl::Status or an absl::StatusOr.
template <typename Answer>
Answer AnswerInTime(Timers* timers, absl::Duration timeout, Answer answer, Answer late = nullptr,
                    const char* what_now = "the change may still be made: send the request again") {
  struct Race {
    explicit Race(Answer a) : answer(std::move(a)) {}
    // The answer, for the first caller; nullptr for the second.
    Answer Take() { return taken.exchange(true) ? nullptr : std::exchange(answer, nullptr); }

    std::atomic<bool> taken{false};
    Answer answer;
  };
  const auto race = std::make_shared<Race>(std::move(answer));
  const MonotonicTime end = MonotonicTime::Now() + timeout;
  const Timers::Id timer = timers->Set(end, [race, timeout, end, what_now] {
    const Answer first = race->Take();
    if (!first) return;
    const std::string why = MonotonicTime::Now() < end
                                ? "the server is shutting down, and the store has not answered"
                                : "the store has not answered within store.commit_timeout, " +
                                      absl::FormatDuration(timeout);
    first(absl::UnavailableError(why + "; " + what_now));
  });
  return [timers, race, timer, late = std::move(late)](auto result) {
    const Answer first = race->Take();
    if (!first) {
      if (late) late(std::move(result));
      return;
    }
    timers->Cancel(timer);
    first(std::move(result));
  };
}

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ANSWER_IN_TIME_H_
