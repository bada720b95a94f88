// Counts the bytes of charges.
#include "service/host_memory/host_memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {

uint64_t BlockBytes(size_t size) {
  // glibc puts 8 bytes before a block, rounds up to 16 bytes, and gives no block less than 32. A
  // block from 128 KiB on may have pages of its own.
  constexpr uint64_t kHeader = 8, kUnit = 16, kLeast = 32, kPage = 4096;
  constexpr uint64_t kOwnPages = 128 << 10;
  if (size == 0) return 0;
  const uint64_t unit = size < kOwnPages ? kUnit : kPage;
  return std::max(kLeast, (size + kHeader + unit - 1) / unit * unit);
}

uint64_t BlockBytes(const std::string& text) {
  constexpr size_t kInlineBytes = 15;  // a short string is stored in the std::string itself
  return text.capacity() <= kInlineBytes ? 0 : BlockBytes(text.capacity() + 1);
}

absl::Status HostMemory::NoRoom(uint64_t held, uint64_t bytes) const {
  if (no_room_ != nullptr) return no_room_(bytes);
  return absl::ResourceExhaustedError(
      absl::StrCat("sessions.host_bytes: sessions and turns hold ", held,
                   " bytes of the host's memory for tokens and conversations, and this needs ",
                   bytes, " more; the limit is ", limit_, "; close some sessions"));
}

absl::Status HostMemory::CheckRoom(uint64_t bytes) const {
  const uint64_t held = held_bytes();
  if (!HasRoom(held, bytes)) return NoRoom(held, bytes);
  return whole_ == nullptr ? absl::OkStatus() : whole_->CheckRoom(bytes);
}

absl::Status HostMemory::CheckConversation(uint64_t bytes) const {
  if (conversation_limit_ == 0 || bytes <= conversation_limit_) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("sessions.conversation_bytes: the conversation of the session would take ",
                   bytes, " bytes of the host's memory; the limit is ", conversation_limit_));
}

absl::Status HostMemory::TryTake(uint64_t bytes) {
  uint64_t held = held_bytes();
  do {
    if (!HasRoom(held, bytes)) return NoRoom(held, bytes);
  } while (!held_bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  if (whole_ == nullptr) return absl::OkStatus();
  absl::Status status = whole_->TryTake(bytes);
  if (!status.ok()) held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

HostCharge::HostCharge(HostCharge&& other) noexcept
    : memory_(other.memory_), bytes_(std::exchange(other.bytes_, 0)) {}

HostCharge& HostCharge::operator=(HostCharge&& other) noexcept {
  if (this == &other) return *this;
  Set(0);
  memory_ = other.memory_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

absl::Status HostCharge::Add(uint64_t bytes) {
  if (memory_ != nullptr) {
    if (absl::Status status = memory_->TryTake(bytes); !status.ok()) return status;
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

void HostCharge::Set(uint64_t bytes) {
  if (memory_ != nullptr && bytes > bytes_) memory_->Take(bytes - bytes_);
  if (memory_ != nullptr && bytes < bytes_) memory_->GiveBack(bytes_ - bytes);
  bytes_ = bytes;
}

HostCharge HostCharge::Split(uint64_t bytes) {
  assert(bytes <= bytes_);
  HostCharge part(memory_);
  part.bytes_ = bytes;
  bytes_ -= bytes;
  return part;
}

}  // namespace longstream
