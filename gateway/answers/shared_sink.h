// Several threads that write into one stream.
#ifndef LONGSTREAM_GATEWAY_ANSWERS_SHARED_SINK_H_
#define LONGSTREAM_GATEWAY_ANSWERS_SHARED_SINK_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gateway/answers/event_sink.h"

namespace longstream::gateway {

// Thread-safe. While the client does not read, all threads wait.
class SharedSink final : public EventSink {
 public:
  explicit SharedSink(EventSink& sink) : sink_(sink) {}

  void Begin() ABSL_LOCKS_EXCLUDED(mutex_) override {
    absl::MutexLock lock(&mutex_);
    sink_.Begin();
  }
  bool Send(const std::string& events) ABSL_LOCKS_EXCLUDED(mutex_) override {
    absl::MutexLock lock(&mutex_);
    return sink_.Send(events);
  }

 private:
  absl::Mutex mutex_;
  EventSink& sink_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_ANSWERS_SHARED_SINK_H_
