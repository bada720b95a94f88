// The bytes of the host's memory that sessions and their turns hold, with one limit for all.
#ifndef LONGSTREAM_SERVICE_HOST_MEMORY_HOST_MEMORY_H_
#define LONGSTREAM_SERVICE_HOST_MEMORY_HOST_MEMORY_H_

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace longstream {

// The bytes that the allocator takes for a block of `size` bytes. 0 for a size of 0.
uint64_t BlockBytes(size_t size);
// The same for the block of a string. A short string has none.
uint64_t BlockBytes(const std::string& text);
// The same for the block of an array.
template <typename T>
uint64_t BlockBytes(const std::vector<T>& array) {
  return BlockBytes(array.capacity() * sizeof(T));
}
inline uint64_t BlockBytes(const std::vector<bool>& array) {
  return BlockBytes(array.capacity() / CHAR_BIT);
}
// The bytes of one node of a std::map with these entries.
template <typename Entry>
uint64_t NodeBytes() {
  constexpr size_t kHeader = 32;
  return BlockBytes(kHeader + sizeof(Entry));
}

// The sum of all charges. Thread-safe.
class HostMemory {
 public:
  // `conversation_limit`: for the conversation of one session. 0: no limit.
  explicit HostMemory(uint64_t limit, uint64_t conversation_limit = 0)
      : limit_(limit), conversation_limit_(conversation_limit) {}
  // A part of `whole`, with its own limit: its charges count in both. `no_room` makes the refusal
  // of `bytes` more than the part's limit allows. `whole` outlives the part.
  HostMemory(uint64_t limit, HostMemory* whole, std::function<absl::Status(uint64_t bytes)> no_room)
      : limit_(limit),
        conversation_limit_(whole->conversation_limit_),
        whole_(whole),
        no_room_(std::move(no_room)) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  uint64_t limit() const { return limit_; }
  uint64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

  // RESOURCE_EXHAUSTED: `bytes` more would exceed the limit. The message names the limit's key, the
  // bytes and the limit. Counts nothing.
  absl::Status CheckRoom(uint64_t bytes) const;
  // RESOURCE_EXHAUSTED: one session may not have a conversation of so many bytes. The message names
  // the limit's key, the bytes and the limit. Counts nothing.
  absl::Status CheckConversation(uint64_t bytes) const;

 private:
  friend class HostCharge;

  // As CheckRoom, but counts the bytes if there is room.
  absl::Status TryTake(uint64_t bytes);
  void Take(uint64_t bytes) {
    held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->Take(bytes);
  }
  void GiveBack(uint64_t bytes) {
    held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    if (whole_ != nullptr) whole_->GiveBack(bytes);
  }

  bool HasRoom(uint64_t held, uint64_t bytes) const {
    return limit_ == 0 || (held <= limit_ && bytes <= limit_ - held);
  }
  absl::Status NoRoom(uint64_t held, uint64_t bytes) const;

  const uint64_t limit_;
  const uint64_t conversation_limit_;
  HostMemory* const whole_ = nullptr;
  const std::function<absl::Status(uint64_t bytes)> no_room_ = nullptr;
  std::atomic<uint64_t> held_bytes_{0};
};

// Counts the bytes of one owner in a HostMemory while the object exists. Used by one thread at a
// time.
class HostCharge {
 public:
  // memory nullptr: the charge knows its own bytes, and they count nowhere else. Otherwise `memory`
  // must outlive the charge.
  explicit HostCharge(HostMemory* memory = nullptr) : memory_(memory) {}
  ~HostCharge() { Set(0); }
  HostCharge(HostCharge&& other) noexcept;
  HostCharge& operator=(HostCharge&& other) noexcept;

  HostMemory* memory() const { return memory_; }
  uint64_t bytes() const { return bytes_; }

  // Counts `bytes` more. RESOURCE_EXHAUSTED: as for HostMemory::CheckRoom. Nothing has changed.
  absl::Status Add(uint64_t bytes);
  // The owner holds `bytes` now. Never refused: it is for memory that has been allocated already,
  // such as that of a drawn token. The next Add is then refused.
  void Set(uint64_t bytes);
  // Moves `bytes` of this charge into a new one. REQUIRES: bytes <= bytes().
  HostCharge Split(uint64_t bytes);

 private:
  HostMemory* memory_;
  uint64_t bytes_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_HOST_MEMORY_HOST_MEMORY_H_
