// Stacks of fibers, which are kept for the next launch, and calls that tell AddressSanitizer about
// them.
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_STACK_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_STACK_H_

#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace longstream::simt {

// A stack allocator of Boost.Context. Copies share one pool; one OS thread at a time may use it.
class PooledStack {
 public:
  boost::context::stack_context allocate() {
    std::vector<boost::context::stack_context>& free = Pool().free;
    if (free.empty()) return boost::context::protected_fixedsize_stack(kBytes).allocate();
    const boost::context::stack_context stack = free.back();
    free.pop_back();
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) { Pool().free.push_back(stack); }

  // With ASan a frame is several times as large as without.
  static constexpr size_t kBytes = size_t{256} << 10;

 private:
  // Destroyed with the program, or with the plugin that contains the harness.
  struct FreeStacks {
    FreeStacks() = default;
    ~FreeStacks() {
      boost::context::protected_fixedsize_stack stacks(kBytes);
      for (boost::context::stack_context& stack : free) stacks.deallocate(stack);
    }
    FreeStacks(const FreeStacks&) = delete;
    FreeStacks& operator=(const FreeStacks&) = delete;

    std::vector<boost::context::stack_context> free;
  };

  static FreeStacks& Pool() {
    static FreeStacks pool;
    return pool;
  }
};

// One side of a switch between two stacks: Leave is called before the switch, Arrive after it. Both
// do nothing without ASan.
class StackSwitch {
 public:
#if defined(__SANITIZE_ADDRESS__)
  void Leave(const void* bottom, size_t size) {
    __sanitizer_start_switch_fiber(&fake_stack_, bottom, size);
  }
  // Leaves the stack of this side, which ends for good.
  static void LeaveForEver(const void* bottom, size_t size) {
    __sanitizer_start_switch_fiber(nullptr, bottom, size);
  }
  // Sets the bounds of the stack that was left.
  void Arrive(const void** bottom, size_t* size) {
    __sanitizer_finish_switch_fiber(fake_stack_, bottom, size);
  }

 private:
  void* fake_stack_ = nullptr;
#else
  void Leave(const void*, size_t) {}
  static void LeaveForEver(const void*, size_t) {}
  void Arrive(const void**, size_t*) {}
#endif
};

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_FIBER_STACK_H_
