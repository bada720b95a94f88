// Rebuilds a near ring (kernels/ops/cache/ring_rebuild.h).
#include "kernels/ops/cache/ring_rebuild.h"

#include <type_traits>

#include "kernels/cpu/attention/head_rows.h"
#include "kernels/cpu/cache/rotation.h"
#include "kernels/cpu/isa_ops.h"
#include "kernels/cpu/simd/int8_rows.h"
#include "kernels/ops/attention/attention.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// T is the type of the pages, Near the type of the ring.
template <typename T, typename Near>
void RebuildHead(const RingRebuildArgs& args, int64_t head) {
  const RingCache& ring = args.ring;
  const int64_t dim = ring.head_dim;
  BatchLayout batch;
  batch.page_tables = args.page_table;
  const HeadRows keys = RowStore::Keys(args.cache).Head(batch, {}, head);
  Near* near_keys = reinterpret_cast<Near*>(ring.keys + args.slot * ring.slot_stride);
  for (int64_t j = args.begin; j < args.end; ++j) {
    const RowRun run = keys.From(j);
    const T* main_key = reinterpret_cast<const T*>(run.data);
    Near* near_key = near_keys + (head * ring.slots + j % ring.slots) * dim;
    HeadTransform rotation;
    rotation.rope = args.rope + (j - args.begin) * dim;
    if constexpr (std::is_same_v<T, int8_t>) {
      alignas(64) float row[kMaxHeadDim];
      LoadInt8Row(main_key, *run.scales, dim, row);
      TransformHead(rotation, dim, row, near_key);
    } else {
      TransformHead(rotation, dim, main_key, near_key);
    }
  }
}

}  // namespace

void RingRebuild(Stream& stream, const RingRebuildArgs& args) {
  if (!stream.ok()) return;
  const DType near_type = args.cache.type == DType::kI8 ? DType::kBF16 : args.cache.type;
  if (args.ring.type != near_type || args.ring.head_dim > kMaxHeadDim) {
    stream.Fail(OpStatus::kUnsupported);
    return;
  }
  ParallelFor(stream.executor, static_cast<uint32_t>(args.ring.num_kv_heads), [&](uint32_t head) {
    ForPageType(args.cache.type, [&](auto element) {
      using T = decltype(element);
      using Near = std::conditional_t<std::is_same_v<T, int8_t>, BF16, T>;
      RebuildHead<T, Near>(args, head);
    });
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
