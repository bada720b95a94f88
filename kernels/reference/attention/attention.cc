// Reference attention over each view of keys (kernels/ops/attention/attention.h).
#include "kernels/ops/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/sampling/soft_cap.h"

namespace longstream::reference {
namespace {

// out[i * head_dim + d] = sum_j softmax_j(score(j)) value(i, j)[d],
//                         begin <= j <= end, 0 <= i < slices, 0 <= d < head_dim
template <typename Score, typename Value>
void SoftmaxSum(int64_t begin, int64_t end, int64_t slices, int64_t head_dim, const Score& score,
                const Value& value, float* out) {
  std::vector<double> scores;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = begin; j <= end; ++j) {
    scores.push_back(score(j));
    largest = std::fmax(largest, scores.back());
  }
  double sum = 0.0;
  std::vector<double> weighted(static_cast<size_t>(slices * head_dim), 0.0);
  for (int64_t j = begin; j <= end; ++j) {
    const double weight = std::exp(scores[static_cast<size_t>(j - begin)] - largest);
    sum += weight;
    for (int64_t i = 0; i < slices; ++i) {
      const auto row = value(i, j);
      for (int64_t d = 0; d < head_dim; ++d) {
        weighted[static_cast<size_t>(i * head_dim + d)] += weight * At(row, d);
      }
    }
  }
  for (int64_t d = 0; d < slices * head_dim; ++d) {
    out[d] = static_cast<float>(weighted[static_cast<size_t>(d)] / sum);
  }
}

// Computes the op's equation for row t. `cache` gives the shape of the values. product(h, kv_head,
// j) is the dot product of the query and K_j, and value(head, j) is a slice of V_j.
template <typename Cache, typename Product, typename Value>
void AttendRow(const AttentionArgs& args, const Cache& cache, int64_t t, const Product& product,
               const Value& value) {
  const int64_t dim = cache.head_dim, slices = cache.value_slices;
  const int64_t p = args.batch.positions[t];
  const int64_t first = args.window > 0 ? std::max<int64_t>(0, p - args.window + 1) : 0;
  for (int64_t h = 0; h < args.num_heads; ++h) {
    const int64_t kv_head = h / (args.num_heads / cache.num_kv_heads);
    const double slope = args.alibi_slopes == nullptr ? 0.0 : args.alibi_slopes[h];
    const auto score = [&](int64_t j) {
      return Capped(args.scale * product(h, kv_head, j), args.softcap) -
             slope * static_cast<double>(p - j);
    };
    const auto slice = [&](int64_t i, int64_t j) { return value(kv_head * slices + i, j); };
    SoftmaxSum(first, p, slices, dim, score, slice, args.out.f32_row(t) + h * slices * dim);
  }
}

// The dot product of a key with head h of row t of q.
template <typename Row>
double Dot(const Matrix& q, int64_t t, int64_t h, int64_t head_dim, const Row& key) {
  const float* head = q.f32_row(t) + h * head_dim;
  double sum = 0.0;
  for (int64_t d = 0; d < head_dim; ++d) sum += head[d] * At(key, d);
  return sum;
}

// The key or value of position j. The rows of positions of this step are in `rows`. Earlier
// positions are in `store`, the ring's keys or values.
ElementRow RingRow(const RingCache& ring, const std::byte* store, const Matrix& rows,
                   const SequenceRows& sequence, int64_t head, int64_t j) {
  if (j >= sequence.first_position) {
    const int64_t row = sequence.first_row + (j - sequence.first_position);
    return {rows.data, rows.type, row * rows.stride + head * ring.head_dim};
  }
  return {store + sequence.slot * ring.slot_stride, ring.type, RingIndex(ring, head, j)};
}

void AttendOver(const PagedKeys& keys, const AttentionArgs& args, int64_t t) {
  const PagedCache& cache = keys.cache;
  const int32_t* pages = PagesOf(args.batch, SequenceOf(args.batch, t));
  AttendRow(
      args, cache, t,
      [&](int64_t h, int64_t kv_head, int64_t j) {
        return Dot(args.q, t, h, cache.head_dim, PagedKey(cache, pages, kv_head, j));
      },
      [&](int64_t head, int64_t j) { return PagedValue(cache, pages, head, j); });
}

void AttendOver(const RingKeys& keys, const AttentionArgs& args, int64_t t) {
  const RingCache& ring = keys.ring;
  const SequenceRows& sequence = SequenceOf(args.batch, t);
  AttendRow(
      args, ring, t,
      [&](int64_t h, int64_t kv_head, int64_t j) {
        const ElementRow key = RingRow(ring, ring.keys, keys.k, sequence, kv_head, j);
        return Dot(args.q, t, h, ring.head_dim, key);
      },
      [&](int64_t head, int64_t j) {
        return RingRow(ring, ring.values, keys.v, sequence, head, j);
      });
}

void AttendOver(const FarNearKeys& keys, const AttentionArgs& args, int64_t t) {
  const PagedCache& far = keys.far;
  const RingCache& near = keys.near;
  const SequenceRows& sequence = SequenceOf(args.batch, t);
  const int32_t* pages = PagesOf(args.batch, sequence);
  AttendRow(
      args, far, t,
      [&](int64_t h, int64_t kv_head, int64_t j) {
        if (args.batch.positions[t] - j >= keys.near_window) {
          return Dot(keys.q_far, t, h, far.head_dim, PagedKey(far, pages, kv_head, j));
        }
        const ElementRow key = RingRow(near, near.keys, keys.near_rows, sequence, kv_head, j);
        return Dot(args.q, t, h, near.head_dim, key);
      },
      [&](int64_t head, int64_t j) { return PagedValue(far, pages, head, j); });
}

}  // namespace

void Attend(Stream& stream, const AttentionArgs& args) {
  if (!stream.ok()) return;
  if (!ServesCombination(args)) return stream.Fail(OpStatus::kUnsupported);
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    std::visit([&](const auto& keys) { AttendOver(keys, args, t); }, args.keys);
  }
}

}  // namespace longstream::reference
