// Conversion of stored elements that a kernel library's packing does not do itself.
#include "backends/common/weights/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace longstream {
namespace {

float From(float value) { return value; }
float From(F16 value) { return ToF32(value); }
float From(BF16 value) { return ToF32(value); }

void To(float value, float* out) { *out = value; }
void To(float value, F16* out) { *out = ToF16(value); }
void To(float value, BF16* out) { *out = ToBF16(value); }

template <typename S, typename D>
int64_t ConvertAll(const std::byte* source, int64_t count, D* destination) {
  int64_t lost = -1;
  for (int64_t i = 0; i < count; ++i) {
    S element;
    std::memcpy(&element, source + i * static_cast<int64_t>(sizeof(S)), sizeof(S));
    const float value = From(element);
    To(value, &destination[i]);
    if (lost < 0 && std::isfinite(value) && !std::isfinite(From(destination[i]))) lost = i;
  }
  return lost;
}

template <typename D>
int64_t ConvertTo(const std::byte* source, DType source_type, int64_t count, void* destination) {
  D* out = static_cast<D*>(destination);
  switch (source_type) {
    case DType::kF32:
      return ConvertAll<float>(source, count, out);
    case DType::kF16:
      return ConvertAll<F16>(source, count, out);
    case DType::kBF16:
      return ConvertAll<BF16>(source, count, out);
  }
  return -1;
}

}  // namespace

F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // at least halfway from 65504 to the 65536 that does not exist
  } else if (magnitude < 0x38800000u) {
    // Subnormal, in units of 2^-24: adding 0.5, whose last bit is 2^-24, rounds to them.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    const uint32_t rounding = 0xfffu + ((magnitude >> 13) & 1u);
    half = (magnitude - 0x38000000u + rounding) >> 13;
  }
  return F16{static_cast<uint16_t>(sign | half)};
}

int64_t Convert(const std::byte* source, DType source_type, int64_t count, DType type,
                void* destination) {
  switch (type) {
    case DType::kF32:
      return ConvertTo<float>(source, source_type, count, destination);
    case DType::kF16:
      return ConvertTo<F16>(source, source_type, count, destination);
    case DType::kBF16:
      return ConvertTo<BF16>(source, source_type, count, destination);
  }
  return -1;
}

}  // namespace longstream
