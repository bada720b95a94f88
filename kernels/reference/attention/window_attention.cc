// Reference attention over a window. See kernels/ops/attention/window_attention.h.
#include "kernels/ops/attention/window_attention.h"

#include <algorithm>

#include "kernels/reference/attention/attention.h"
#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void WindowAttention(Stream& stream, const WindowAttentionArgs& args) {
  if (!stream.ok()) return;
  const RingCache& ring = args.ring;
  const int64_t dim = ring.head_dim, slices = ring.value_slices;
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    const SequenceRows& sequence = SequenceOf(args.batch, t);
    // The key or value of position j: in the ring, or in a row of this step.
    const auto element_row = [&](const std::byte* store, const Matrix& rows, int64_t head,
                                 int64_t j) {
      if (j >= sequence.first_position) {
        const int64_t row = sequence.first_row + (j - sequence.first_position);
        return ElementRow{rows.data, rows.type, row * rows.stride + head * dim};
      }
      return ElementRow{store + sequence.slot * ring.slot_stride, ring.type,
                        RingIndex(ring, head, j)};
    };
    const int64_t last = args.batch.positions[t];
    const int64_t first = std::max<int64_t>(0, last - args.window + 1);
    for (int64_t h = 0; h < args.num_heads; ++h) {
      const int64_t kv_head = h / (args.num_heads / ring.num_kv_heads);
      const float* q = args.q.f32_row(t) + h * dim;
      const auto score = [&](int64_t j) {
        return Capped(args.scale * Dot(q, element_row(ring.keys, args.k, kv_head, j), dim),
                      args.softcap);
      };
      const auto value = [&](int64_t i, int64_t j) {
        return element_row(ring.values, args.v, kv_head * slices + i, j);
      };
      SoftmaxSum(first, last, slices, dim, score, value, args.out.f32_row(t) + h * slices * dim);
    }
  }
}

}  // namespace longstream::reference
