#include "gateway/responses/response_stream.h"

#include <string_view>

namespace longstream::gateway {

bool ResponseStream::Send(const std::string& events) {
  constexpr std::string_view kEndOfEvent = "\n\n";
  absl::MutexLock lock(&mutex_);
  for (std::string_view rest = events; !rest.empty();) {
    const size_t found = rest.find(kEndOfEvent);
    const size_t size = found == std::string_view::npos ? rest.size() : found + kEndOfEvent.size();
    if (rest.front() != ':') {
      events_.emplace_back(rest.substr(0, size));
      bytes_ += sizeof(std::string) + size;
    }
    rest.remove_prefix(size);
  }
  return !cancellation_.cancelled();
}

void ResponseStream::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

ResponseStream::Next ResponseStream::Wait(size_t number, absl::Duration timeout,
                                          std::string* event) const {
  absl::MutexLock lock(&mutex_);
  const auto is_known = [this, number]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ended_ || number < events_.size();
  };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&is_known), timeout)) return Next::kWait;
  if (number >= events_.size()) return Next::kEnd;
  *event = events_[number];
  return Next::kEvent;
}

bool ResponseStream::WaitForEnd(absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&ended_), timeout);
}

uint64_t ResponseStream::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace longstream::gateway
