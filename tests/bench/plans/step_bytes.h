// The bytes that a step must read: the yardstick for steps that memory limits.
#ifndef LONGSTREAM_TESTS_BENCH_PLANS_STEP_BYTES_H_
#define LONGSTREAM_TESTS_BENCH_PLANS_STEP_BYTES_H_

#include <cstdint>

#include "backends/caches/cache_layout.h"
#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// Returns the bytes that `ops` read of the projections, head included. An embedding that is not the
// head is not counted, because a step reads only one row of it. Of a mixture of experts, the step
// reads as many as `rows` rows are expected to choose, if each expert is as likely as the others.
double StepWeightBytes(const ModelSpec& spec, const ModelWeights& weights, const OpTable& ops,
                       int64_t rows = 1);

// Bytes of caches that a decode step reads for a sequence of `context` tokens:
//   pages       every key and value (of ReRoPE the near ring is read instead of the pages' last
//               keys, which are as many bytes)
//   rings       min(context, window) keys and values
//   states      the state at the last grid line, and half of the rows between two grid lines
double DecodeCacheBytes(const CacheLayout& layout, int64_t context);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PLANS_STEP_BYTES_H_
