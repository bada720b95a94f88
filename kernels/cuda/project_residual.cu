// Project and add to the residual stream. See kernels/ops/project_residual.h.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/linear_projection.h"
#include "kernels/cuda/prepared_rows.h"
#include "kernels/ops/project_residual.h"

namespace longstream::cuda {

void ProjectResidual(Stream& stream, const ProjectResidualArgs& args) {
  const PreparedRows rows = PrepareRows(stream,
                                        {.x = args.in,
                                         .num_rows = args.x.rows,
                                         .rows = nullptr,
                                         .norm = args.norm,
                                         .addend = {},
                                         .addend_rows = nullptr,
                                         .gate = args.gate,
                                         .silu_gate = args.silu_gate},
                                        args.weight);
  if (!stream.ok()) return;
  LinearProjection(stream, {.rows = rows,
                            .num_decode_rows = args.num_decode_rows,
                            .weight = args.weight,
                            .bias = args.bias,
                            .scale = args.scale,
                            .accumulate = true,
                            .y = args.x});
}

}  // namespace longstream::cuda
