// The libraries of ops that a test program runs its tests on. Each program defines them once.
#ifndef LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
#define LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_

#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The choices that kernels/ops leaves to a library.
struct LibraryTraits {
  // How attention over bf16 keys and values rounds their other factors
  // (ops/attention/attention.h).
  enum class Attention {
    kExact,
    kRoundsPrefill,  // queries and weights to bf16; those of decode rows to 17 bits
    kRoundsWeights,  // weights to bf16, queries to 17 bits
  };
  Attention attention = Attention::kExact;
  // Over int8 pages: the bits that it rounds weights to, and queries to 16; 0: it rounds neither.
  int int8_weight_bits = 0;
  // Sums of products are cut off, not rounded to nearest, as tensor cores do it.
  bool cuts_sums_off = false;
  // Stores bf16 weights in 12 bits (ops/gemm/pack.h).
  bool compresses_bf16 = false;
  // Descriptors are read before anything is computed, so that bad ones are refused.
  bool checks_descriptors = true;
  // Runs a thousand times slower than other libraries. One case is enough where cases do not depend
  // on the library.
  bool interpreted = false;
};

// The libraries that can run here.
std::vector<std::string> NamesUnderTest();
// `name`: one of NamesUnderTest().
LibraryTraits TraitsUnderTest(const std::string& name);
const OpTable& OpsUnderTest(const std::string& name);
// The device that holds the memory of models. Tests of single ops do not need it: they use the
// host's memory, and a device reaches it (tests/gpu/managed_heap.h).
Device& DeviceUnderTest(const std::string& name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
