// The CUDA ops, run thread by thread on the CPU. The same tests run on a GPU, which cannot read a
// stack. So here an op fails the test if its arguments contain an address of the stack. The kernels
// of an op overlap as on a GPU. Ops with other kernels for compute capability 8.0 are tested with
// both.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>

#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/ops_under_test.h"
#include "tests/kernels/wrapped_ops.h"

namespace longstream {
namespace {

struct Stack {
  uintptr_t begin = 0;
  uintptr_t end = 0;

  // The stack of the calling thread.
  Stack() {
    pthread_attr_t attributes;
    void* memory = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    pthread_attr_getstack(&attributes, &memory, &size);
    pthread_attr_destroy(&attributes);
    begin = reinterpret_cast<uintptr_t>(memory);
    end = begin + size;
  }
};

// Whether a word of the object is an address on the stack of the calling thread. Returns false if
// the compiler cannot clear the object's padding.
template <typename T>
bool NamesStack([[maybe_unused]] T object) {
  bool names = false;
#if __has_builtin(__builtin_clear_padding)
  static thread_local const Stack stack;
  __builtin_clear_padding(&object);
  const auto* bytes = reinterpret_cast<const std::byte*>(&object);
  for (size_t i = 0; i + sizeof(uintptr_t) <= sizeof(T); i += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, bytes + i, sizeof(word));
    names |= stack.begin <= word && word < stack.end;
  }
#endif
  return names;
}

// args.keys is a variant, which may contain old bytes after its current view. This function clears
// them before it looks for addresses, because an op never reads them.
bool NamesStack(AttentionArgs args) {
  const bool view = std::visit([](const auto& keys) { return NamesStack(keys); }, args.keys);
  std::memset(static_cast<void*>(&args.keys), 0, sizeof(args.keys));
  return view || NamesStack<AttentionArgs>(args);
}

// Whether a row of args.rows, an array to which some arguments point, contains an address of the
// stack. Returns false for arguments without such an array.
template <typename Args>
bool RowsNameStack(const Args&) {
  return false;
}
template <typename Args>
requires requires(const Args& args) { args.rows->row; }
bool RowsNameStack(const Args& args) {
  return std::any_of(args.rows, args.rows + args.num_rows,
                     [](const auto& row) { return NamesStack(row); });
}

cudaStream_t Queue() {
  static const cudaStream_t queue = [] {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
  }();
  return queue;
}

// Runs ops as on a GPU of compute capability kMajor.0.
template <int kMajor>
struct OnAGpu {
  template <typename Args, OpMember<Args> kOp>
  struct Op {
    static void Run(Stream& stream, const Args& args) {
      EXPECT_FALSE(NamesStack(args) || RowsNameStack(args))
          << "an op is given the address of a local variable, which a GPU cannot read";
      simt::TheMachine().devices[0].major = kMajor;
      stream.native = Queue();
      stream.overlaps = stream.wgmma = kMajor >= 9;
      (CudaOps().*kOp)(stream, args);
      cudaStreamSynchronize(Queue());
    }
  };
};

}  // namespace

std::vector<std::string> NamesUnderTest() {
#ifdef LONGSTREAM_DEPENDS_ON_CAPABILITY
  return {"cuda", "cuda_8_0"};
#else
  return {"cuda"};
#endif
}

LibraryTraits TraitsUnderTest(const std::string&) {
  constexpr int kBF16Bits = LibraryTraits::kBF16Bits;
  return {.prefill_bits = {.queries = kBF16Bits, .weights = kBF16Bits},
          .decode_bits = {.queries = 17, .weights = 17},
          .cuts_sums_off = true,
          .checks_descriptors = false,
          .interpreted = true};
}

const OpTable& OpsUnderTest(const std::string& name) {
  static const OpTable on_9_0 = Wrapped<OnAGpu<9>::Op>(CudaOps());
  static const OpTable on_8_0 = Wrapped<OnAGpu<8>::Op>(CudaOps());
  return name == "cuda_8_0" ? on_8_0 : on_9_0;
}

Device& DeviceUnderTest(const std::string&) { return HostMemory(); }

}  // namespace longstream
