// Truncation of a distribution before sampling: top-k and top-p by selection, without a sort.
#ifndef LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_
#define LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_

#include <cstdint>

#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// The tokens still in play and their logits (no NaN, no -0), in rising order of ids.
struct Candidates {
  float* z = nullptr;      // [count]
  int32_t* ids = nullptr;  // [count]; not yet written while `all`
  int64_t count = 0;
  bool all = true;  // the whole vocabulary: id i at index i

  LONGSTREAM_INLINE int32_t id(int64_t i) const { return all ? static_cast<int32_t>(i) : ids[i]; }
};

// Keeps the k largest, ties at the border by lowest id; banned tokens (-inf) may go before that.
void KeepTopK(Candidates& candidates, int64_t k);

// Keeps the shortest prefix, in falling order and ties by lowest id, whose share of the probability
// of all candidates is at least p. `largest` is the largest z.
void KeepTopP(Candidates& candidates, float p, float largest);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SAMPLING_SAMPLE_SELECT_H_
