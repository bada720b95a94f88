// The responses in the background of which this gateway tells others that it makes them.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_BEATS_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_BEATS_H_

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/connection.h"

namespace longstream::gateway {

// Calls a function for each of them again and again, on a thread of its own, which runs from the
// first response on. Thread-safe.
class ResponseBeats {
 public:
  struct Beating {
    std::string id;
    client::Caller caller;
    std::string session_id;  // that has its notes
  };
  using Beat = std::function<void(const Beating& beating)>;

  ResponseBeats(absl::Duration period, Beat beat) : period_(period), beat_(std::move(beat)) {}
  ~ResponseBeats() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }
  ResponseBeats(const ResponseBeats&) = delete;
  ResponseBeats& operator=(const ResponseBeats&) = delete;

  // Also if the response is there with another session.
  void Set(Beating beating) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::string id = beating.id;
    beating_[std::move(id)] = std::move(beating);
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  }
  // A call of the function may still run.
  void Remove(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    beating_.erase(id);
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Beating> all;
    for (;;) {
      {
        absl::MutexLock lock(&mutex_);
        if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), period_)) return;
        all.clear();
        for (const auto& [id, beating] : beating_) all.push_back(beating);
      }
      for (const Beating& beating : all) beat_(beating);
    }
  }

  const absl::Duration period_;
  const Beat beat_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Beating> beating_ ABSL_GUARDED_BY(mutex_);  // by id
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_BEATS_H_
