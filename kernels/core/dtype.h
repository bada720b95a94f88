// Element types of weights, activations and caches, and their conversions on the host.
#ifndef LONGSTREAM_KERNELS_CORE_DTYPE_H_
#define LONGSTREAM_KERNELS_CORE_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace longstream {

// kI8 and kI4 are types of packed weights, whose elements are in groups (quantise.h). kI8 is also a
// type of pages, with one scale per row (batch_layout.h). No other memory has these two types.
enum class DType : uint8_t { kF32, kF16, kBF16, kI8, kI4 };

constexpr bool IsQuantised(DType type) { return type == DType::kI8 || type == DType::kI4; }

// Bytes of one element; the scale of kI8 does not count. REQUIRES: type != kI4.
constexpr size_t SizeOf(DType type) { return type == DType::kF32 ? 4 : type == DType::kI8 ? 1 : 2; }

constexpr const char* NameOf(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI8:
      return "int8";
    case DType::kI4:
      return "int4";
  }
  return "?";
}

// The 16-bit types hold bit patterns; arithmetic is in f32.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

constexpr float ToF32(float value) { return value; }

constexpr float ToF32(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Converts IEEE binary16 to binary32, including subnormals and NaN payloads.
constexpr float ToF32(F16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13));
  // A shift of exponent and fraction by 13 bits leaves the exponent 112 too small. Multiplying by
  // 2^112 corrects that and normalises subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

// Rounds to nearest, ties to even; NaN stays NaN.
constexpr BF16 ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return BF16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  }
  const uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return BF16{static_cast<uint16_t>((bits + rounding) >> 16)};
}

// Rounds to nearest, ties to even. Magnitudes from 65520 on become infinity; NaN stays NaN.
constexpr F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t rounded;
  if (magnitude > 0x7f800000u) {
    rounded = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520
    rounded = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Magnitudes below 2^-14 are rounded to multiples of 2^-24. Adding 0.5 does that, because 2^-24
    // is the last place of a float in [0.5, 1).
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    rounded = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return F16{static_cast<uint16_t>(sign | rounded)};
}

}  // namespace longstream

#endif  // LONGSTREAM_KERNELS_CORE_DTYPE_H_
