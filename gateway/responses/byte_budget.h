// A limit on what several threads hold together.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_BYTE_BUDGET_H_
#define LONGSTREAM_GATEWAY_RESPONSES_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace longstream::gateway {

// Thread-safe. Outlives what it gives.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t most) : most_(most) {}

  uint64_t most() const { return most_; }

  // The bytes count until the last copy of the pointer is gone. Null: they would exceed the limit.
  std::shared_ptr<void> Take(uint64_t bytes) {
    uint64_t held = held_;
    do {
      if (bytes > most_ - held) return nullptr;
    } while (!held_.compare_exchange_weak(held, held + bytes));
    return {this, [bytes](ByteBudget* budget) { budget->held_ -= bytes; }};
  }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> held_ = 0;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_BYTE_BUDGET_H_
