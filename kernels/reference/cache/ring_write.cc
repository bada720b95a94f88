// Reference ring write (kernels/ops/cache/ring_write.h).
#include "kernels/ops/cache/ring_write.h"

#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void RingWrite(Stream& stream, const RingWriteArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  // Writes in the order of positions, so that the last rows stay if a piece is longer than the
  // ring.
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    const int64_t offset = SequenceOf(args.batch, t).slot * ring.slot_stride;
    const auto write = [&](std::byte* store, const Matrix& rows, int64_t num_heads) {
      for (int64_t h = 0; h < num_heads; ++h) {
        const int64_t index = RingIndex(ring, h, args.batch.positions[t]);
        for (int64_t d = 0; d < ring.head_dim; ++d) {
          SetElement(store + offset, ring.type, index + d,
                     MatrixAt(rows, t, h * ring.head_dim + d));
        }
      }
    };
    write(ring.keys, args.k, ring.num_kv_heads);
    if (ring.values != nullptr) write(ring.values, args.v, ring.num_value_heads());
  }
}

}  // namespace longstream::reference
