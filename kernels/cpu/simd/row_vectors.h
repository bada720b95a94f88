// Goes through a row of any length in vectors of 16. The last vector may be partial.
#ifndef LONGSTREAM_KERNELS_CPU_SIMD_ROW_VECTORS_H_
#define LONGSTREAM_KERNELS_CPU_SIMD_ROW_VECTORS_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cpu/simd/simd.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// Read and write 16 elements of a row (Whole), or the last few of it (Part).
struct Whole {
  template <typename T>
  LONGSTREAM_INLINE F32x16 Read(const T* from) const {
    return Load(from);
  }
  template <typename T>
  LONGSTREAM_INLINE void Write(const F32x16& value, T* to) const {
    Store(value, to);
  }
};
struct Part {
  int64_t count;  // lanes beyond `count` read as zero and are not written
  template <typename T>
  LONGSTREAM_INLINE F32x16 Read(const T* from) const {
    return LoadPartial(from, count);
  }
  template <typename T>
  LONGSTREAM_INLINE void Write(const F32x16& value, T* to) const {
    StorePartial(value, to, count);
  }
};

// Calls body(i, access) for the vectors [i, i + 16) of a row of n elements; access is Whole or
// Part.
template <typename Body>
LONGSTREAM_INLINE void ForEachRowVector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, Whole{});
  if (i < n) body(i, Part{n - i});
}

// Calls body with a value of the element type that `type` names. REQUIRES: !IsQuantised(type)
template <typename Body>
LONGSTREAM_INLINE void ForType(DType type, const Body& body) {
  switch (type) {
    case DType::kF32:
      return body(float{});
    case DType::kF16:
      return body(F16{});
    case DType::kBF16:
      return body(BF16{});
    case DType::kI8:
    case DType::kI4:
      return;
  }
}

// Calls body with a value of the element type of pages of `type`, which is int8_t for kI8.
// REQUIRES: type != kI4
template <typename Body>
LONGSTREAM_INLINE void ForPageType(DType type, const Body& body) {
  if (type == DType::kI8) return body(int8_t{});
  ForType(type, body);
}

// 1 / sqrt(mean(x^2) + eps) over n elements.
LONGSTREAM_INLINE float InverseRms(const float* x, int64_t n, float eps) {
  F32x16 squares = Zero();
  ForEachRowVector(n, [&](int64_t i, const auto& access) LONGSTREAM_INLINE_LAMBDA {
    const F32x16 v = access.Read(x + i);
    squares = Fma(v, v, squares);
  });
  return 1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(n) + eps);
}

// mean(x) over n elements.
LONGSTREAM_INLINE float Mean(const float* x, int64_t n) {
  F32x16 sum = Zero();
  ForEachRowVector(n, [&](int64_t i, const auto& access)
                          LONGSTREAM_INLINE_LAMBDA { sum = sum + access.Read(x + i); });
  return Sum(sum) / static_cast<float>(n);
}

// 1 / sqrt(mean((x - mean)^2) + eps) over n elements.
LONGSTREAM_INLINE float InverseDeviation(const float* x, int64_t n, float mean, float eps) {
  const F32x16 centre = Broadcast(mean);
  F32x16 squares = Zero();
  const auto add = [&](const float* from) LONGSTREAM_INLINE_LAMBDA {
    const F32x16 v = Load(from) - centre;
    squares = Fma(v, v, squares);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) add(x + i);
  if (i < n) {
    alignas(64) float last[kLanes];  // the last elements, followed by the mean, which deviates by 0
    for (int64_t lane = 0; lane < kLanes; ++lane) last[lane] = i + lane < n ? x[i + lane] : mean;
    add(last);
  }
  return 1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(n) + eps);
}

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_SIMD_ROW_VECTORS_H_
