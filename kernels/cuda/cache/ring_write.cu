// Ring write: a thread block copies the heads' keys and values of a row to the row's slot.
#include "kernels/cuda/cache/cache_access.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/cache/ring_write.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) RingWriteKernel(RingWriteArgs args) {
  BeginKernel();
  const int64_t t = blockIdx.x;
  const SequenceRows& sequence = SequenceOf(args.batch, t);
  const int64_t position = args.batch.positions[t];
  const RingCache& ring = args.ring;
  // Skips the row if a later row of the piece goes to the same slot.
  if (position + ring.slots < sequence.first_position + sequence.num_rows) return;
  T* keys = RingOf<T>(ring, ring.keys, sequence.slot);
  T* values = ring.values == nullptr ? nullptr : RingOf<T>(ring, ring.values, sequence.slot);
  const auto write = [&](T* store, const Matrix& rows, int64_t num_heads) {
    const T* from = static_cast<const T*>(rows.data) + t * rows.stride;
    const int width = static_cast<int>(num_heads) * ring.head_dim;
    for (int i = static_cast<int>(threadIdx.x); i < width; i += kThreads) {
      store[RingIndex(ring, i / ring.head_dim, position) + i % ring.head_dim] = from[i];
    }
  };
  write(keys, args.k, ring.num_kv_heads);
  if (values != nullptr) write(values, args.v, ring.num_value_heads());
}

}  // namespace

void RingWrite(Stream& stream, const RingWriteArgs& args) {
  const LaunchShape shape = {static_cast<unsigned>(args.batch.num_rows), kThreads};
  ForType(args.ring.type,
          [&](auto element) { Launch(stream, shape, RingWriteKernel<decltype(element)>, args); });
}

}  // namespace longstream::cuda
