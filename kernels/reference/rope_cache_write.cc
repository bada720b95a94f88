// Reference norm, rotation and cache write. See kernels/ops/rope_cache_write.h.
#include "kernels/ops/rope_cache_write.h"

#include <cmath>
#include <vector>

#include "kernels/reference/cache_access.h"
#include "kernels/reference/reference_ops.h"
#include "kernels/reference/rotation.h"

namespace longstream::reference {
namespace {

// Head `head` of row t of x, `dim` wide, normalised.
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

// The destination of row t's keys (or values) of one head: an array and its first index in it.
struct Destination {
  void* data;
  DType type;
  int64_t index;
};

Destination DestinationOf(const RopeCacheWriteArgs& args, void* store, const Matrix& rows,
                          int64_t t, int64_t head, int64_t dim) {
  if (args.paged.keys == nullptr) return {rows.data, rows.type, t * rows.stride + head * dim};
  const int32_t* pages = PagesOf(args.batch, SequenceOf(args.batch, t));
  return {store, args.paged.type, PagedIndex(args.paged, pages, head, args.batch.positions[t])};
}

void WriteKeysAndValues(const RopeCacheWriteArgs& args, int64_t t) {
  for (int64_t h = 0; h < args.num_kv_heads; ++h) {
    const std::vector<float> k = Rotated(NormalisedHead(args.k, t, h, args.head_dim, args.k_norm),
                                         RopeRow(args.rope_k, t, args.head_dim));
    const Destination keys = DestinationOf(args, args.paged.keys, args.k_out, t, h, args.head_dim);
    std::vector<float> rounded(k.size());
    for (int64_t i = 0; i < args.head_dim; ++i) {
      SetElement(keys.data, keys.type, keys.index + i, k[static_cast<size_t>(i)]);
      rounded[static_cast<size_t>(i)] = ElementAt(keys.data, keys.type, keys.index + i);
    }
    if (args.near_out.data != nullptr) {
      SetHead(args.near_out, t, h, Rotated(rounded, RopeRow(args.rope_near, t, args.head_dim)));
    }
    const Destination values =
        DestinationOf(args, args.paged.values, args.v_out, t, h, args.value_dim);
    if (values.data == nullptr) continue;
    for (int64_t i = 0; i < args.value_dim; ++i) {
      SetElement(values.data, values.type, values.index + i,
                 MatrixAt(args.v, t, h * args.value_dim + i));
    }
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
