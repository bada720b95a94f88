// A number of things in as few parts as there can be of at most so many, of nearly equal size.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_

#include <cstdint>

#include "kernels/core/lanes/simd_native.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Two divisions; a tile takes a few hundred cycles and should not wait for any. REQUIRES: most > 0
struct EqualParts {
  LONGSTREAM_INLINE EqualParts(int64_t size, int64_t most)
      : count((size + most - 1) / most),
        smaller(count > 0 ? size / count : 0),
        num_larger(size - smaller * count) {}

  LONGSTREAM_INLINE int64_t size(int64_t part) const {
    return smaller + (part < num_larger ? 1 : 0);
  }

  const int64_t count;
  const int64_t smaller;     // size of the smaller ones
  const int64_t num_larger;  // of the first ones, which have one more
};

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_EQUAL_PARTS_H_
