// The sums of products with int8 and int4 weights, for GemvMmaKernel. An mma of 16 outputs, 32
// inputs and 8 tokens is one group. Its int32 sums are then multiplied with both scales.
//
// Lane 4 g + t holds inputs 8 t ... 8 t + 7 of a group, of weight rows g and g + 8 and of token g
// (weight.cuh). The inputs are in another order than mma's, but in the same order on both sides. An
// int4 is used as the high half of a byte, which multiplies it by 16. That takes one operation, or
// two for the low halves.
//
//   Besides its mma a group costs a lane 12 operations at 8 tokens: conversion, product of the
//   scales, and multiply-add of 4 sums. An H200 streams 19 bytes per SM and cycle: a group of 16
//   outputs in int8 (544 bytes) in 29 cycles, in int4 (288 bytes) in 15. In that time an SM issues
//   116 and 60 warp instructions; about 25 are needed at up to 8 tokens. At 64 tokens 130 are
//   needed, so the operations are the limit, not the bytes: 4096 x 8 products in 33 cycles.
#ifndef LONGSTREAM_KERNELS_CUDA_GEMM_GROUP_SUMS_CUH_
#define LONGSTREAM_KERNELS_CUDA_GEMM_GROUP_SUMS_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/gemm/product.cuh"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/cuda/primitives/mma.cuh"

namespace longstream::cuda {

// A lane's part of four groups of a weight row.
template <DType kType>
struct WeightGroups {
  static constexpr int kLoads = kType == DType::kI8 ? 2 : 1;
  uint32_t words[4 * kLoads];
  uint32_t scale_pairs[kStepGroups / 2];  // f16, which takes half the registers of f32

  // `bytes` and `from` point to the bytes and the scales of this lane's groups. If the row does not
  // exist, all become zeros.
  __device__ __forceinline__ void Load(const std::byte* bytes, const F16* from, bool is_row) {
    uint4 loaded[kLoads] = {};
    uint2 halves = {0, 0};
    if (is_row) {
#pragma unroll
      for (int i = 0; i < kLoads; ++i) loaded[i] = LoadOnce(bytes + 64 * i);
      halves = *reinterpret_cast<const uint2*>(from);
    }
    memcpy(words, loaded, sizeof(words));
    memcpy(scale_pairs, &halves, sizeof(scale_pairs));
  }

  __device__ __forceinline__ float Scale(int group) const {
    return Widen(F16{static_cast<uint16_t>(scale_pairs[group / 2] >> (group % 2 * 16))});
  }

  // Returns four of the lane's inputs of a group, from number 4 half on, each in a byte. An int4 is
  // in the high half of its byte.
  __device__ __forceinline__ uint32_t Inputs(int group, int half) const {
    if constexpr (kType == DType::kI8) return words[2 * group + half];
    return (half == 0 ? words[group] << 4 : words[group]) & 0xf0f0f0f0u;
  }
};

// Reads 16 bytes of a row. The asm keeps a load from global memory in its place: if the compiler
// moved it before other products, registers would not suffice.
template <bool kInShared>
__device__ __forceinline__ uint4 LoadRow(const void* from) {
  if constexpr (kInShared) return *static_cast<const uint4*>(from);
#ifdef __CUDA_ARCH__
  uint4 words;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
#else
  return *static_cast<const uint4*>(from);
#endif
}

// A lane's part of four groups of 8 tokens: the bytes of token g, and the scales of tokens 2 t and
// 2 t + 1, whose sums the lane has.
struct TokenGroups {
  uint32_t words[2 * kStepGroups];
  float scales[2][kStepGroups];

  // `bytes` and `from` are the lane's place in the product's first row and in that row's scales.
  // `offset` is the number of bytes from there to the first of the 8 tokens. The product has `left`
  // tokens from that one on.
  template <bool kInShared>
  __device__ __forceinline__ void Load(const int8_t* bytes, const float* from, int offset,
                                       int stride, int left) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int g = lane / 4, t = lane % 4;
    uint4 loaded[2] = {};
    if (g < left) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        loaded[i] = LoadRow<kInShared>(bytes + (offset + g * stride + 64 * i));
      }
    }
    memcpy(words, loaded, sizeof(words));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
      if (2 * t + i < left) {
        four = *reinterpret_cast<const float4*>(from + (offset + (2 * t + i) * stride) /
                                                           static_cast<int>(kGroupInputs));
      }
      memcpy(scales[i], &four, sizeof(four));
    }
  }
};

