// The libraries of ops on which a test program runs its tests. Each program defines them once.
#ifndef LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
#define LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_

#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// The properties of a library that tests must know: choices that kernels/ops leaves to it, and how
// it runs.
struct LibraryTraits {
  // The bits that attention over bf16 keys and values keeps of queries and softmax weights, the
  // numbers that it multiplies with them (ops/attention/attention.h). 0: all of f32.
  struct KeptBits {
    int queries = 0;
    int weights = 0;
  };
  static constexpr int kBF16Bits = 8;
  KeptBits prefill_bits;
  KeptBits decode_bits;
  // In prefill rows it rounds queries times `scale`, not queries.
  bool rounds_scaled_queries = false;
  // The number of bits to which attention over int8 pages rounds weights; it then rounds queries to
  // 16 bits. 0: it rounds neither.
  int int8_weight_bits = 0;
  // The library truncates sums of products, as tensor cores do, instead of rounding them to
  // nearest.
  bool cuts_sums_off = false;
  // The library stores bf16 weights in 12 bits (ops/gemm/pack.h).
  bool compresses_bf16 = false;
  // The library checks descriptors before it computes anything, and refuses bad ones.
  bool checks_descriptors = true;
  // The library is a thousand times slower than others. For it, tests leave out cases that would
  // run the same code again.
  bool interpreted = false;
};

// The names of the libraries that can run here.
std::vector<std::string> NamesUnderTest();
// `name`: one of NamesUnderTest().
LibraryTraits TraitsUnderTest(const std::string& name);
const OpTable& OpsUnderTest(const std::string& name);
// The device that holds the memory of models. Tests of single ops do not need it: they use the
// host's memory, which a device can read (tests/gpu/managed_heap.h).
Device& DeviceUnderTest(const std::string& name);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_OPS_UNDER_TEST_H_
