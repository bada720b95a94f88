// Rebuild of a near ring. See kernels/ops/ring_rebuild.h.
#include "kernels/ops/ring_rebuild.h"

#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/rotation.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

template <typename T>
void RebuildHead(const RingRebuildArgs& args, int64_t head) {
  const PagedCache& cache = args.cache;
  const RingCache& ring = args.ring;
  const int64_t dim = ring.head_dim;
  const T* keys = static_cast<const T*>(cache.keys);
  T* near_keys = reinterpret_cast<T*>(ring.keys + args.slot * ring.slot_stride);
  for (int64_t j = args.begin; j < args.end; ++j) {
    const int64_t page = args.page_table[j / cache.page_tokens];
    const int64_t row =
        (page * cache.num_kv_heads + head) * cache.page_tokens + j % cache.page_tokens;
    HeadTransform rotation;
    rotation.rope = args.rope + (j - args.begin) * dim;
    TransformHead(rotation, dim, keys + row * dim,
                  near_keys + (head * ring.slots + j % ring.slots) * dim);
  }
}

}  // namespace

void RingRebuild(Stream& stream, const RingRebuildArgs& args) {
  if (!stream.ok()) return;
  ParallelFor(stream.executor, static_cast<uint32_t>(args.ring.num_kv_heads), [&](uint32_t head) {
    ForType(args.ring.type, [&](auto element) { RebuildHead<decltype(element)>(args, head); });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
