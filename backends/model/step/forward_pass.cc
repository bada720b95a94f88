// The operations that all layers of a forward pass use.
#include "backends/model/step/forward_pass.h"

namespace longstream {

void ForwardPass::NormResidual(const NormWeights& norm) {
  if (norm.weight == nullptr) return;
  const Matrix x = Residual();
  ops.norm_rows(stream, {.in = x, .norm = StreamNorm(norm), .out = x});
}

//   x = x + residual_multiplier * (W in + bias), or, with a norm after the branch,
//   x = x + residual_multiplier * PostNorm(W in + bias)
void ForwardPass::AddBranch(const LinearInput& in, const float* bias,
                            const NormWeights& post_norm) {
  const Matrix x = Residual();
  if (post_norm.weight == nullptr) {
    ops.linear(stream, {.in = in,
                        .bias = bias,
                        .scale = spec.residual_multiplier,
                        .accumulate = true,
                        .num_decode_rows = num_decode_rows,
                        .out = x});
    return;
  }
  const Matrix branch = buffers.Branch(num_rows);
  ops.linear(stream, {.in = in, .bias = bias, .num_decode_rows = num_decode_rows, .out = branch});
  ops.norm_rows(stream, {.in = branch,
                         .norm = StreamNorm(post_norm),
                         .scale = spec.residual_multiplier,
                         .accumulate = true,
                         .out = x});
}

void ForwardPass::KeepLogitRows(std::initializer_list<Matrix> matrices) {
  if (num_rows == logit_rows.num_rows) return;  // all rows need logits, or the others are gone
  const auto gather = [&](const Matrix& x) {
    ops.gather_rows(stream, {.x = x, .rows = logit_rows.rows, .num_rows = logit_rows.num_rows});
  };
  if (logit_rows.num_rows > 0) {
    gather(Residual());
    for (const Matrix& matrix : matrices) {
      if (matrix.data != nullptr) gather(matrix);
    }
  }
  num_rows = logit_rows.num_rows;
  num_decode_rows = logit_rows.num_decode_rows;
}

}  // namespace longstream
