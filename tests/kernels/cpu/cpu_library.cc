// The CPU ops as libraries under test: one for each instruction set of this processor.
#include "tests/kernels/cpu/amx_plain.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {

std::vector<std::string> NamesUnderTest() { return SetsUnderTest(); }

// Only avx512 and amx have the bf16 dot product of vectors. The decode rows of amx_plain are those
// of avx2. avx2 and avx512 have the instructions that read numbers of
// 12 bits, and both compute attention over int8 pages in integers.
LibraryTraits TraitsUnderTest(const std::string& name) {
  using Attention = LibraryTraits::Attention;
  if (name == "avx512" || name == "amx") {
    return {
        .attention = Attention::kRoundsWeights, .int8_weight_bits = 16, .compresses_bf16 = true};
  }
  if (name == "avx2") return {.int8_weight_bits = 15, .compresses_bf16 = true};
  if (name == "amx_plain") {
    return {.attention = Attention::kRoundsPrefillWeights,
            .int8_weight_bits = 15,
            .compresses_bf16 = true};
  }
  return {};
}

const OpTable& OpsUnderTest(const std::string& name) { return OpsOfSet(name); }

Device& DeviceUnderTest(const std::string&) { return HostMemory(); }

}  // namespace longstream
