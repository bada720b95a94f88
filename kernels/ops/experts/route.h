// Chooses the experts of each row from the logits of a router (Shazeer et al. 2017, Fedus et al.
// 2021), and groups the rows by expert.
//
//   s[r, e] = logits[r, e], or sigmoid(logits[r, e]) + choice_bias[e]
//   C[r]    = the k experts with the largest s[r, e]; of equal ones, the experts with lower indices
//   p[r, e] = exp(logits[r, e]) / sum_f exp(logits[r, f]), over all experts f, or over C[r] with
//             `normalise`; or
//   p[r, e] = sigmoid(logits[r, e]), with `normalise` divided by their sum over C[r] + 1e-20
//   weight of expert e in row r = scale * p[r, e]
//
// A shared expert has the index E in every row, and the weight 1 or sigmoid(logits[r, E]). If a
// logit of a row is NaN, all weights of the row's other experts are NaN.
#ifndef LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTE_H_
#define LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"
#include "kernels/ops/experts/routes.h"

namespace longstream {

// The numbers are part of a model's fingerprint (backends/runtime/model_description.cc).
enum class RouterScore {
  kSoftmax,
  kSigmoid,
};

// The numbers are part of a model's fingerprint.
enum class SharedExpert {
  kNone,
  kPlain,  // its weight is 1
  kGated,  // its weight is the sigmoid of the last logit
};

// Bytes of workspace for R rows with k chosen experts each.
constexpr size_t RouteWorkspace(int64_t rows, int64_t num_chosen) {
  return static_cast<size_t>(rows) * static_cast<size_t>(num_chosen) *
         (sizeof(int32_t) + sizeof(float));
}

// The op fails the stream with kUnsupported if the workspace is too small.
struct RouteArgs {
  Matrix logits;           // [R, E] f32; [R, E + 1] with SharedExpert::kGated
  int64_t num_chosen = 0;  // k, from 1 to E
  RouterScore score = RouterScore::kSoftmax;
  const float* choice_bias = nullptr;  // [E] device, with kSigmoid only; nullptr: zeros
  bool normalise = false;
  float scale = 1.0f;
  SharedExpert shared = SharedExpert::kNone;
  Routes routes;  // written; R rows, E experts and the shared one, k and one per row
};
using RouteFunction = void (*)(Stream& stream, const RouteArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_EXPERTS_ROUTE_H_
