// Reference attention over pages. See kernels/ops/attention/paged_attention.h.
#include "kernels/ops/attention/paged_attention.h"

#include "kernels/reference/attention/attention.h"
#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {

void PagedAttention(Stream& stream, const PagedAttentionArgs& args) {
  if (!stream.ok()) return;
  const PagedCache& cache = args.cache;
  const int64_t dim = cache.head_dim, slices = cache.value_slices;
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    const int32_t* pages = PagesOf(args.batch, SequenceOf(args.batch, t));
    for (int64_t h = 0; h < args.num_heads; ++h) {
      const int64_t kv_head = h / (args.num_heads / cache.num_kv_heads);
      const float* q = args.q.f32_row(t) + h * dim;
      const double slope = args.alibi_slopes == nullptr ? 0.0 : args.alibi_slopes[h];
      const auto score = [&](int64_t j) {
        return Capped(args.scale * Dot(q, PagedKey(cache, pages, kv_head, j), dim), args.softcap) -
               slope * static_cast<double>(args.batch.positions[t] - j);
      };
      const auto value = [&](int64_t i, int64_t j) {
        return PagedValue(cache, pages, kv_head * slices + i, j);
      };
      SoftmaxSum(0, args.batch.positions[t], slices, dim, score, value,
                 args.out.f32_row(t) + h * slices * dim);
    }
  }
}

}  // namespace longstream::reference
