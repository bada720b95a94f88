// Project and add to the residual stream. See kernels/ops/gemm/project_residual.h.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/linear_projection.h"
#include "kernels/ops/gemm/project_residual.h"

namespace longstream::cuda {

void ProjectResidual(Stream& stream, const ProjectResidualArgs& args) {
  LinearProjection(stream, {.source = {.x = args.in,
                                       .num_rows = args.x.rows,
                                       .norm = args.norm,
                                       .addend = {},
                                       .addend_rows = nullptr,
                                       .gate = args.gate,
                                       .silu_gate = args.silu_gate},
                            .num_decode_rows = args.num_decode_rows,
                            .weight = args.weight,
                            .bias = args.bias,
                            .scale = args.scale,
                            .accumulate = true,
                            .y = args.x});
}

}  // namespace longstream::cuda
