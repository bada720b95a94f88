// The memory that decoded requests take, with a limit for each request and one for all of them.
#ifndef LONGSTREAM_SERVICE_WIRE_REQUEST_MEMORY_H_
#define LONGSTREAM_SERVICE_WIRE_REQUEST_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace longstream {

// Counts the bytes that the requests of a server hold. Thread-safe.
class RequestMemory {
 public:
  // `max_bytes`: the limit for the sum over all requests. `on_large`: called on any thread when a
  // request of a MiB or more is freed; it must not block.
  explicit RequestMemory(uint64_t max_bytes, std::function<void()> on_large = {})
      : max_bytes_(max_bytes), on_large_(std::move(on_large)) {}

  // Counts `bytes` more for a request that holds `own_bytes`. RESOURCE_EXHAUSTED: there are other
  // requests, and all together would hold more than the limit. Nothing is counted. A request alone
  // may exceed the limit.
  absl::Status Take(uint64_t bytes, uint64_t own_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t held_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);
  // A request of `received_bytes` has been freed.
  void NoteFreed(uint64_t received_bytes) const;

 private:
  const uint64_t max_bytes_;
  const std::function<void()> on_large_;
  mutable absl::Mutex mutex_;
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Counts the bytes of one request while the object exists. A request may take at most 4 bytes for
// each byte received, plus 1 MiB for the whole call. Used by one thread at a time.
class RequestCharge {
 public:
  // `memory` must outlive the charge. `received_bytes`: the size of the encoded request.
  RequestCharge(RequestMemory* memory, uint64_t received_bytes);
  ~RequestCharge();
  RequestCharge(RequestCharge&& other) noexcept;
  RequestCharge& operator=(RequestCharge&& other) noexcept;

  // Counts `bytes` more, before they are allocated. INVALID_ARGUMENT: the request would exceed its
  // own limit. RESOURCE_EXHAUSTED: all requests together would exceed theirs.
  absl::Status Add(uint64_t bytes);
  // `bytes` of the counted bytes are free again.
  void Subtract(uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  // The number of bytes that Add accepts before the request's own limit is reached.
  uint64_t bytes_left() const { return max_bytes_ - bytes_; }

 private:
  RequestMemory* memory_;
  uint64_t received_bytes_;
  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  uint64_t taken_bytes_ = 0;  // taken from memory_, in steps of kStep; at least bytes_
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_WIRE_REQUEST_MEMORY_H_
