// main of the test programs, and the ops that their tests run on.
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

// An op as tests expect it: done when it returns.
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

// Of the whole program, set by RunTestsOnGpu.
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
  return {.attention = LibraryTraits::Attention::kRoundsPrefill,
          .cuts_sums_off = true,
          .checks_descriptors = false};
}

// A model waits for its device itself; waiting for each of its ops would end the recording of a
// graph.
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
