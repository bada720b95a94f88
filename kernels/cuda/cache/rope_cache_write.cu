// Norm, rotation and cache write: a warp computes a head of a row, queries first, then keys with
// values. A lane reads and writes the same pairs of elements, so outputs may be the inputs.
#include "kernels/cuda/cache/cache_access.cuh"
#include "kernels/cuda/cache/rotation.cuh"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/warp.cuh"
#include "kernels/ops/cache/rope_cache_write.h"

namespace longstream::cuda {
namespace {

constexpr int kWarps = 4;

// Normalises element i of a head: multiplies it by 1 / rms and the weight, or leaves it as it is.
struct HeadNorm {
  const float* weight;
  float inverse_rms;

  __device__ float operator()(float x, int i) const {
    return weight == nullptr ? x : x * inverse_rms * weight[i];
  }
};

__device__ HeadNorm NormOf(const float* x, int dim, const Norm& norm) {
  if (norm.weight == nullptr) return {nullptr, 1.0f};
  float squares = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < dim; i += kWarp) squares += x[i] * x[i];
  return {norm.weight, rsqrtf(WarpSum(squares) / static_cast<float>(dim) + norm.eps)};
}

// Calls write(i, j, pair) for each two normalised elements i and j that rotate together. If nothing
// rotates the width may be odd; the last element then comes alone, as (i, i).
template <typename Write>
__device__ void ForEachPair(const float* x, int dim, const Norm& norm, const Write& write) {
  const HeadNorm normalise = NormOf(x, dim, norm);
  const int half = dim / 2;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += kWarp) {
    write(i, i + half, Pair{normalise(x[i], i), normalise(x[i + half], i + half)});
  }
  if (dim % 2 != 0 && threadIdx.x == 0) {
    const float last = normalise(x[dim - 1], dim - 1);
    write(dim - 1, dim - 1, Pair{last, last});
  }
}

__device__ const float* RopeRow(const float* table, int64_t t, int64_t dim) {
  return table == nullptr ? nullptr : table + t * dim;
}

__device__ float* RowOf(const Matrix& matrix, int64_t t, int64_t first) {
  return static_cast<float*>(matrix.data) + t * matrix.stride + first;
}

__device__ void WriteQuery(const RopeCacheWriteArgs& args, int64_t t, int64_t head) {
  const int dim = args.head_dim, half = dim / 2;
  const float scale = args.q_scale == nullptr ? 1.0f : args.q_scale[t];
  const float* rope = RopeRow(args.rope_q, t, dim);
  const float* rope_far = RopeRow(args.rope_q_far, t, dim);
  float* out = RowOf(args.q_out, t, head * dim);
  float* far_out = args.q_far_out.data == nullptr ? nullptr : RowOf(args.q_far_out, t, head * dim);
  const float* q = RowOf(args.q, t, head * dim);
  ForEachPair(q, dim, args.q_norm, [&](int i, int j, const Pair& x) {
    const Pair near = Rotate(x, rope, half, i);
    const Pair far = Rotate(x, rope_far, half, i);
    out[i] = near.first * scale;
    out[j] = near.second * scale;
    if (far_out == nullptr) return;
    far_out[i] = far.first * scale;
    far_out[j] = far.second * scale;
  });
}

template <typename T>
__device__ void WriteKeyAndValue(const RopeCacheWriteArgs& args, int64_t t, int64_t head) {
  const int dim = args.head_dim, half = dim / 2;
  const bool paged = args.paged.keys != nullptr;
  T* key_out;
  T* value_out;
  if (paged) {
    const int32_t* pages = PagesOf(args.batch, SequenceOf(args.batch, t));
    const auto index = [&](int64_t num_heads, int64_t of) {
      return PagedIndex(args.paged, num_heads, pages, of, args.batch.positions[t]);
    };
    key_out = static_cast<T*>(args.paged.keys) + index(args.num_kv_heads, head);
    value_out = static_cast<T*>(args.paged.values) +
                index(args.paged.num_value_heads(), head * args.paged.value_slices);
  } else {
    key_out = static_cast<T*>(args.k_out.data) + t * args.k_out.stride + head * dim;
    value_out = args.v_out.data == nullptr ? nullptr
                                           : static_cast<T*>(args.v_out.data) +
                                                 t * args.v_out.stride + head * args.value_dim;
  }
  const float* rope = RopeRow(args.rope_k, t, dim);
  const float* rope_near = RopeRow(args.rope_near, t, dim);
  T* near_out = args.near_out.data == nullptr
                    ? nullptr
                    : static_cast<T*>(args.near_out.data) + t * args.near_out.stride + head * dim;
  const float* k = RowOf(args.k, t, head * dim);
  ForEachPair(k, dim, args.k_norm, [&](int i, int j, const Pair& x) {
    const Pair key = Rotate(x, rope, half, i);
    const T first = RoundTo<T>(key.first), second = RoundTo<T>(key.second);
    key_out[i] = first;
    key_out[j] = second;
    if (near_out == nullptr) return;
    const Pair near = Rotate({Widen(first), Widen(second)}, rope_near, half, i);
    near_out[i] = RoundTo<T>(near.first);
    near_out[j] = RoundTo<T>(near.second);
  });
  if (value_out == nullptr) return;
  const float* v = RowOf(args.v, t, head * args.value_dim);
  // In pages each slice of a value is a head.
  const int64_t width = paged ? dim : args.value_dim;
  const int64_t stride = paged ? int64_t{args.paged.page_tokens} * dim : 0;
  for (int64_t first = 0; first < args.value_dim; first += width, value_out += stride) {
    for (int64_t i = threadIdx.x; i < width; i += kWarp) value_out[i] = RoundTo<T>(v[first + i]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarp* kWarps) RopeCacheWriteKernel(RopeCacheWriteArgs args) {
  BeginKernel();
  const int64_t head = int64_t{blockIdx.y} * kWarps + threadIdx.y;
  if (head < args.num_heads) {
    WriteQuery(args, blockIdx.x, head);
  } else if (head < args.num_heads + args.num_kv_heads) {
    WriteKeyAndValue<T>(args, blockIdx.x, head - args.num_heads);
  }
}

}  // namespace

void RopeCacheWrite(Stream& stream, const RopeCacheWriteArgs& args) {
  const unsigned groups = CeilDiv(int64_t{args.num_heads} + args.num_kv_heads, kWarps);
  const LaunchShape shape = {{static_cast<unsigned>(args.batch.num_rows), groups}, {kWarp, kWarps}};
  const DType type = args.paged.keys != nullptr ? args.paged.type : args.k_out.type;
  ForType(type, [&](auto element) {
    Launch(stream, shape, RopeCacheWriteKernel<decltype(element)>, args);
  });
}

}  // namespace longstream::cuda
