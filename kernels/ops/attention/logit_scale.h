// Position-dependent scale of attention logits, applied to the query.
//
//   out[t] = max(floor, ln(max(positions[t] + offset, minimum)) / ln(base))
//
//   log n, always       offset 1, minimum 16, base N, floor 0     (n = position + 1 visible keys)
//   log n, extrapolate  offset 1, minimum 1,  base N, floor 1
//   HypeNet "hype a"    offset a, minimum 1,  base a, floor 0
#ifndef LONGSTREAM_KERNELS_OPS_ATTENTION_LOGIT_SCALE_H_
#define LONGSTREAM_KERNELS_OPS_ATTENTION_LOGIT_SCALE_H_

#include <cstdint>

#include "kernels/core/stream.h"

namespace longstream {

struct LogitScaleArgs {
  const int64_t* positions = nullptr;  // [T] device
  int64_t num_rows = 0;                // T
  double offset = 1.0;
  double minimum = 1.0;
  double base = 2.0;  // REQUIRES: > 1
  double floor = 0.0;
  float* out = nullptr;  // [T] f32
};
using LogitScaleFunction = void (*)(Stream& stream, const LogitScaleArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ATTENTION_LOGIT_SCALE_H_
