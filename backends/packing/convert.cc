// Conversion of stored elements that a kernel library's packing does not do itself.
#include "backends/packing/convert.h"

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

template <typename S>
float ElementAt(const std::byte* source, int64_t index) {
  S element;
  std::memcpy(&element, source + index * static_cast<int64_t>(sizeof(S)), sizeof(S));
  return From(element);
}

template <typename S>
int64_t FirstLargerThan(const std::byte* source, int64_t count, float largest) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = ElementAt<S>(source, i);
    if (std::isfinite(value) && std::fabs(value) > largest) return i;
  }
  return -1;
}

template <typename S, typename D>
int64_t ConvertAll(const std::byte* source, int64_t count, D* destination) {
  int64_t lost = -1;
  for (int64_t i = 0; i < count; ++i) {
    const float value = ElementAt<S>(source, i);
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
    case DType::kI8:
    case DType::kI4:
      break;
  }
  return -1;
}

}  // namespace

int64_t Convert(const std::byte* source, DType source_type, int64_t count, DType type,
                void* destination) {
  switch (type) {
    case DType::kF32:
      return ConvertTo<float>(source, source_type, count, destination);
    case DType::kF16:
      return ConvertTo<F16>(source, source_type, count, destination);
    case DType::kBF16:
      return ConvertTo<BF16>(source, source_type, count, destination);
    case DType::kI8:
    case DType::kI4:
      break;
  }
  return -1;
}

int64_t FirstBeyond(const std::byte* source, DType source_type, int64_t count, float largest) {
  switch (source_type) {
    case DType::kF32:
      return FirstLargerThan<float>(source, count, largest);
    case DType::kF16:
      return FirstLargerThan<F16>(source, count, largest);
    case DType::kBF16:
      return FirstLargerThan<BF16>(source, count, largest);
    case DType::kI8:
    case DType::kI4:
      break;
  }
  return -1;
}

}  // namespace longstream
