// The second half of the experts of a mixture: each row's sum over its experts.
//
//   out[r, :] (+)= scale * sum_i weight[i] (hidden[i, :] W_down[e]^T)   over the routes i of row r
//
// The products of a row are added to `out` one after the other, in the order of experts. So a row
// has the same bits whichever other rows use its experts.
#ifndef LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_SUM_H_
#define LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_SUM_H_

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/experts/expert_hidden.h"
#include "kernels/ops/experts/routes.h"

namespace longstream {

// The op fails the stream with kUnsupported if the workspace is smaller than ExpertWorkspace().
struct ExpertSumArgs {
  Routes routes;
  const Expert* experts = nullptr;    // [N] host, as in ExpertHiddenArgs
  const std::byte* hidden = nullptr;  // written by expert_hidden with the same routes and experts
  float scale = 1.0f;
  bool accumulate = false;  // add to `out`
  Matrix out;               // [R, d] f32
};
using ExpertSumFunction = void (*)(Stream& stream, const ExpertSumArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_EXPERTS_EXPERT_SUM_H_
