// Moves some rows of a matrix to its front, in place. Later ops then compute only these rows.
//
//   x[i, :] = x[rows[i], :]
#ifndef LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_
#define LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_

#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct GatherRowsArgs {
  Matrix x;                       // [T, n] f32; rows from R on keep their values
  const int32_t* rows = nullptr;  // [R] device, rising
  int64_t num_rows = 0;           // R
};
using GatherRowsFunction = void (*)(Stream& stream, const GatherRowsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_ELEMENTWISE_GATHER_ROWS_H_