// sums += the sums of four groups, for 16 outputs and 8 tokens, in the order of mma's D.
template <DType kType>
__device__ __forceinline__ void AddGroups(const WeightGroups<kType>& upper,
                                          const WeightGroups<kType>& lower,
                                          const TokenGroups& tokens, float (&sums)[4]) {
  // If mma adds an integer to these bits, the result read as a float is that integer plus
  // 1.5 * 2^23.
  constexpr int32_t kMagic = 0x4b400000;
  constexpr float kMagicFloat = 0x1.8p23f;
#pragma unroll
  for (int group = 0; group < kStepGroups; ++group) {
    int32_t dots[4] = {kMagic, kMagic, kMagic, kMagic};
    MultiplyAdd(dots,
                {upper.Inputs(group, 0), lower.Inputs(group, 0), upper.Inputs(group, 1),
                 lower.Inputs(group, 1)},
                {tokens.words[2 * group], tokens.words[2 * group + 1]});
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float scale = (i < 2 ? upper : lower).Scale(group) * tokens.scales[i % 2][group];
      sums[i] = __fmaf_rn(__int_as_float(dots[i]) - kMagicFloat, scale, sums[i]);
    }
  }
}

// Computes a warp's sums over the inputs [begin, end), for 16 outputs and num_rows tokens. The
// outputs begin at first_output, the tokens at first_row; `begin` and `end` are multiples of 128.
// sums[w][tile] is what mma calls D: the sums with weight w of the tile's 8 tokens. kInShared: the
// rows are in shared memory.
template <DType kType, bool kInShared, int kWeights, int kTiles>
__device__ __forceinline__ void SumGroups(const ProductOperands<kWeights>& in, int64_t first_output,
                                          int64_t first_row, int num_rows, int begin, int end,
                                          float (&sums)[kWeights][kTiles][4]) {
  // Steps whose weights are loaded before the first one is used. Registers limit their number.
  constexpr int kLoads = kType == DType::kI8 ? 2 : 4;
  constexpr int kSteps = kTiles == 1 ? kLoads / kWeights : 1;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int g = lane / 4, t = lane % 4;
  const int stride = static_cast<int>(in.stride);
  const int groups = stride / static_cast<int>(kGroupInputs);
  const int row_bytes = static_cast<int>(RowBytes(kType, in.stride));
  const int64_t output = first_output + g;
  const auto* rows = static_cast<const int8_t*>(in.rows) + first_row * in.stride + 16 * t;
  const float* row_scales = in.scales + first_row * groups;
  for (int k = begin; k < end; k += kSteps * kStepOfGroups) {
    WeightGroups<kType> upper[kSteps][kWeights], lower[kSteps][kWeights];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = k + s * kStepOfGroups;
#pragma unroll
      for (int w = 0; w < kWeights; ++w) {
        const auto* bytes = static_cast<const std::byte*>(in.weights[w]) + output * row_bytes +
                            RowBytes(kType, i) + 16 * t;
        const F16* scales = ScalesOf(in.weights[w], kType, in.n, in.stride) + output * groups +
                            i / static_cast<int>(kGroupInputs);
        upper[s][w].Load(bytes, scales, i < end && output < in.n);
        lower[s][w].Load(bytes + 8 * row_bytes, scales + 8 * groups, i < end && output + 8 < in.n);
      }
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = k + s * kStepOfGroups;
      if (i >= end) break;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int first = kTokenTile * tile;
        if (first >= num_rows) break;
        TokenGroups tokens;
        tokens.Load<kInShared>(rows, row_scales, first * stride + i, stride, num_rows - first);
#pragma unroll
        for (int w = 0; w < kWeights; ++w) {
          AddGroups<kType>(upper[s][w], lower[s][w], tokens, sums[w][tile]);
        }
      }
    }
  }
  if constexpr (kType == DType::kI4) {
#pragma unroll
    for (auto& of_weight : sums) {
#pragma unroll
      for (auto& of_tile : of_weight) {
#pragma unroll
        for (float& sum : of_tile) sum *= 1.0f / 16;
      }
    }
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_GEMM_GROUP_SUMS_CUH_
