// Quantises as many groups at once as a register has lanes. Each lane computes one group.
#ifndef LONGSTREAM_KERNELS_CORE_LANES_QUANTISE_LANES_H_
#define LONGSTREAM_KERNELS_CORE_LANES_QUANTISE_LANES_H_

#include <cstdint>

#include "kernels/core/lanes/simd_native.h"
#include "kernels/core/quantise.h"

namespace longstream::cpu::LONGSTREAM_ISA {

struct LaneGroups {
  F16 scales[kNativeLanes];
  NativeI32 values[kGroupInputs];
};

// Makes one group from the weights of each lane. Bit by bit it is the group that
// longstream::QuantiseGroup makes. If a group has fewer weights than kGroupInputs, the rest are
// zero.
void QuantiseLanes(DType type, const float (&weights)[kGroupInputs][kNativeLanes],
                   LaneGroups* groups);

// Does the work of longstream::QuantiseGroups with this instruction set.
void QuantiseGroups(DType type, const float* weights, int64_t count, WeightGroup* groups);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CORE_LANES_QUANTISE_LANES_H_
