// The main function of the GPU test programs, and the ops that their tests call.
#include "tests/gpu/run_tests.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/gpu/managed_heap.h"
#include "tests/kernels/ops_under_test.h"
#include "tests/kernels/wrapped_ops.h"

namespace longstream {
namespace {

// Runs an op and waits until the GPU has finished it, because tests read results at once.
template <typename Args, OpMember<Args> kOp>
struct AndWait {
  static void Run(Stream& stream, const Args& args) {
    static const bool wgmma = DeviceUnderTest("cuda").MakeStream({}, nullptr, 0).wgmma;
    stream.wgmma = wgmma;
    (CudaOps().*kOp)(stream, args);
    const cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return;
    ADD_FAILURE() << cudaGetErrorName(error) << ": " << cudaGetErrorString(error);
    stream.Fail(OpStatus::kDeviceError);
  }
};

// The device and the heap of the whole program; RunTestsOnGpu sets them.
struct Setting {
  OpenedDevice opened;
  TestHeap heap = TestHeap::kHost;
};
Setting& TheSetting() {
  static Setting setting;
  return setting;
}

}  // namespace

std::vector<std::string> NamesUnderTest() { return {"cuda"}; }

LibraryTraits TraitsUnderTest(const std::string&) {
  constexpr int kBF16Bits = LibraryTraits::kBF16Bits;
  return {.prefill_bits = {.queries = kBF16Bits, .weights = kBF16Bits},
          .decode_bits = {.queries = 17, .weights = 17},
          .cuts_sums_off = true,
          .checks_descriptors = false};
}

// With a host heap the program tests models. A model waits for its device itself, and waiting after
// each op would break the recording of a graph.
const OpTable& OpsUnderTest(const std::string&) {
  static const OpTable waiting = Wrapped<AndWait>(CudaOps());
  return TheSetting().heap == TestHeap::kManaged ? waiting : CudaOps();
}

Device& DeviceUnderTest(const std::string&) { return *TheSetting().opened.device; }

void RunTestsOnGpu(int argc, char** argv, TestHeap heap) {
  TheSetting() = {OpenDevice("cuda"), heap};
  std::string why = TheSetting().opened.why;
  if (why.empty() && heap == TestHeap::kManaged) why = StartManagedHeap();
  if (!why.empty()) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::_Exit(kNoDevice);
  }
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace longstream
