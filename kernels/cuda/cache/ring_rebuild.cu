// Rebuilds a near ring from pages: a thread block computes a position.
#include "kernels/cuda/cache/cache_access.cuh"
#include "kernels/cuda/cache/rotation.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/ops/cache/ring_rebuild.h"

namespace longstream::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) RingRebuildKernel(RingRebuildArgs args) {
  BeginKernel();
  const int64_t position = args.begin + blockIdx.x;
  const RingCache& ring = args.ring;
  const int64_t half = ring.head_dim / 2;
  const float* rope = args.rope + int64_t{blockIdx.x} * ring.head_dim;
  const T* main_keys = static_cast<const T*>(args.cache.keys);
  T* keys = RingOf<T>(ring, ring.keys, args.slot);
  for (int64_t index = threadIdx.x; index < ring.num_kv_heads * half; index += kThreads) {
    const int64_t head = index / half;
    const int64_t i = index % half;
    const int64_t from =
        PagedIndex(args.cache, args.cache.num_kv_heads, args.page_table, head, position) + i;
    const int64_t to = RingIndex(ring, head, position) + i;
    const Pair near =
        Rotate({Widen(main_keys[from]), Widen(main_keys[from + half])}, rope, half, i);
    keys[to] = RoundTo<T>(near.first);
    keys[to + half] = RoundTo<T>(near.second);
  }
}

}  // namespace

void RingRebuild(Stream& stream, const RingRebuildArgs& args) {
  const LaunchShape shape = {static_cast<unsigned>(args.end - args.begin), kThreads};
  ForType(args.ring.type,
          [&](auto element) { Launch(stream, shape, RingRebuildKernel<decltype(element)>, args); });
}

}  // namespace longstream::cuda
