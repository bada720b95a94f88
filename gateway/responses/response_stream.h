// The events of a response that is made in the background.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_STREAM_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cancellation.h"
#include "gateway/answers/event_sink.h"

namespace longstream::gateway {

// One thread writes the events, and any number of readers follow them, each from where it likes.
// The number of an event is its `sequence_number`. Thread-safe.
class ResponseStream final : public EventSink {
 public:
  void Begin() override {
    if (on_begin_) std::exchange(on_begin_, nullptr)();
  }
  // The writing thread calls the function when the turn begins. For this thread only.
  void OnBegin(std::function<void()> on_begin) { on_begin_ = std::move(on_begin); }
  // Comments are for connections, and are dropped.
  bool Send(const std::string& events) override ABSL_LOCKS_EXCLUDED(mutex_);
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

  enum class Next {
    kEvent,  // it is there
    kWait,   // it has not come in this time
    kEnd,    // it will never come
  };
  // Waits for an event.
  Next Wait(size_t number, absl::Duration timeout, std::string* event) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the response has ended. False: it has not, after this time.
  bool WaitForEnd(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the turn.
  void Cancel() { cancellation_.Cancel(); }
  bool cancelled() const { return cancellation_.cancelled(); }
  // The turn goes on without this gateway, if another one can go on with it. Otherwise ends it.
  void Leave() { noted_ ? cancellation_.Leave() : cancellation_.Cancel(); }
  void SetNoted(bool noted) { noted_ = noted; }
  bool left() const { return cancellation_.leaves(); }
  client::Cancellation* cancellation() { return &cancellation_; }

  // That the events take.
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  client::Cancellation cancellation_;
  std::atomic<bool> noted_{false};  // other gateways know of the response
  std::function<void()> on_begin_;
  mutable absl::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_STREAM_H_
