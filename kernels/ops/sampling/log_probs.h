// Log-probabilities of given tokens and of the most probable ones: the log-softmax of the raw
// logits.
#ifndef LONGSTREAM_KERNELS_OPS_SAMPLING_LOG_PROBS_H_
#define LONGSTREAM_KERNELS_OPS_SAMPLING_LOG_PROBS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

struct TopToken {
  int32_t token = 0;
  float log_prob = 0.0f;
};

// The request for one row. The target is *sampled if `sampled` is set, else `target`. A negative
// target means that there is none; its log_probs is NaN. A row that holds a NaN or +infinity, or
// only -infinity, gives NaN and tokens -1. If fewer than num_top logits are above -infinity, the
// rest of the row's top is {-1, -infinity}.
struct LogProbsRow {
  int32_t row = 0;  // row of logits
  int32_t target = -1;
  int32_t num_top = 0;               // <= top_stride
  const int32_t* sampled = nullptr;  // device: the token that an earlier sampling op draws
};

struct LogProbsArgs {
  Matrix logits;                      // [R, vocabulary] f32; not modified
  const LogProbsRow* rows = nullptr;  // [num_rows] device
  int32_t num_rows = 0;
  float* log_probs = nullptr;  // [num_rows] out
  TopToken* top = nullptr;     // [num_rows, top_stride] out, falling; of equals the lower id first
  int32_t top_stride = 0;
};
using LogProbsFunction = void (*)(Stream& stream, const LogProbsArgs& args);

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_OPS_SAMPLING_LOG_PROBS_H_
