// Normalise and project. See kernels/ops/gemm/norm_project.h.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/linear_projection.h"
#include "kernels/ops/gemm/norm_project.h"

namespace longstream::cuda {

void NormProject(Stream& stream, const NormProjectArgs& args) {
  LinearProjection(stream, {.source = {.x = args.x,
                                       .num_rows = args.out.rows,
                                       .norm = args.norm,
                                       .addend = args.addend,
                                       .addend_rows = args.addend_rows,
                                       .gate = args.gate},
                            .num_decode_rows = args.num_decode_rows,
                            .weight = args.weight,
                            .bias = args.bias,
                            .scale = args.scale,
                            .accumulate = false,
                            .y = args.out});
}

}  // namespace longstream::cuda
