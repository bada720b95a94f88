// The CPU ops as libraries under test: one for each instruction set of this processor.
#include "tests/kernels/cpu/amx_plain.h"
#include "tests/kernels/ops_under_test.h"

namespace longstream {

std::vector<std::string> NamesUnderTest() { return SetsUnderTest(); }

// Only avx512 and amx have the bf16 dot product of vectors. The decode rows of amx_plain are those
// of avx2. Sets from avx2 on have the instructions that read numbers of 12 bits, and compute
// attention over int8 pages in integers.
LibraryTraits TraitsUnderTest(const std::string& name) {
  constexpr LibraryTraits::KeptBits kWeights = {.queries = 17, .weights = LibraryTraits::kBF16Bits};
  constexpr LibraryTraits::KeptBits kBoth = {.queries = LibraryTraits::kBF16Bits,
                                             .weights = LibraryTraits::kBF16Bits};
  LibraryTraits traits;
  if (name == "avx512") traits.prefill_bits = traits.decode_bits = kWeights;
  if (name == "amx") traits.decode_bits = kWeights;
  if (name == "amx" || name == "amx_plain") {
    traits.prefill_bits = kBoth;
    traits.rounds_scaled_queries = true;
  }
  if (name == "avx512_f32" || name == "avx512" || name == "amx") traits.int8_weight_bits = 16;
  if (name == "avx2" || name == "amx_plain") traits.int8_weight_bits = 15;
  traits.compresses_bf16 = traits.int8_weight_bits > 0;
  return traits;
}

const OpTable& OpsUnderTest(const std::string& name) { return OpsOfSet(name); }

Device& DeviceUnderTest(const std::string&) { return HostMemory(); }

}  // namespace longstream
