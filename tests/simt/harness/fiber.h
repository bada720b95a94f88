// What the threads of a block are: fibers of one OS thread, which switch to each other.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_H_

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tests/simt/harness/fiber_stack.h"

namespace longstream::simt {

// One that has been started must have ended when it is destroyed.
class Fiber {
 public:
  // The running one, on whatever stack that is.
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Calls body() when it is switched to first. The fiber ends with it, and what it returns, a
  // Fiber*, goes on.
  template <typename Body>
  void Start(const Body& body);

  // Goes on with `next`. Returns when another fiber switches to this one.
  void SwitchTo(Fiber* next) {
    stack_switch_.Leave(next->bottom_, next->size_);
    last_left = this;
    Arrive(std::move(next->rest_).resume());
  }

 private:
  // Bytes at the top of a stack that stay unused: another number of lines for each of 64 stacks
  // that lie side by side, an odd number of pages apart with their guards. At one place of their
  // pages the tops would all be in the same few sets of the first-level cache. A stack keeps its
  // number, since AddressSanitizer remembers the frames that the last fiber has left there.
  static size_t UnusedOf(const std::byte* top) {
    constexpr size_t kPage = 4096, kLine = 64;
    return reinterpret_cast<uintptr_t>(top) / kPage % (kPage / kLine) * kLine;
  }

  // Keeps how the one that was left goes on, and where its stack is.
  void Arrive(boost::context::fiber from) {
    last_left->rest_ = std::move(from);
    stack_switch_.Arrive(&last_left->bottom_, &last_left->size_);
  }

  static inline Fiber* last_left = nullptr;  // that switched to the running one

  boost::context::fiber rest_;  // where it goes on; empty while it runs and when it has ended
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
