// Which libraries of ops a test program runs its tests on; defined once per program.
#ifndef LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
#define LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_

#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// What kernels/ops leaves open to a library.
struct LibraryTraits {
  // What attention over bf16 keys and values multiplies them with (ops/attention/attention.h).
  enum class Attention {
    kExact,
    kRoundsPrefill,  // queries and weights to bf16; those of decode rows to 17 bits
    kRoundsWeights,  // weights to bf16, queries to 17 bits
  };
  Attention attention = Attention::kExact;
  // Bits that it rounds weights to over int8 pages, where it rounds queries to 16; 0: neither.
  int int8_weight_bits = 0;
  // Sums of products are cut off, not rounded to nearest, as tensor cores do it.
  bool cuts_sums_off = false;
  // Stores bf16 weights in 12 bits (ops/gemm/pack.h).
  bool compresses_bf16 = false;
  // Descriptors are read before anything is computed, so that bad ones are refused.
  bool checks_descriptors = true;
  // Runs a thousand times slower than its like: of what does not depend on the library, one case is
  // enough.
  bool interpreted = false;
};

// Those that can run here.
std::vector<std::string> NamesUnderTest();
// `name`: one of NamesUnderTest().
LibraryTraits TraitsUnderTest(const std::string& name);
const OpTable& OpsUnderTest(const std::string& name);
// Where models that run on them have their memory. Tests of the ops alone do not ask: their own
// memory is the host's, and a device reaches it (tests/gpu/managed_heap.h).
Device& DeviceUnderTest(const std::string& name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
