// Finds pauses of this program itself: somebody stopped it, or the machine gave it no processor.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_PAUSES_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_PAUSES_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace longstream {

// A thread that wakes 20 times a second and notes when it wakes late. A server cannot delay it, so
// a pause says something about the machine only.
class Pauses {
 public:
  Pauses();
  ~Pauses();
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;

  // Returns the seconds of the longest pause since the last call. A pause that has not ended
  // counts.
  double Take();

 private:
  using Clock = std::chrono::steady_clock;

  void Watch();
  // Notes the time since the last wake.
  void Note(Clock::time_point now);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  Clock::time_point last_ = Clock::now();
  double longest_ = 0;
  std::thread thread_;  // last, so that the members above exist when it starts
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_PAUSES_H_
