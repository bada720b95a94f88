// Some rows of a matrix brought to its front, in place: those that what follows goes on with.
//
//   x[i, :] = x[rows[i], :]
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct GatherRowsArgs {
  Matrix x;                       // [T, n] f32; rows from R on stay as they are
  const int32_t* rows = nullptr;  // [R] device, each above the one before
  int64_t num_rows = 0;           // R
};
using GatherRowsFunction = void (*)(Stream& stream, const GatherRowsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_
