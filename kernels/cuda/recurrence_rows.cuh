// The rows of a block of the linear recurrence, wherever they are: those of earlier steps in the
// cache, those of this step in its matrices.
#ifndef LONGSTREAM_KERNELS_CUDA_RECURRENCE_ROWS_CUH_
#define LONGSTREAM_KERNELS_CUDA_RECURRENCE_ROWS_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "kernels/ops/linear_recurrence.h"

namespace longstream::cuda {

// ln sigmoid(x), exact near 0 and for large |x|.
__device__ __forceinline__ float LogSigmoid(float x) {
  return fminf(x, 0.0f) - log1pf(expf(-fabsf(x)));
}

// Rows of one sequence, seen by one head.
class RecurrenceRows {
 public:
  __device__ RecurrenceRows(const LinearRecurrenceArgs& args, const SequenceRows& sequence,
                            int64_t head)
      : args_(args),
        sequence_(sequence),
        head_(head),
        kv_head_(head / (args.cache.num_heads / args.cache.num_kv_heads)),
        offset_(sequence.slot * args.cache.slot_stride) {}

  // [Dk] and [Dv] at `position`, which is not before the last grid line before the step.
  __device__ const float* Key(int64_t position) const {
    const RecurrentCache& cache = args_.cache;
    return Row(args_.k, cache.keys, position, cache.num_kv_heads, kv_head_, cache.key_dim);
  }
  __device__ const float* Value(int64_t position) const {
    const RecurrentCache& cache = args_.cache;
    return Row(args_.v, cache.values, position, cache.num_kv_heads, kv_head_, cache.value_dim);
  }

  __device__ bool gated() const { return args_.log_decay == nullptr; }
  // ln f of all elements at all positions, where not gated.
  __device__ float FixedLogDecay() const { return args_.log_decay[head_]; }
  // ln f of key element i at `position`, where gated.
  __device__ float LogGate(int64_t position, int64_t i) const {
    const RecurrentCache& cache = args_.cache;
    const float* row =
        Row(args_.gate, cache.gates, position, cache.num_heads, head_, cache.key_dim);
    return position < sequence_.first_position ? row[i] : LogSigmoid(row[i]);
  }

  // [Dk, Dv]
  __device__ float* State() const {
    const RecurrentCache& cache = args_.cache;
    return reinterpret_cast<float*>(cache.state + offset_) +
           head_ * cache.key_dim * cache.value_dim;
  }

 private:
  __device__ const float* Row(const Matrix& step, const std::byte* store, int64_t position,
                              int64_t heads, int64_t head, int64_t dim) const {
    if (position < sequence_.first_position) {
      return reinterpret_cast<const float*>(store + offset_) +
             (position % args_.cache.grid * heads + head) * dim;
    }
    const int64_t t = sequence_.first_row + (position - sequence_.first_position);
    return static_cast<const float*>(step.data) + t * step.stride + head * dim;
  }

  const LinearRecurrenceArgs& args_;
  const SequenceRows& sequence_;
  const int64_t head_;
  const int64_t kv_head_;
  const int64_t offset_;  // of the sequence's memory
};

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_RECURRENCE_ROWS_CUH_
