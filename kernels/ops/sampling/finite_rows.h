// Tells which rows hold only finite numbers. If a row of logits does not, the step has failed.
//
//   finite[r] = 1 if no values[r, c] is NaN or infinite, else 0
#ifndef LONGSTREAM_KERNELS_OPS_SAMPLING_FINITE_ROWS_H_
#define LONGSTREAM_KERNELS_OPS_SAMPLING_FINITE_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct FiniteRowsArgs {
  Matrix values;              // [R, n] f32; not modified
  int32_t* finite = nullptr;  // [R] out
};
using FiniteRowsFunction = void (*)(Stream& stream, const FiniteRowsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_SAMPLING_FINITE_ROWS_H_
