// Reference attention with clipped or slowed distances. See
// kernels/ops/attention/rerope_attention.h.
#include "kernels/ops/attention/rerope_attention.h"

#include "kernels/reference/attention/attention.h"
#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void ReropeAttention(Stream& stream, const ReropeAttentionArgs& args) {
  if (!stream.ok()) return;
  const PagedCache& cache = args.cache;
  const int64_t dim = cache.head_dim, slices = cache.value_slices;
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    const SequenceRows& sequence = SequenceOf(args.batch, t);
    const int32_t* pages = PagesOf(args.batch, sequence);
    const std::byte* ring = args.near.keys + sequence.slot * args.near.slot_stride;
    const int64_t p = args.batch.positions[t];
    // The near key of position j: in the ring, or in a row of this step.
    const auto near_key = [&](int64_t head, int64_t j) {
      if (j >= sequence.first_position) {
        const int64_t row = sequence.first_row + (j - sequence.first_position);
        return ElementRow{args.near_rows.data, args.near_rows.type,
                          row * args.near_rows.stride + head * dim};
      }
      return ElementRow{ring, args.near.type, RingIndex(args.near, head, j)};
    };
    for (int64_t h = 0; h < args.num_heads; ++h) {
      const int64_t kv_head = h / (args.num_heads / cache.num_kv_heads);
      const float* q_near = args.q.f32_row(t) + h * dim;
      const float* q_far = args.q_far.f32_row(t) + h * dim;
      const auto score = [&](int64_t j) {
        const bool near = p - j < args.window;
        const double dot = near ? Dot(q_near, near_key(kv_head, j), dim)
                                : Dot(q_far, PagedKey(cache, pages, kv_head, j), dim);
        return Capped(args.scale * dot, args.softcap);
      };
      const auto value = [&](int64_t i, int64_t j) {
        return PagedValue(cache, pages, kv_head * slices + i, j);
      };
      SoftmaxSum(0, p, slices, dim, score, value, args.out.f32_row(t) + h * slices * dim);
    }
  }
}

}  // namespace longstream::reference
