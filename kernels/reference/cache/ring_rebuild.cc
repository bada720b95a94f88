// Reference rebuild of a near ring (kernels/ops/cache/ring_rebuild.h).
#include "kernels/ops/cache/ring_rebuild.h"

#include <vector>

#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/cache/rotation.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void RingRebuild(Stream& stream, const RingRebuildArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  std::byte* keys = ring.keys + args.slot * ring.slot_stride;
  for (int64_t j = args.begin; j < args.end; ++j) {
    for (int64_t h = 0; h < ring.num_kv_heads; ++h) {
      const PagedRow main_row = PagedKey(args.cache, args.page_table, h, j);
      std::vector<float> main_key(static_cast<size_t>(ring.head_dim));
      for (int64_t d = 0; d < ring.head_dim; ++d) {
        main_key[static_cast<size_t>(d)] = PagedElement(main_row, d);
      }
      const std::vector<float> near_key =
          Rotated(main_key, args.rope + (j - args.begin) * ring.head_dim);
      const int64_t ring_index = RingIndex(ring, h, j);
      for (int64_t d = 0; d < ring.head_dim; ++d) {
        SetElement(keys, ring.type, ring_index + d, near_key[static_cast<size_t>(d)]);
      }
    }
  }
}

}  // namespace longstream::reference
