// Truncation of a distribution before sampling: top-k and top-p by selection, without a sort.
#ifndef LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_
#define LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_

#include <cstdint>

#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The tokens that may still be drawn, and their logits (no NaN, no -0), in rising order of ids.
struct Candidates {
  float* z = nullptr;      // [count]
  int32_t* ids = nullptr;  // [count]; not written while `all`
  int64_t count = 0;
  bool all = true;  // the whole vocabulary: id i at index i

  LONGSTREAM_INLINE int32_t id(int64_t i) const { return all ? static_cast<int32_t>(i) : ids[i]; }
};

// Keeps the k candidates with the largest logits; of equal ones, those with the lowest ids. May
// drop banned tokens (-inf) even if fewer than k are left.
void KeepTopK(Candidates& candidates, int64_t k);

// Puts the candidates in falling order of z, equal ones in rising order of ids, and keeps the
// shortest prefix whose share of the probability is at least p. `largest` is the largest z.
void KeepTopP(Candidates& candidates, float p, float largest);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_
