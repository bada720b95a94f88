// Cosines and sines of rotary position embedding for the rows of a step (Su et al., RoFormer).
//
//   a(t) = position_scale * (positions[t] mod modulo) + position_offset
//   table[t, i]           = magnitude * cos(a(t) * inv_freq[i])
//   table[t, D / 2 + i]   = magnitude * sin(a(t) * inv_freq[i])        i = 0 ... D / 2 - 1
//
// If inv_freq of a pair is 0, the pair does not rotate (partial rotary embedding). The magnitude
// does not apply to it, so its entries are 1 and 0.
//
// The table is computed once per step for all layers of one kind. The kinds differ in
// position_scale, position_offset and modulo:
//   plain RoPE             scale 1,         offset 0
//   ReRoPE far query       scale 0,         offset w
//   Leaky far query        scale 1 / k,     offset w - w / k
//   Leaky main key         scale 1 / k,     offset 0
//   near key from main key scale 1 - 1 / k, offset 0        (ReRoPE: k infinite, so scale 1)
//   local position p mod C scale 1,         offset 0, modulo C
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_ROPE_TABLE_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_ROPE_TABLE_H_

#include <cstdint>

#include "kernels/core/stream.h"

namespace longstream {

struct RopeTableArgs {
  const int64_t* positions = nullptr;  // [T] device
  int64_t num_rows = 0;                // T
  const double* inv_freq = nullptr;    // [D / 2] device; angles are f64
  int32_t head_dim = 0;                // D, the rotated width of a head; even
  double position_scale = 1.0;
  double position_offset = 0.0;
  int64_t modulo = 0;      // 0: none
  float magnitude = 1.0f;  // the attention factor of YaRN and LongRoPE
  float* table = nullptr;  // [T, D] f32 out
};
using RopeTableFunction = void (*)(Stream& stream, const RopeTableArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_ROPE_TABLE_H_
