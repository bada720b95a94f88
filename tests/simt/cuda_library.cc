// The CUDA ops, run thread by thread on the CPU.
#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {

std::vector<std::string> NamesUnderTest() { return {"cuda"}; }

LibraryTraits TraitsUnderTest(const std::string&) {
  return {.attention = LibraryTraits::Attention::kRoundsPrefill,
          .checks_descriptors = false,
          .interpreted = true};
}

const OpTable& OpsUnderTest(const std::string&) { return CudaOps(); }

Device& DeviceUnderTest(const std::string&) { return HostMemory(); }

}  // namespace longstream
