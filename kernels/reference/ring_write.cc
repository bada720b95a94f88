// Reference ring write. See kernels/ops/ring_write.h.
#include "kernels/ops/ring_write.h"

#include "kernels/reference/cache_access.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void RingWrite(Stream& stream, const RingWriteArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  // In the order of positions, so that of a piece longer than the ring the last rows stay.
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    const int64_t offset = SequenceOf(args.batch, t).slot * ring.slot_stride;
    for (int64_t h = 0; h < ring.num_kv_heads; ++h) {
      const int64_t index = RingIndex(ring, h, args.batch.positions[t]);
      for (int64_t d = 0; d < ring.head_dim; ++d) {
        const int64_t column = h * ring.head_dim + d;
        SetElement(ring.keys + offset, ring.type, index + d, MatrixAt(args.k, t, column));
        if (ring.values == nullptr) continue;
        SetElement(ring.values + offset, ring.type, index + d, MatrixAt(args.v, t, column));
      }
    }
  }
}

}  // namespace longstream::reference
