// The CPU ops as libraries under test: one for each instruction set of this processor.
#include "kernels/cpu/cpu_ops.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {

std::vector<std::string> NamesUnderTest() {
  std::vector<std::string> names;
  for (const char* isa : kIsaNames) {
    if (OpsFor(isa) != nullptr) names.emplace_back(isa);
  }
  return names;
}

// Only avx512 has the bf16 dot product. avx2 and avx512 have the instructions that read numbers of
// 12 bits, and both compute attention over int8 pages in integers.
LibraryTraits TraitsUnderTest(const std::string& name) {
  using Attention = LibraryTraits::Attention;
  if (name == "avx512") {
    return {
        .attention = Attention::kRoundsWeights, .int8_weight_bits = 16, .compresses_bf16 = true};
  }
  if (name == "avx2") return {.int8_weight_bits = 15, .compresses_bf16 = true};
  return {};
}

const OpTable& OpsUnderTest(const std::string& name) { return *OpsFor(name.c_str()); }

Device& DeviceUnderTest(const std::string&) { return HostMemory(); }

}  // namespace longstream
