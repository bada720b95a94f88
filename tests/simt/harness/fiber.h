// The threads of a block as fibers of one OS thread, which switch to each other.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_H_

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/simt/harness/fiber_stack.h"

namespace longstream::simt {

// A fiber. If it has been started, it must have ended when it is destroyed.
class Fiber {
 public:
  // Makes the Fiber of the code that calls this constructor, on whatever stack it runs.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Calls body() at the first switch to the fiber. When body() returns, the fiber ends, and the
  // Fiber* that body() returns goes on.
  template <typename Body>
  void Start(const Body& body);

  // Switches to `next`. Returns when another fiber switches to this one.
  void SwitchTo(Fiber* next) {
    stack_switch_.Leave(next->bottom_, next->size_);
    last_left = this;
    Arrive(std::move(next->rest_).resume());
  }

 private:
  // Bytes at the top of a stack that stay unused. Each of 64 neighbouring stacks skips a different
  // number of cache lines. With their guards the stacks are an odd number of pages apart; if the
  // tops were at the same place of their pages, all would be in the same few sets of the
  // first-level cache. A stack always skips the same number, because AddressSanitizer remembers the
  // frames of the last fiber on it.
  static size_t UnusedOf(const std::byte* top) {
    constexpr size_t kPage = 4096, kLine = 64;
    return reinterpret_cast<uintptr_t>(top) / kPage % (kPage / kLine) * kLine;
  }

  // Stores how the fiber that was left goes on, and where its stack is.
  void Arrive(boost::context::fiber from) {
    last_left->rest_ = std::move(from);
    stack_switch_.Arrive(&last_left->bottom_, &last_left->size_);
  }

  static inline Fiber* last_left = nullptr;  // the fiber that switched to the running one

  boost::context::fiber rest_;  // where it goes on; empty while it runs and after it has ended
  const void* bottom_ = nullptr;
  size_t size_ = 0;
  StackSwitch stack_switch_;
};

template <typename Body>
void Fiber::Start(const Body& body) {
  PooledStack stacks;
  const boost::context::stack_context stack = stacks.allocate();
  auto* const top = static_cast<std::byte*>(stack.sp);
  bottom_ = top - stack.size;
  size_ = stack.size;
  const size_t unused = UnusedOf(top);
  const boost::context::preallocated memory(top - unused, stack.size - unused, stack);
  rest_ = boost::context::fiber(std::allocator_arg, memory, stacks,
                                [this, body](boost::context::fiber&& from) {
                                  Arrive(std::move(from));
                                  Fiber* const next = body();
                                  StackSwitch::LeaveForEver(next->bottom_, next->size_);
                                  last_left = this;
                                  return std::move(next->rest_);
                                });
}

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_H_
