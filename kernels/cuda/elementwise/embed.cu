// Embedding lookup: a thread block computes a row. For each bf16 element it reads 2 bytes and
// writes 4.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/launch.cuh"
#include "kernels/cuda/primitives/overlap.cuh"
#include "kernels/cuda/primitives/row_reduce.cuh"
#include "kernels/ops/elementwise/embed.h"

namespace longstream::cuda {
namespace {

// The id of a row's token. If it is negative, the row is zeros.
__device__ __forceinline__ int64_t IdOf(const EmbedArgs& args, int64_t row) {
  const int64_t id = args.ids[row];
  return id < 0 ? args.sampled[~id] : id;
}

template <typename T>
__global__ void __launch_bounds__(kMaxRowThreads) EmbedKernel(EmbedArgs args) {
  BeginKernel();
  const int64_t row = blockIdx.x;
  const int64_t k = args.table.k;
  const int64_t id = IdOf(args, row);
  const T* from = static_cast<const T*>(args.table.data) +
                  max(id, int64_t{0}) * WeightStride(args.table.type, k);
  float* to = static_cast<float*>(args.out.data) + row * args.out.stride;
  ForRow(
      k, [&](int i) { return from[i]; },
      [&](int i, T element) { to[i] = id < 0 ? 0.0f : args.multiplier * Widen(element); });
}

__global__ void __launch_bounds__(kMaxRowThreads) EmbedGroupsKernel(EmbedArgs args) {
  BeginKernel();
  const int64_t row = blockIdx.x;
  const DType type = args.table.type;
  const int64_t stride = WeightStride(type, args.table.k);
  const int64_t id = IdOf(args, row);
  const int64_t table_row = max(id, int64_t{0});
  const auto* from =
      static_cast<const int8_t*>(args.table.data) + table_row * RowBytes(type, stride);
  const F16* scales =
      ScalesOf(args.table.data, type, args.table.n, stride) + table_row * (stride / kGroupInputs);
  float* to = static_cast<float*>(args.out.data) + row * args.out.stride;
  struct Element {
    F16 scale;
    int8_t byte;
  };
  ForRow(
      args.table.k,
      [&](int i) -> Element {
        return {scales[i / kGroupInputs], from[QuantisedByte(type, i)]};
      },
      [&](int i, const Element& element) {
        int value = element.byte;
        // An int4 is the high or the low half of a byte, including its sign.
        if (type == DType::kI4) value = static_cast<int8_t>(i % 8 < 4 ? value << 4 : value) >> 4;
        const float weight = Widen(element.scale) * static_cast<float>(value);
        to[i] = id < 0 ? 0.0f : args.multiplier * weight;
      });
}

}  // namespace

void Embed(Stream& stream, const EmbedArgs& args) {
  const LaunchShape shape = {static_cast<unsigned>(args.out.rows), RowThreads(args.table.k)};
  if (IsQuantised(args.table.type)) return Launch(stream, shape, EmbedGroupsKernel, args);
  ForType(args.table.type,
          [&](auto element) { Launch(stream, shape, EmbedKernel<decltype(element)>, args); });
}

}  // namespace longstream::cuda
