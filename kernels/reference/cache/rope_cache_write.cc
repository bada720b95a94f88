// Reference norm, rotation and cache write (kernels/ops/cache/rope_cache_write.h).
#include "kernels/ops/cache/rope_cache_write.h"

#include <cmath>
#include <vector>

#include "kernels/reference/cache/cache_access.h"
#include "kernels/reference/cache/rotation.h"
#include "kernels/reference/reference_ops.h"

namespace longstream::reference {
namespace {

// Head `head` of row t of x, normalised; heads are `dim` wide.
std::vector<float> NormalisedHead(const Matrix& x, int64_t t, int64_t head, int64_t dim,
                                  const Norm& norm) {
  std::vector<float> y(static_cast<size_t>(dim));
  double squares = 0.0;
  for (int64_t i = 0; i < dim; ++i) {
    y[static_cast<size_t>(i)] = MatrixAt(x, t, head * dim + i);
    squares += static_cast<double>(y[static_cast<size_t>(i)]) * y[static_cast<size_t>(i)];
  }
  if (!norm.enabled()) return y;
  const double inverse_rms = 1.0 / std::sqrt(squares / static_cast<double>(dim) + norm.eps);
  for (int64_t i = 0; i < dim; ++i) {
    float& value = y[static_cast<size_t>(i)];
    value = static_cast<float>(value * inverse_rms * norm.weight[i]);
  }
  return y;
}

const float* RopeRow(const float* table, int64_t t, int64_t dim) {
  return table == nullptr ? nullptr : table + t * dim;
}

void SetHead(const Matrix& out, int64_t t, int64_t head, const std::vector<float>& values) {
  const int64_t dim = static_cast<int64_t>(values.size());
  for (int64_t i = 0; i < dim; ++i) {
    SetMatrix(out, t, head * dim + i, values[static_cast<size_t>(i)]);
  }
}

void WriteQueries(const RopeCacheWriteArgs& args, int64_t t) {
  const float scale = args.q_scale == nullptr ? 1.0f : args.q_scale[t];
  for (int64_t h = 0; h < args.num_heads; ++h) {
    const std::vector<float> q = NormalisedHead(args.q, t, h, args.head_dim, args.q_norm);
    const auto write = [&](const float* table, const Matrix& out) {
      std::vector<float> rotated = Rotated(q, RopeRow(table, t, args.head_dim));
      for (float& value : rotated) value *= scale;
      SetHead(out, t, h, rotated);
    };
    write(args.rope_q, args.q_out);
    if (args.q_far_out.data != nullptr) write(args.rope_q_far, args.q_far_out);
  }
}

// Writes row t's key or value of one of `num_heads` heads: to the pages at `store` or, if there are
// no pages, to `rows`. Returns the numbers after rounding.
std::vector<float> Write(const RopeCacheWriteArgs& args, void* store, int64_t num_heads,
                         const Matrix& rows, int64_t t, int64_t head, std::vector<float> x) {
  if (args.paged.keys == nullptr) {
    SetHead(rows, t, head, x);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = MatrixAt(rows, t, head * static_cast<int64_t>(x.size()) + static_cast<int64_t>(i));
    }
    return x;
  }
  const int32_t* pages = PagesOf(args.batch, SequenceOf(args.batch, t));
  const PagedRow row =
      PagedRowOf(args.paged, store, num_heads, pages, head, args.batch.positions[t]);
  SetPagedRow(row, x.data());
  for (size_t i = 0; i < x.size(); ++i) x[i] = PagedElement(row, static_cast<int64_t>(i));
  return x;
}

void WriteKeysAndValues(const RopeCacheWriteArgs& args, int64_t t) {
  for (int64_t h = 0; h < args.num_kv_heads; ++h) {
    const std::vector<float> k =
        Write(args, args.paged.keys, args.num_kv_heads, args.k_out, t, h,
              Rotated(NormalisedHead(args.k, t, h, args.head_dim, args.k_norm),
                      RopeRow(args.rope_k, t, args.head_dim)));
    if (args.near_out.data != nullptr) {
      SetHead(args.near_out, t, h, Rotated(k, RopeRow(args.rope_near, t, args.head_dim)));
    }
  }
  if (args.paged.keys == nullptr && args.v_out.data == nullptr) return;
  // In pages each slice of a value is a head.
  const int64_t width = args.paged.keys == nullptr ? args.value_dim : args.head_dim;
  const int64_t num_value_heads = args.num_kv_heads * args.value_dim / width;
  for (int64_t h = 0; h < num_value_heads; ++h) {
    Write(args, args.paged.values, num_value_heads, args.v_out, t, h,
          NormalisedHead(args.v, t, h, width, {}));
  }
}

}  // namespace

void RopeCacheWrite(Stream& stream, const RopeCacheWriteArgs& args) {
  if (!stream.ok()) return;
  for (int64_t t = 0; t < args.batch.num_rows; ++t) {
    WriteQueries(args, t);
    WriteKeysAndValues(args, t);
  }
}

}  // namespace longstream::reference
