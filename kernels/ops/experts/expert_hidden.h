// The first half of the experts of a mixture: for each route, that is for each row and each of its
// experts e, the hidden row of the expert's MLP.
//
//   h[r, :]      = Norm(x[r, :])
//   hidden[i, :] = act(h[r, :] W_gate[e]^T) * (h[r, :] W_up[e]^T)       route i of row r, expert e
//
// A product has the bits that the op `linear` gives the row, whichever other rows use the expert.
// An expert's weights are read once for all rows that use it. REQUIRES: the library's `linear`
// gives decode rows and prefill rows the same bits.
#ifndef LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_HIDDEN_H_
#define LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_HIDDEN_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/ops/experts/routes.h"
#include "kernels/ops/gemm/activation.h"
#include "kernels/ops/gemm/linear.h"

namespace longstream {

// Bytes of the hidden rows of R rows, each of which uses `per_row` experts with ff hidden numbers.
// Experts of different widths: the sum over the widths.
constexpr size_t ExpertHiddenBytes(int64_t rows, int64_t per_row, int64_t ff) {
  return PreparedBytes(rows * per_row, ff);
}

// Bytes of workspace for R rows of d inputs, which have K routes each, and N experts.
constexpr size_t ExpertWorkspace(int64_t rows, int64_t per_row, int64_t num_experts, int64_t d) {
  return LinearWorkspace(rows, d) + PreparedBytes(rows * per_row, d) +
         static_cast<size_t>(num_experts) * 64;
}

// The op fails the stream with kUnsupported if the workspace is smaller than ExpertWorkspace().
struct ExpertHiddenArgs {
  LinearRows in;                    // [R, d]
  Routes routes;                    // of R rows
  const Expert* experts = nullptr;  // [N] host. REQUIRES: all `gate` and `up` have one type
  Activation activation = Activation::kSilu;
  // Written, in the form that `expert_sum` of the same library reads. The rows of expert e begin
  // after PreparedBytes(1, experts[f].down.k) bytes for each route of each earlier expert f. If
  // the type of its `down` is f32, they are f32 without gaps. 64-byte aligned.
  std::byte* hidden = nullptr;
};
using ExpertHiddenFunction = void (*)(Stream& stream, const ExpertHiddenArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_HIDDEN_H_
