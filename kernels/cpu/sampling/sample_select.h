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

// Keeps the k largest; of equal ones the lowest ids. Banned tokens (-inf) may be dropped first.
void KeepTopK(Candidates& candidates, int64_t k);

// Keeps the shortest prefix whose share of the probability of all candidates is at least p, in
// falling order of z; of equal ones the lowest ids come first. `largest` is the largest z.
void KeepTopP(Candidates& candidates, float p, float largest);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_
