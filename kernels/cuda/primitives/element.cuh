// Elements of caches, weights and activations on the device, and the choice of a kernel by type.
#ifndef LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ELEMENT_CUH_
#define LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ELEMENT_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"

namespace longstream::cuda {

// Rounds to nearest, ties to even, as kernels/core/dtype.h does. On a device this is one
// instruction.
template <typename T>
__device__ __forceinline__ T RoundTo(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, BF16>) {
#ifdef __CUDA_ARCH__
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return BF16{bits};
#else
    return ToBF16(value);
#endif
  } else {
#ifdef __CUDA_ARCH__
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return F16{bits};
#else
    return ToF16(value);
#endif
  }
}

// The value as f32, which is exact.
template <typename T>
__device__ __forceinline__ float Widen(T value) {
  if constexpr (std::is_same_v<T, F16>) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
#else
    return ToF32(value);
#endif
  } else {
    return ToF32(value);
  }
}

// Two bf16 in a register, the first in the low half, as mma takes them.
__device__ __forceinline__ uint32_t PackBF16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return static_cast<uint32_t>(ToBF16(low).bits) | (static_cast<uint32_t>(ToBF16(high).bits) << 16);
#endif
}
__device__ __forceinline__ float LowBF16(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float HighBF16(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

// Calls call(T{}) with the element type that `type` names. REQUIRES: !IsQuantised(type)
template <typename Call>
void ForType(DType type, const Call& call) {
  switch (type) {
    case DType::kF32:
      return call(float{});
    case DType::kF16:
      return call(F16{});
    case DType::kBF16:
      return call(BF16{});
    case DType::kI8:
    case DType::kI4:
      return;
  }
}

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_PRIMITIVES_ELEMENT_CUH_
