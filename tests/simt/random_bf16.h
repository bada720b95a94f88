// Random matrices for tests of the kernels' products.
#ifndef LONGSTREAM_TESTS_SIMT_RANDOM_BF16_H_
#define LONGSTREAM_TESTS_SIMT_RANDOM_BF16_H_

#include <cstddef>
#include <random>
#include <vector>

#include "kernels/core/dtype.h"

namespace longstream {

// Normal numbers; the same count gives the same numbers.
inline std::vector<BF16> RandomBF16(int count) {
  std::mt19937 engine(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<BF16> values(static_cast<size_t>(count));
  for (BF16& value : values) value = ToBF16(normal(engine));
  return values;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SIMT_RANDOM_BF16_H_
