// Divides a number of things into the fewest parts of at most `most` each, of nearly equal size.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_

#include <cstdint>

#include "kernels/core/lanes/simd_native.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Only the constructor divides, because a tile takes a few hundred cycles and should not wait for a
// division. REQUIRES: most > 0
struct EqualParts {
  LONGSTREAM_INLINE EqualParts(int64_t size, int64_t most)
      : count((size + most - 1) / most),
        smaller(count > 0 ? size / count : 0),
        num_larger(size - smaller * count) {}

  LONGSTREAM_INLINE int64_t size(int64_t part) const {
    return smaller + (part < num_larger ? 1 : 0);
  }

  const int64_t count;
  const int64_t smaller;     // size of the smaller parts
  const int64_t num_larger;  // number of larger parts, which come first and have one more
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_
