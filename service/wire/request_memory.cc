// Counts the memory of requests.
#include "service/wire/request_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

constexpr uint64_t kMaxRatio = 4;
constexpr uint64_t kFreeBytes = 1 << 20;
// The part of kFreeBytes that gRPC and the reactor of a call take.
constexpr uint64_t kCallBytes = 64 << 10;
// A charge takes bytes from the sum of all requests in steps of this size, so that it seldom locks.
constexpr uint64_t kStep = 64 << 10;

}  // namespace

absl::Status RequestMemory::Take(uint64_t bytes, uint64_t own_bytes) {
  absl::MutexLock lock(&mutex_);
  const bool has_room = bytes <= max_bytes_ - std::min(max_bytes_, held_bytes_);
  if (!has_room && held_bytes_ > own_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("max_transit_bytes: the requests that are being read hold ", held_bytes_,
                     " bytes, and this one needs ", bytes, " more; the limit is ", max_bytes_));
  }
  held_bytes_ += bytes;
  return absl::OkStatus();
}

void RequestMemory::GiveBack(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  held_bytes_ -= bytes;
}

uint64_t RequestMemory::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  return held_bytes_;
}

void RequestMemory::NoteFreed(uint64_t received_bytes) const {
  constexpr uint64_t kLarge = 1 << 20;
  if (on_large_ && received_bytes >= kLarge) on_large_();
}

RequestCharge::RequestCharge(RequestMemory* memory, uint64_t received_bytes)
    : memory_(memory),
      received_bytes_(received_bytes),
      max_bytes_(kMaxRatio * received_bytes + kFreeBytes - kCallBytes) {}

RequestCharge::~RequestCharge() {
  if (memory_ == nullptr) return;
  memory_->GiveBack(taken_bytes_);
  memory_->NoteFreed(received_bytes_);
}

RequestCharge::RequestCharge(RequestCharge&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      received_bytes_(other.received_bytes_),
      max_bytes_(other.max_bytes_),
      bytes_(other.bytes_),
      taken_bytes_(other.taken_bytes_) {}

RequestCharge& RequestCharge::operator=(RequestCharge&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(received_bytes_, other.received_bytes_);
  std::swap(max_bytes_, other.max_bytes_);
  std::swap(bytes_, other.bytes_);
  std::swap(taken_bytes_, other.taken_bytes_);
  return *this;
}

absl::Status RequestCharge::Add(uint64_t bytes) {
  if (bytes > bytes_left()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message of ", received_bytes_, " bytes would take more than ", max_bytes_,
                     " bytes of memory; it has too many elements for its size"));
  }
  if (bytes > taken_bytes_ - bytes_) {
    const uint64_t step = std::max(kStep, bytes);
    if (absl::Status status = memory_->Take(step, taken_bytes_); !status.ok()) return status;
    taken_bytes_ += step;
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

void RequestCharge::Subtract(uint64_t bytes) {
  bytes_ -= bytes;
  if (taken_bytes_ - bytes_ < 2 * kStep) return;
  const uint64_t unused = taken_bytes_ - bytes_ - kStep;
  memory_->GiveBack(unused);
  taken_bytes_ -= unused;
}

}  // namespace longstream
